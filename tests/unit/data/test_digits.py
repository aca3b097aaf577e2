from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import InvalidInput
from expunge.data._digits import load_digits


def test_grey_levels_span_a_byte():
    train, _ = load_digits()
    assert (int(train.images.min()), int(train.images.max())) == (0, 255)
    assert train.shape == (1, 8, 8)


def test_the_split_is_fixed_and_stratified():
    (train, test), (again, _) = load_digits(), load_digits()
    assert len(train) + len(test) == 1797
    assert train.fingerprint() == again.fingerprint()
    total = train.labels.bincount() + test.labels.bincount()
    assert ((test.labels.bincount() - total * 0.25).abs() <= 0.5).all()


def test_a_path_makes_no_sense():
    with pytest.raises(InvalidInput, match="takes no path"):
        load_digits(Path("here"))
