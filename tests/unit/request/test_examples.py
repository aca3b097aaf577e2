from __future__ import annotations

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.data._batches import as_arrays
from expunge.request.subject._examples import Examples, as_fractions, inputs_of
from tests.unit.request.worlds import bytes_of, floats


def test_the_whole_set_is_handed_out_as_tensors():
    data = floats(8, 0)
    arrays = as_arrays(data)
    assert arrays is not None
    assert arrays[0] is data.inputs
    assert arrays[1] is data.labels


def test_a_subset_keeps_names_and_classes():
    part = floats(8, 0, names=True).subset([5, 2])
    assert part.names == ("0/5.png", "0/2.png")
    assert part.num_classes == 4
    assert torch.equal(part.labels, torch.tensor([1, 2]))


def test_a_fingerprint_tells_inputs_labels_types_and_shapes_apart():
    data = floats(8, 0)
    same = Examples(data.inputs.clone(), data.labels.clone(), data.classes)
    assert data.fingerprint() == same.fingerprint()
    others = [
        Examples(data.inputs + 0.1, data.labels, data.classes),
        Examples(data.inputs, data.labels.flip(0), data.classes),
        Examples(data.inputs.flatten(1), data.labels, data.classes),
        Examples(data.inputs.double(), data.labels, data.classes),
    ]
    assert len({data.fingerprint(), *(other.fingerprint() for other in others)}) == 5


@pytest.mark.parametrize(
    ("labels", "names", "complaint"),
    [
        (torch.tensor([0, 4]), None, r"labels should be in 0\.\.3\. \(got 4 at index 1\)"),
        (torch.tensor([0.0, 1.0]), None, r"int64 of shape \[2\]"),
        (torch.tensor([0]), None, r"int64 of shape \[2\]"),
        (torch.tensor([0, 1]), ["a"], r"one name for each of 2 examples\. \(got 1\)"),
    ],
)
def test_what_does_not_pair_up_is_refused(labels, names, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        Examples(torch.zeros(2, 3), labels, "abcd", names)


def test_bytes_become_fractions():
    data = bytes_of(4, 0, names=True)
    other = as_fractions(data)
    assert torch.equal(other.inputs * 255, inputs_of(data).float())
    assert other.names == data.names
