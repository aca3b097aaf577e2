"""CIFAR-10 from its official archives: binary or python version, packed or unpacked."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from expunge._errors import DataError
from expunge.data._archive import list_files
from expunge.data._download import cache_dir, fetch
from expunge.data._images import ImageSet, image_set_from

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
RECORDS = 10_000  # in every official batch
PIXELS = 3 * 32 * 32

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)

# Unpacked before packed, and the binary version first: it needs no unpickling.
PLACES = (
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    "cifar-10-binary.tar.gz",
    "cifar-10-python.tar.gz",
)
URL = "https://www.cs.toronto.edu/~kriz/"
MD5 = {
    "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
    "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
}

RawBatch = tuple[npt.NDArray[np.uint8], Sequence[int], list[str] | None]
"""Pixels [N, 3072], labels and file names (if any)."""


def load_cifar10(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): 50,000 and 10,000 images of 3 x 32 x 32.

    ``root`` is one of the official archives, the folder in it, or a folder holding any of those.
    Without a root the cache is searched, and the binary archive is downloaded into it if needed.
    Images of the python version have names, those of the binary version do not.
    """
    source = _locate(root)
    files = list_files(source, _is_batch)
    batches = {PurePosixPath(name).name: read() for name, read in files.items()}
    return _join(source, TRAIN, batches), _join(source, TEST, batches)


def _locate(root: Path | None) -> Path:
    folder = cache_dir() if root is None else root
    if folder.is_file() or any((folder / name).is_file() for name in _stored(TEST + TRAIN)):
        return folder
    for place in PLACES:
        if (folder / place).exists():
            return folder / place
    if root is None:
        archive = "cifar-10-binary.tar.gz"
        return fetch(URL + archive, folder / archive, MD5[archive])
    raise DataError(
        f"There is no CIFAR-10 in {root}. It should hold one of {', '.join(PLACES)}, "
        f"as found at {URL}cifar.html."
    )


def _stored(batches: tuple[str, ...]) -> set[str]:
    return {batch + suffix for batch in batches for suffix in ("", ".bin")}


def _is_batch(place: PurePosixPath) -> bool:
    folder = place.parts[:-1]
    return place.name in _stored(TRAIN + TEST) and folder in ((), *((p,) for p in PLACES[:2]))


def _join(source: Path, names: tuple[str, ...], files: dict[str, bytes]) -> ImageSet:
    batches = [_read_batch(source, name, files) for name in names]
    pixels = np.concatenate([batch[0] for batch in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([batch[1] for batch in batches])
    titles = [title for batch in batches for title in batch[2] or ()]
    return image_set_from(source, pixels, labels, CLASSES, titles or None)


def _read_batch(source: Path, name: str, files: dict[str, bytes]) -> RawBatch:
    if f"{name}.bin" in files:
        return _read_binary_batch(f"{source}: {name}.bin", files[f"{name}.bin"])
    if name not in files:
        raise DataError(
            f"{source} lacks the batch {name}. (found: {', '.join(sorted(files)) or 'none'}) "
            "Get the official archive again."
        )
    pixels, labels, titles = _read_pickled_batch(f"{source}: {name}", files[name])
    if pixels.shape != (RECORDS, PIXELS) or len(labels) != RECORDS:
        raise DataError(
            f"{source}: {name} should hold {RECORDS} images of {PIXELS} bytes and their labels. "
            f"(got pixels of shape {pixels.shape} and {len(labels)} labels)"
        )
    return pixels, labels, titles


def _read_binary_batch(source: str, data: bytes) -> RawBatch:
    expected = RECORDS * (1 + PIXELS)
    if len(data) != expected:
        raise DataError(
            f"{source} should be {expected} bytes. (got {len(data)}) "
            "It is truncated or damaged; get the official archive again."
        )
    records = np.frombuffer(data, np.uint8).reshape(RECORDS, 1 + PIXELS)
    return records[:, 1:], records[:, 0].tolist(), None


# The python version's batches are pickles, and a pickle is a program that may call whatever it can
# import. Here it can import five names, the ones the official files use, and even these are
# stand-ins: they record what an array would be made of, and numpy sees the bytes only after their
# number has been checked.


class _Dtype:
    """Stands in for ``numpy.dtype``."""

    def __init__(self, code: str | bytes = "", *_: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and the like, which do not apply to single bytes."""


class _Array:
    """Stands in for ``numpy.ndarray``: shape, dtype, order and bytes as stated."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def to_numpy(self) -> npt.NDArray[np.uint8]:
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _Dtype) or dtype.code not in ("u1", "|u1"):
            raise ValueError("the array does not hold unsigned bytes")
        return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"unexpected encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which no official batch does"
            ) from None

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to outside objects, which no official batch does")


def _read_pickled_batch(source: str, data: bytes) -> RawBatch:
    """Read one batch of the python version."""
    try:
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        batch = {_text(key): value for key, value in content.items()}
        pixels = batch["data"].to_numpy()
        labels = [int(label) for label in batch["labels"]]
        names = [_text(name) for name in batch["filenames"]] if "filenames" in batch else None
    except Exception as error:  # arbitrary bytes make an unpickler fail in arbitrary ways
        raise DataError(
            f"{source} is not an official CIFAR-10 python batch: {type(error).__name__}: {error}. "
            "Get it again from the official archive."
        ) from error
    return pixels, labels, names


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value
