"""CIFAR-10's python batches, read without running anything that a pickle could name.

A pickle is a program that may call whatever it can import. Here it can import five names, the
ones the official files use, and even these are stand-ins: they write down what an array would be
made of, and numpy sees the bytes only after their number has been checked.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from expunge._errors import DataError


class _Dtype:
    """Stands in for ``numpy.dtype``."""

    def __init__(self, code: str | bytes = "", *_: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        """Byte order and the like, which single bytes do not have."""


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


def read_pickled_batch(
    source: str, data: bytes
) -> tuple[npt.NDArray[np.uint8], list[int], list[str] | None]:
    """Pixels [N, 3072], labels and file names (if any) of one python batch."""
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
