"""The official archives of CIFAR-10 and CIFAR-100: binary or python version, packed or unpacked."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from expunge._errors import DataError
from expunge.data._archive import list_files
from expunge.data._download import cache_dir, fetch
from expunge.data._images import ImageSet, image_set_from

PIXELS = 3 * 32 * 32
URL = "https://www.cs.toronto.edu/~kriz/"

RawBatch = tuple[npt.NDArray[np.uint8], Sequence[int], list[str] | None]
"""Pixels [N, 3072], labels and file names (if any)."""


@dataclass(frozen=True)
class CifarLayout:
    """What distinguishes the two data sets.

    ``train`` and ``test`` are batches, by name, with their numbers of images. A record of the
    binary version begins with ``label_bytes``, the last of which is the label; the python version
    has it under ``labels_key``. ``folders`` and ``archives`` are those of the binary version, then
    of the python version; ``md5`` is that of the first archive.
    """

    title: str
    classes: tuple[str, ...]
    train: dict[str, int]
    test: dict[str, int]
    label_bytes: int
    labels_key: str
    folders: tuple[str, str]
    archives: tuple[str, str]
    md5: str

    @property
    def batches(self) -> dict[str, int]:
        """All batches with their numbers of images."""
        return self.train | self.test

    @property
    def places(self) -> tuple[str, ...]:
        """Unpacked before packed, and the binary version first: it needs no unpickling."""
        return (*self.folders, *self.archives)

    @property
    def stored(self) -> set[str]:
        """The names of the files that hold batches."""
        return {batch + suffix for batch in self.batches for suffix in ("", ".bin")}


def load_cifar(layout: CifarLayout, root: Path | None) -> tuple[ImageSet, ImageSet]:
    """(train, test) from an archive, the folder in it, a folder around those, or the cache."""
    source = _locate(layout, root)

    def is_batch(place: PurePosixPath) -> bool:
        folder = place.parts[:-1]
        return place.name in layout.stored and folder in ((), *((f,) for f in layout.folders))

    files = {
        PurePosixPath(name).name: read() for name, read in list_files(source, is_batch).items()
    }
    train, test = (_join(layout, source, part, files) for part in (layout.train, layout.test))
    return train, test


def _locate(layout: CifarLayout, root: Path | None) -> Path:
    folder = cache_dir() if root is None else root
    if folder.is_file() or any((folder / name).is_file() for name in layout.stored):
        return folder
    for place in layout.places:
        if (folder / place).exists():
            return folder / place
    if root is None:
        archive = layout.archives[0]
        return fetch(URL + archive, folder / archive, layout.md5)
    raise DataError(
        f"There is no {layout.title} in {root}. It should hold one of {', '.join(layout.places)}, "
        f"as found at {URL}cifar.html."
    )


def _join(
    layout: CifarLayout, source: Path, part: dict[str, int], files: dict[str, bytes]
) -> ImageSet:
    batches = [_read_batch(layout, source, name, files) for name in part]
    pixels = np.concatenate([batch[0] for batch in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([batch[1] for batch in batches])
    titles = [title for batch in batches for title in batch[2] or ()]
    return image_set_from(source, pixels, labels, layout.classes, titles or None)


def _read_batch(layout: CifarLayout, source: Path, name: str, files: dict[str, bytes]) -> RawBatch:
    if f"{name}.bin" in files:
        return _read_binary_batch(layout, f"{source}: {name}.bin", name, files[f"{name}.bin"])
    if name not in files:
        raise DataError(
            f"{source} lacks the batch {name}. (found: {', '.join(sorted(files)) or 'none'}) "
            "Get the official archive again."
        )
    records = layout.batches[name]
    pixels, labels, titles = _read_pickled_batch(f"{source}: {name}", files[name], layout)
    if pixels.shape != (records, PIXELS) or len(labels) != records:
        raise DataError(
            f"{source}: {name} should hold {records} images of {PIXELS} bytes and their labels. "
            f"(got pixels of shape {pixels.shape} and {len(labels)} labels)"
        )
    return pixels, labels, titles


def _read_binary_batch(layout: CifarLayout, source: str, name: str, data: bytes) -> RawBatch:
    records, length = layout.batches[name], layout.label_bytes + PIXELS
    if len(data) != records * length:
        raise DataError(
            f"{source} should be {records * length} bytes. (got {len(data)}) "
            "It is truncated or damaged; get the official archive again."
        )
    rows = np.frombuffer(data, np.uint8).reshape(records, length)
    labels = rows[:, layout.label_bytes - 1]
    return rows[:, layout.label_bytes :], labels.tolist(), None


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


def _read_pickled_batch(source: str, data: bytes, layout: CifarLayout) -> RawBatch:
    """Read one batch of the python version."""
    try:
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        batch = {_text(key): value for key, value in content.items()}
        pixels = batch["data"].to_numpy()
        labels = [int(label) for label in batch[layout.labels_key]]
        names = [_text(name) for name in batch["filenames"]] if "filenames" in batch else None
    except Exception as error:  # arbitrary bytes make an unpickler fail in arbitrary ways
        raise DataError(
            f"{source} is not an official {layout.title} python batch: {type(error).__name__}: "
            f"{error}. Get it again from the official archive."
        ) from error
    return pixels, labels, names


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value
