"""Image datasets that everybody knows: CIFAR-10, CIFAR-100 and SVHN as published, and digits.

Each loader takes the folder (or archive) of the official files. Without one, the download cache is
searched, and the files are downloaded into it if needed.
"""

from __future__ import annotations

import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from expunge._errors import DataError, InvalidInput
from expunge.data._download import cache_dir, fetch
from expunge.data._examples import ImageSet, made_from
from expunge.data._splits import split_stratified

CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
SVHN_MD5 = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
PIXELS = 3 * 32 * 32
DIGITS = tuple("0123456789")
CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""


@dataclass(frozen=True)
class CifarLayout:
    """What distinguishes the two CIFAR data sets, in their binary version.

    ``train`` and ``test`` are files with their numbers of images. A record of one begins with
    ``label_bytes``, the last of which is the label. ``md5`` is that of the ``archive``.
    """

    title: str
    classes: tuple[str, ...]
    train: dict[str, int]
    test: dict[str, int]
    label_bytes: int
    folder: str
    archive: str
    md5: str


CIFAR10 = CifarLayout(
    "CIFAR-10",
    tuple(CIFAR10_NAMES.split()),
    {f"data_batch_{number}.bin": 10_000 for number in range(1, 6)},
    {"test_batch.bin": 10_000},
    label_bytes=1,
    folder="cifar-10-batches-bin",
    archive="cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
)
CIFAR100 = CifarLayout(
    "CIFAR-100",
    tuple(CIFAR100_NAMES.split()),
    {"train.bin": 50_000},
    {"test.bin": 10_000},
    label_bytes=2,  # coarse and fine
    folder="cifar-100-binary",
    archive="cifar-100-binary.tar.gz",
    md5="03b5dce01913d631647c71ecec9e9cb8",
)


def load_cifar10(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): 50,000 and 10,000 images of 3 x 32 x 32."""
    return _load_cifar(CIFAR10, root)


def load_cifar100(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): 50,000 and 10,000 images of 3 x 32 x 32, with their 100 fine labels."""
    return _load_cifar(CIFAR100, root)


def _load_cifar(layout: CifarLayout, root: Path | None) -> tuple[ImageSet, ImageSet]:
    source = _locate_cifar(layout, root)
    files = _read_files(source, layout.folder, [*layout.train, *layout.test])
    length = layout.label_bytes + PIXELS
    for name, count in (layout.train | layout.test).items():
        if len(files[name]) != count * length:
            raise DataError(
                f"{source}: {name} should be {count * length} bytes. (got {len(files[name])}) "
                "It is truncated or damaged; get the official archive again."
            )
    sets = []
    for part in (layout.train, layout.test):
        content = b"".join(files[name] for name in part)
        records = np.frombuffer(content, np.uint8).reshape(-1, length)
        pixels = records[:, layout.label_bytes :].reshape(-1, 3, 32, 32)
        labels = records[:, layout.label_bytes - 1]
        sets.append(made_from(source, ImageSet, pixels, labels, layout.classes))
    return sets[0], sets[1]


def _read_files(source: Path, folder: str, names: list[str]) -> dict[str, bytes]:
    """Files of a folder, or of ``folder`` in a tar archive, by name."""
    try:
        if source.is_dir():
            return {name: (source / name).read_bytes() for name in names}
        wanted = {f"{folder}/{name}": name for name in names}
        files: dict[str, bytes] = {}
        with tarfile.open(source) as archive:
            for member in archive:
                if member.name in wanted and (file := archive.extractfile(member)):
                    files[wanted[member.name]] = file.read()
        return {name: files[name] for name in names}
    except (OSError, EOFError, KeyError, tarfile.TarError, zlib.error) as error:
        raise DataError(
            f"{source} should hold {', '.join(names)}. ({error}) Get a fresh copy of the official "
            "archive."
        ) from error


def _locate_cifar(layout: CifarLayout, root: Path | None) -> Path:
    """The archive, the folder in it, or the folder of the files, which ``root`` is or holds."""
    folder = cache_dir() if root is None else root
    if folder.is_file() or any((folder / name).is_file() for name in layout.train):
        return folder
    for place in (folder / layout.folder, folder / layout.archive):
        if place.exists():
            return place
    if root is None:
        return fetch(CIFAR_URL + layout.archive, folder / layout.archive, layout.md5)
    raise DataError(
        f"There is no {layout.title} in {root}. It should hold {layout.folder} or "
        f"{layout.archive}, the binary version at {CIFAR_URL}cifar.html."
    )


def load_svhn(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): 73,257 and 26,032 cropped digits of 3 x 32 x 32."""
    train, test = (_read_svhn(_locate_svhn(root, name, md5)) for name, md5 in SVHN_MD5.items())
    return train, test


def _locate_svhn(root: Path | None, name: str, md5: str) -> Path:
    if root is None:
        return fetch(SVHN_URL + name, cache_dir() / name, md5)
    if not (root / name).is_file():
        raise DataError(
            f"There is no {name} in {root}. Put the official file from {SVHN_URL} there."
        )
    return root / name


def _read_svhn(path: Path) -> ImageSet:
    """One official file: ``X`` uint8 [32, 32, 3, N] and ``y`` [N, 1] with digit 0 labelled 10."""
    from scipy import io

    try:
        content = io.loadmat(path, variable_names=["X", "y"])
        images, labels = content["X"], content["y"].reshape(-1)
    except Exception as error:  # the parser fails in too many ways to list on a damaged file
        raise DataError(
            f"{path} cannot be read as a MATLAB file with X and y: {error!r}. Get a fresh copy."
        ) from error
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataError(
            f"{path}: X should be uint8 of shape (32, 32, 3, N). "
            f"(got {images.dtype} of shape {images.shape})"
        )
    wrong = np.flatnonzero(~np.isin(labels, range(1, 11)))
    if len(wrong):
        raise DataError(
            f"{path}: y should be in 1..10. (got {labels[wrong[0]]} at index {wrong[0]})"
        )
    return made_from(path, ImageSet, images.transpose(3, 2, 0, 1), labels % 10, DIGITS)


def load_digits(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """scikit-learn's 1,797 grey images of 8 x 8 in a fixed stratified split; 16 becomes 255."""
    from sklearn import datasets

    if root is not None:
        raise InvalidInput(f"`digits` comes with scikit-learn and takes no path. (got {root})")
    bunch = datasets.load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    full = made_from("digits", ImageSet, pixels, bunch.target, DIGITS)
    train, test = split_stratified(full.labels, fraction=0.25)
    return full.subset(train), full.subset(test)
