"""Examples of any kind: what they are, and what does not fit together."""

from __future__ import annotations

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.data import Examples, ImageSet
from expunge.data._batches import as_arrays

LABELS = torch.tensor([0, 1, 1])


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (torch.zeros(3, 1, 4, 4, dtype=torch.uint8), "images"),
        (torch.zeros(3, 5), "vectors"),
        (torch.zeros(3, 5, dtype=torch.int64), "tokens"),
        (torch.zeros(3, 1, 4, 4), "tensors"),
        (torch.zeros(3), "tensors"),
    ],
)
def test_type_and_shape_say_what_inputs_are(inputs, kind):
    assert Examples(inputs, LABELS, ("a", "b")).kind == kind


def test_an_image_set_is_a_set_of_examples_under_another_name():
    images = ImageSet(torch.zeros(3, 1, 4, 4, dtype=torch.uint8), LABELS, ("a", "b"))
    assert isinstance(images, Examples)
    assert images.images is images.inputs
    assert isinstance(images.subset([1]), ImageSet)
    assert repr(images) == "ImageSet(3 images of (1, 4, 4), 2 classes)"
    arrays = as_arrays(images)
    assert arrays is not None
    assert arrays[0] is images.inputs


def test_without_classes_labels_are_the_numbers_of_a_regression():
    data = Examples(torch.zeros(2, 4), torch.tensor([1.5, -2.0]), ())
    assert data.is_regression
    assert data.num_classes == 0
    assert repr(data) == "Examples(2 examples of (4,), regression)"
    assert data.subset([1]).labels.tolist() == [-2.0]
    with pytest.raises(InvalidInput, match=r"finite\. \(got nan at index 1\)"):
        Examples(torch.zeros(2, 4), torch.tensor([1.5, float("nan")]), ())
    with pytest.raises(InvalidInput, match=r"floats of shape \[2\], one for every example"):
        Examples(torch.zeros(2, 4), torch.zeros(2, 1), ())


def test_fingerprints_of_regressions_follow_their_labels():
    inputs = torch.zeros(2, 4)
    first, other = (Examples(inputs, torch.tensor([1.0, y]), ()) for y in (2.0, 3.0))
    assert first.fingerprint() != other.fingerprint()
