"""Examples of any kind: what they are, and what does not fit together."""

from __future__ import annotations

import numpy as np
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


PIXELS = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)


def test_an_item_is_an_image_and_a_scalar_label(make):
    image, label = make([4, 2])[1]
    assert image.dtype == torch.uint8
    assert image.shape == (3, 2, 2)
    assert label.dtype == torch.int64
    assert label.shape == ()
    assert label == 2


def test_iteration_ends_after_the_last_image(make):
    assert [int(label) for _, label in make([4, 2, 7])] == [4, 2, 7]


def test_a_label_outside_the_classes_is_named_with_its_index(make):
    labels = [0] * 37 + [12, 13]
    with pytest.raises(InvalidInput, match=r"labels should be in 0\.\.9\. \(got 12 at index 37\)"):
        make(labels)
    with pytest.raises(InvalidInput, match="got -1 at index 1"):
        make([0, -1])


@pytest.mark.parametrize(
    ("images", "labels", "names"),
    [
        (PIXELS.float(), LABELS, None),
        (PIXELS[0], LABELS, None),
        (PIXELS, LABELS.int(), None),
        (PIXELS, LABELS[:2], None),
        (PIXELS, LABELS[:, None], None),
        (PIXELS, LABELS, ["one"]),
    ],
)
def test_what_does_not_fit_together_is_refused(images, labels, names):
    with pytest.raises(InvalidInput, match="should"):
        ImageSet(images, labels, ("a", "b"), names)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_a_subset_keeps_order_names_and_classes(make, kind):
    full = make([5, 6, 7], names=["a", "b", "c"])
    part = full.subset(kind([2, 0]))
    assert part.labels.tolist() == [7, 5]
    assert part.names == ("c", "a")
    assert part.classes == full.classes
    assert torch.equal(part.images[0], full.images[2])


def test_a_subset_may_be_empty(make):
    part = make([1, 2]).subset([])
    assert len(part) == 0
    assert part.shape == (3, 2, 2)


@pytest.mark.parametrize("wrong", [3, -1])
def test_an_index_out_of_range_is_named_with_the_range(make, wrong):
    with pytest.raises(InvalidInput, match=rf"0\.\.2\. \(got {wrong}\)"):
        make([1, 2, 3]).subset([0, wrong])


@pytest.mark.parametrize("mask", [torch.tensor([True, False, True]), [0.0, 1.0], [[0, 1]]])
def test_masks_fractions_and_tables_are_no_indices(make, mask):
    with pytest.raises(InvalidInput, match="whole number"):
        make([1, 2, 3]).subset(mask)


def test_the_fingerprint_follows_the_data_and_not_the_object(make):
    first, again = make([1, 2, 3]), make([1, 2, 3])
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint() != make([1, 2, 4]).fingerprint()
    again.images[0, 0, 0, 0] += 1
    assert first.fingerprint() != again.fingerprint()


def test_the_fingerprint_sees_the_shape():
    flat = ImageSet(torch.zeros(2, 1, 2, 3, dtype=torch.uint8), torch.tensor([0, 0]), "a")
    tall = ImageSet(torch.zeros(2, 1, 3, 2, dtype=torch.uint8), torch.tensor([0, 0]), "a")
    assert flat.fingerprint() != tall.fingerprint()


def test_moving_keeps_everything(make):
    full = make([1, 2], names=["a", "b"])
    moved = full.to("cpu")
    assert moved.fingerprint() == full.fingerprint()
    assert (moved.names, moved.classes) == (full.names, full.classes)
