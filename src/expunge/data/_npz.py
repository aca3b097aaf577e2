"""Inputs and labels in one ``.npz`` file, as ``numpy.savez`` writes it."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from expunge._errors import DataError, InvalidInput
from expunge.data._archive import check_unpacked_size
from expunge.data._examples import Examples
from expunge.data._formats import MAX_TOKENS
from expunge.data._images import image_set_from
from expunge.data._splits import split_off

MAX_LABEL = 65_535
_LABEL_KEYS = ("y", "y_train", "y_test", "y_val")
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,  # pickled objects, or a broken header
    AttributeError,  # a single .npy array
    RuntimeError,  # an encrypted zip
    MemoryError,  # a header that promises more than there is
)

Arrays = dict[str, npt.NDArray[Any]]


def load_npz(root: Path, **options: Any) -> tuple[Examples, Examples, Examples | None]:
    """(train, test, val) from the keys ``x_train, y_train, x_test, y_test``, or from ``x, y``.

    Val has the keys ``x_val, y_val``, if they are there beside ``x_train``.

    Of ``x, y`` a fixed 20 % of every class becomes test (of a regression: of all).

    * Images are NHW, NHWC or NCHW with 1 or 3 channels (where both fit, the last axis is taken);
      whole numbers in 0..255, or fractions in [0, 1], which become ``round(255 * x)``.
    * Two axes are vectors, [N, F] of any numbers; with the option ``kind=tokens``, token ids.

    Labels are whole numbers from 0; with ``task=regression``, any numbers. ``classes`` may name
    the classes and ``ids`` the training examples (of ``x, y``: all examples).
    """
    arrays = _read(root)
    if "x_train" not in arrays:
        full = _examples(root, arrays, "x", "y", options, _ids(arrays))
        rest, held = split_off(full)
        return full.subset(rest), full.subset(held), None
    train = _examples(root, arrays, "x_train", "y_train", options, _ids(arrays))
    test = _examples(root, arrays, "x_test", "y_test", options)
    has_val = "x_val" in arrays
    return train, test, _examples(root, arrays, "x_val", "y_val", options) if has_val else None


def _read(path: Path) -> Arrays:
    """All arrays of the file."""
    if not path.is_file():
        raise DataError(f"There is no file {path}. Check the path.")
    try:
        with path.open("rb") as file:
            _check_sizes(path)
            content = np.load(file, allow_pickle=False)
            arrays = {key: np.asarray(content[key]) for key in content.files}
    except _BROKEN as error:
        raise DataError(
            f"{path} cannot be read as an .npz file of plain arrays: {error}. Save it again with "
            "numpy.savez, without Python objects."
        ) from error
    keys = ["x_train", "y_train", "x_test", "y_test"] if "x_train" in arrays else ["x", "y"]
    missing = [key for key in keys + ["y_val"] * ("x_val" in arrays) if key not in arrays]
    if missing:
        raise DataError(
            f"{path} should hold x_train, y_train, x_test and y_test, or x and y. "
            f"(missing: {', '.join(missing)}; found: {', '.join(sorted(arrays)) or 'none'})"
        )
    return arrays


def _check_sizes(path: Path) -> None:
    """Refuse a bomb by the sizes that its members declare, which zipfile reads no further than."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            total += info.file_size
            check_unpacked_size(
                path,
                info.filename,
                total,
                "If you trust it, save it again with numpy.savez, "
                "which does not compress, or in several files.",
            )


def _classes(path: Path, arrays: Arrays) -> list[str]:
    if "classes" in arrays:
        return [str(name) for name in arrays["classes"].reshape(-1)]
    labels = [_labels(path, key, arrays[key]) for key in arrays if key in _LABEL_KEYS]
    top = max(y.max(initial=0) for y in labels)
    if top > MAX_LABEL:
        raise DataError(f"{path}: labels should be in 0..{MAX_LABEL}. (got {top}) Renumber them.")
    return [str(label) for label in range(1 + top)]


def _ids(arrays: Arrays) -> list[str] | None:
    return [str(name) for name in arrays["ids"].reshape(-1)] if "ids" in arrays else None


def _examples(
    path: Path,
    arrays: Arrays,
    x: str,
    y: str,
    options: Mapping[str, Any],
    names: list[str] | None = None,
) -> Examples:
    kind = options.get("kind") or ("vectors" if arrays[x].ndim == 2 else "images")
    source = f"{path} ({x})"
    labels: npt.NDArray[Any]
    if options.get("task") == "regression":
        labels, classes = _numbers(path, y, arrays[y]), []
    else:
        labels, classes = _labels(path, y, arrays[y]), _classes(path, arrays)
    if kind == "images" and classes:
        return image_set_from(source, _images(path, x, arrays[x]), labels, classes, names)
    inputs = {"images": _images, "vectors": _vectors, "tokens": _tokens}[kind](path, x, arrays[x])
    try:
        return Examples(
            torch.from_numpy(np.ascontiguousarray(inputs)),
            torch.from_numpy(np.ascontiguousarray(labels)),
            classes,
            names,
        )
    except InvalidInput as error:
        raise DataError(f"{source}: {error}") from error


def _vectors(path: Path, key: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """``values`` as float32 [N, F]."""
    _check_table(path, key, values, np.number)
    made = values.astype(np.float32)
    if not np.isfinite(made).all():
        row = int(np.flatnonzero(~np.isfinite(made).all(axis=1))[0])
        raise DataError(f"{path}: {key} should be finite. (NaN or infinity at index {row})")
    return made


def _tokens(path: Path, key: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """``values`` as int64 [N, L]."""
    _check_table(path, key, values, np.integer)
    for value in (values.min(initial=0), values.max(initial=0)):
        if value not in range(MAX_TOKENS):
            raise DataError(
                f"{path}: {key} should hold token ids in 0..{MAX_TOKENS - 1}. (got {value})"
            )
    return values.astype(np.int64)


def _check_table(path: Path, key: str, values: npt.NDArray[Any], kind: type[Any]) -> None:
    what = "whole numbers" if kind is np.integer else "numbers"
    if values.ndim != 2 or not values.shape[1] or not np.issubdtype(values.dtype, kind):
        raise DataError(
            f"{path}: {key} should be {what} of shape [N, F]. "
            f"(got {values.dtype} of shape {values.shape})"
        )


def _numbers(path: Path, key: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if not np.issubdtype(values.dtype, np.number) or values.size != len(np.atleast_1d(values)):
        raise DataError(
            f"{path}: {key} should hold one number per example. "
            f"(got {values.dtype} of shape {values.shape})"
        )
    return values.reshape(-1).astype(np.float32)


def _labels(path: Path, key: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if not np.issubdtype(values.dtype, np.integer) or values.size != len(np.atleast_1d(values)):
        raise DataError(
            f"{path}: {key} should hold one whole number per image. "
            f"(got {values.dtype} of shape {values.shape})"
        )
    return values.reshape(-1).astype(np.int64)


def _images(path: Path, key: str, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """``values`` as uint8 NCHW."""
    shape = values.shape
    if values.ndim == 3:
        values = values[:, None]
    elif values.ndim == 4 and shape[3] in (1, 3):
        values = values.transpose(0, 3, 1, 2)
    elif values.ndim != 4 or shape[1] not in (1, 3):
        raise DataError(
            f"{path}: {key} should be NHW, NHWC or NCHW with 1 or 3 channels. (got shape {shape})"
        )
    if 0 in values.shape[1:]:
        raise DataError(f"{path}: {key} should hold images of a pixel or more. (got {shape})")
    if values.dtype == np.uint8:
        return values
    fractions = np.issubdtype(values.dtype, np.floating)
    top = 1 if fractions else 255
    if not (fractions or np.issubdtype(values.dtype, np.integer)):
        raise DataError(f"{path}: {key} should hold numbers. (got {values.dtype})")
    if not ((values >= 0) & (values <= top)).all():  # also False for NaN
        raise DataError(
            f"{path}: {key} of type {values.dtype} should be in [0, {top}]. "
            f"(got {values.min()} to {values.max()})"
        )
    scaled = np.rint(values.astype(np.float32) * 255) if fractions else values
    return scaled.astype(np.uint8)
