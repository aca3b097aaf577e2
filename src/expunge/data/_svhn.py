"""SVHN, cropped digits: the official ``train_32x32.mat`` and ``test_32x32.mat``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expunge._errors import DataError
from expunge.data._download import cache_dir, fetch
from expunge.data._images import ImageSet, image_set_from

CLASSES = tuple("0123456789")
URL = "http://ufldl.stanford.edu/housenumbers/"
MD5 = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}


def load_svhn(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test) from the folder ``root``, or from the cache, downloaded if needed."""
    train, test = (read_mat(_locate(root, name)) for name in MD5)
    return train, test


def read_mat(path: Path) -> ImageSet:
    """One official file: ``X`` uint8 [32, 32, 3, N] and ``y`` [N, 1] with digit 0 labelled 10."""
    from scipy import io

    try:
        content = io.loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # the parser fails in too many ways to list on a damaged file
        raise DataError(
            f"{path} cannot be read as a MATLAB file: {error}. Get a fresh copy of it."
        ) from error
    missing = {"X", "y"} - content.keys()
    if missing:
        raise DataError(f"{path} should hold X and y. (missing: {', '.join(sorted(missing))})")
    images, labels = content["X"], content["y"].reshape(-1)
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
    return image_set_from(path, images.transpose(3, 2, 0, 1), labels % 10, CLASSES)


def _locate(root: Path | None, name: str) -> Path:
    if root is None:
        return fetch(URL + name, cache_dir() / name, MD5[name])
    if not (root / name).is_file():
        raise DataError(f"There is no {name} in {root}. Put the official file from {URL} there.")
    return root / name
