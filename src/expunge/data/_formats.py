"""The dataset formats by name, and one call that loads any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._errors import DataError, InvalidInput
from expunge._files import is_there
from expunge._lazy import deferred
from expunge._options import check_seed
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.data._images import ImageSet
    from expunge.data._splits import Splits


@dataclass(frozen=True)
class Format:
    """One dataset format.

    ``load`` takes a path (or None) and gives (train, test); ``load_val`` gives a validation part
    that the files define themselves, or None. ``flip``: a mirror image keeps its label.
    """

    name: str
    description: str
    load: Callable[[Any], tuple[ImageSet, ImageSet]]
    flip: bool
    needs_path: bool = False
    load_val: Callable[[Any], ImageSet | None] | None = None


DATASETS: Registry[Format] = Registry("dataset")
for _format in (
    Format(
        "digits",
        "1,797 handwritten digits of 8 x 8, built in",
        deferred("expunge.data._digits:load_digits"),
        flip=False,
    ),
    Format(
        "cifar10",
        "CIFAR-10 from its official archives",
        deferred("expunge.data._cifar10:load_cifar10"),
        flip=True,
    ),
    Format(
        "svhn",
        "SVHN, cropped digits, from its official .mat files",
        deferred("expunge.data._svhn:load_svhn"),
        flip=False,
    ),
    Format(
        "folder",
        "images in one folder per class, or a zip or tar of that",
        deferred("expunge.data._folder:load_folder"),
        flip=True,
        needs_path=True,
        load_val=deferred("expunge.data._folder:load_folder_val"),
    ),
    Format(
        "npz",
        "arrays x_train, y_train, x_test, y_test (or x, y) in an .npz file",
        deferred("expunge.data._npz:load_npz"),
        flip=True,
        needs_path=True,
        load_val=deferred("expunge.data._npz:load_npz_val"),
    ),
    Format(
        "qa",
        "questions and answers in the format of TOFU, for `forget` from language models",
        deferred("expunge.data.text._records:refuse_as_images"),
        flip=False,
        needs_path=True,
    ),
):
    DATASETS.add(_format.name, _format)


def load(
    spec: str,
    root: str | Path | None = None,
    *,
    seed: int = 0,
    val_fraction: float = 0.1,
    limit: int | None = None,
) -> Splits:
    """Load a dataset and hold out its validation part.

    Args:
        spec: A name of :data:`DATASETS`, a name with a path (``cifar10:/data``), or the path of an
            image folder, an archive of one, or an ``.npz`` file.
        root: The path, if not in ``spec``. cifar10 and svhn without one use the download cache.
        seed: Decides which images are held out, and which ``limit`` keeps.
        val_fraction: The part of the training images that becomes val, exactly
            ``round(val_fraction * N)``; ignored if the files define a validation part.
        limit: Keep only this many of the remaining training images, evenly over the classes.

    >>> splits = load("digits", limit=100)
    >>> len(splits.train), len(splits.val), len(splits.test), splits.flip
    (100, 135, 450, False)
    """
    kind, path = find_data(spec, root)
    check_seed(seed)

    from expunge.data._splits import Splits, hold_out, thin_out

    train, test = kind.load(path)
    for part, images in (("train", train), ("test", test)):
        if not len(images):
            raise DataError(f"The {part} part of {spec} should hold images. (got none)")
    val = kind.load_val(path) if kind.load_val else None
    if val is None:
        train, val = hold_out(train, val_fraction, seed)
    if limit is not None:
        train = thin_out(train, limit, seed)
    return Splits(kind.name, train, val, test, kind.flip)


def find_data(spec: str, root: str | Path | None = None) -> tuple[Format, Path | None]:
    """The format and the path that :func:`load` would use; its arguments are checked."""
    if not isinstance(spec, str):
        raise InvalidInput(f"A dataset should be a name or a path, as a string. (got {spec!r})")
    name, _, inline = spec.partition(":")
    if name not in DATASETS and _is_path(name, spec):
        name, inline = "npz" if spec.lower().endswith(".npz") else "folder", spec
    kind = DATASETS[name]
    if inline and root is not None:
        raise InvalidInput(f"The path should be given once. (got {inline} and {root})")
    place = inline or root
    if kind.needs_path and not place:
        raise InvalidInput(
            f"The dataset {kind.name!r} should come with a path, like {kind.name}:/data/mine."
        )
    path = Path(place).expanduser() if place else None
    if path is not None and not is_there(path):
        raise DataError(f"There is no file or folder {path}. Check the path.")
    return kind, path


def _is_path(name: str, spec: str) -> bool:
    """Whether ``spec`` is a path by itself: one that exists, or looks like one that should."""
    looks = "/" in name or name.lower().endswith(".npz")
    return looks or is_there(Path(spec).expanduser())
