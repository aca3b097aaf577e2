"""Inputs and labels in one ``.npz`` file, as ``numpy.savez`` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from expunge._errors import DataError
from expunge.data._examples import Examples, ImageSet, made_from
from expunge.data._formats import MAX_TOKENS

MAX_LABEL = 65_535
ALWAYS_FINE, MAX_RATIO = 256 << 20, 100
"""Bytes that may be unpacked from any file; beyond that, bytes per byte of the file."""
Arrays = dict[str, npt.NDArray[Any]]


def load_npz(root: Path, **options: Any) -> tuple[Examples, Examples | None, Examples | None]:
    """(train, test, val) from the keys ``x_train, y_train, …``, or ``x, y``: see docs/data.md."""
    arrays = _read(root)
    ids = [str(name) for name in arrays["ids"].reshape(-1)] if "ids" in arrays else None
    if "x_train" not in arrays:
        return _examples(root, arrays, "x", "y", options, ids), None, None
    train = _examples(root, arrays, "x_train", "y_train", options, ids)
    test = _examples(root, arrays, "x_test", "y_test", options)
    has_val = "x_val" in arrays
    return train, test, _examples(root, arrays, "x_val", "y_val", options) if has_val else None


def _read(path: Path) -> Arrays:
    """All arrays of the file."""
    if not path.is_file():
        raise DataError(f"There is no file {path}. Check the path.")
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            unpacked = sum(info.file_size for info in content.zip.infolist())
            if unpacked > max(ALWAYS_FINE, MAX_RATIO * path.stat().st_size):
                raise DataError(
                    f"{path} would unpack to {MAX_RATIO} times its own size. (got {unpacked >> 20} "
                    "MiB) If you trust it, save it again with numpy.savez, which does not compress."
                )
            arrays = {key: np.asarray(content[key]) for key in content.files}
    except DataError:
        raise
    except Exception as error:  # damaged files fail in too many ways to list
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


def _examples(
    path: Path,
    arrays: Arrays,
    x: str,
    y: str,
    options: Mapping[str, Any],
    names: list[str] | None = None,
) -> Examples:
    kind = options.get("kind") or ("vectors" if arrays[x].ndim == 2 else "images")
    readers: dict[str, Callable[..., npt.NDArray[Any]]]
    readers = {"images": _images, "vectors": _vectors, "tokens": _tokens}
    inputs = readers[kind](path, x, arrays[x])
    regression = options.get("task") == "regression"
    labels = _labels(path, y, arrays[y], np.number if regression else np.integer)
    classes = [] if regression else _classes(path, arrays)
    targets = labels.astype(np.float32 if regression else np.int64)
    made = ImageSet if kind == "images" and classes else Examples
    return made_from(f"{path} ({x})", made, inputs, targets, classes, names)


def _classes(path: Path, arrays: Arrays) -> list[str]:
    if "classes" in arrays:
        return [str(name) for name in arrays["classes"].reshape(-1)]
    keys = [key for key in ("y", "y_train", "y_test", "y_val") if key in arrays]
    top = max(_labels(path, key, arrays[key], np.integer).max(initial=0) for key in keys)
    if top > MAX_LABEL:
        raise DataError(f"{path}: labels should be in 0..{MAX_LABEL}. (got {top}) Renumber them.")
    return [str(label) for label in range(1 + int(top))]


def _labels(path: Path, key: str, values: npt.NDArray[Any], kind: Any) -> npt.NDArray[Any]:
    """``values`` of shape [N]."""
    if not np.issubdtype(values.dtype, kind) or values.size != len(np.atleast_1d(values)):
        raise DataError(
            f"{path}: {key} should hold one {'whole ' if kind is np.integer else ''}number per "
            f"example. (got {values.dtype} of shape {values.shape})"
        )
    return values.reshape(-1)


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


def _check_table(path: Path, key: str, values: npt.NDArray[Any], kind: Any) -> None:
    if values.ndim != 2 or not values.shape[1] or not np.issubdtype(values.dtype, kind):
        raise DataError(
            f"{path}: {key} should be {'whole ' if kind is np.integer else ''}numbers of shape "
            f"[N, F]. (got {values.dtype} of shape {values.shape})"
        )


def _images(path: Path, key: str, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """``values`` as uint8 NCHW."""
    shape = values.shape
    if values.ndim == 3:
        values = values[:, None]
    elif values.ndim == 4 and shape[3] in (1, 3):
        values = values.transpose(0, 3, 1, 2)
    if values.ndim != 4 or values.shape[1] not in (1, 3) or 0 in values.shape[1:]:
        raise DataError(
            f"{path}: {key} should be NHW, NHWC or NCHW with 1 or 3 channels. (got shape {shape})"
        )
    if values.dtype == np.uint8:
        return values
    fractions = np.issubdtype(values.dtype, np.floating)
    if not (fractions or np.issubdtype(values.dtype, np.integer)):
        raise DataError(f"{path}: {key} should hold numbers. (got {values.dtype})")
    top = 1 if fractions else 255
    if not ((values >= 0) & (values <= top)).all():  # also False for NaN
        raise DataError(
            f"{path}: {key} of type {values.dtype} should be in [0, {top}]. "
            f"(got {values.min()} to {values.max()})"
        )
    scaled = np.rint(values.astype(np.float32) * 255) if fractions else values
    return scaled.astype(np.uint8)
