"""scikit-learn's handwritten digits: 1,797 grey images of 8 x 8 that need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expunge._errors import InvalidInput
from expunge.data._images import ImageSet, image_set_from
from expunge.data._splits import split_stratified

CLASSES = tuple("0123456789")


def load_digits(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): a fixed stratified split, 75 % and 25 %; grey levels 0..16 become 0..255.

    >>> load_digits()
    (ImageSet(1347 images of (1, 8, 8), 10 classes), ImageSet(450 images of (1, 8, 8), 10 classes))
    """
    from sklearn import datasets

    if root is not None:
        raise InvalidInput(f"`digits` comes with scikit-learn and takes no path. (got {root})")
    bunch = datasets.load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    full = image_set_from("digits", pixels, bunch.target, CLASSES)
    train, test = split_stratified(full.labels, fraction=0.25)
    return full.subset(train), full.subset(test)
