from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from expunge._errors import DataError, InvalidInput
from expunge.data import Examples, ImageSet
from expunge.data._batches import as_arrays
from expunge.data._read_dataset import read_dataset
from tests.unit.request.worlds import floats


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


class Listed(Dataset):
    """What a user writes: a list of pairs, and whatever attributes."""

    def __init__(self, pairs, **attributes):
        self.pairs = pairs
        self.__dict__.update(attributes)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


class Shaky(Listed):
    def __getitem__(self, index):
        return torch.rand(2), 0


@pytest.mark.parametrize("label", [1, np.int64(1), torch.tensor(1), torch.tensor([1])])
def test_labels_of_every_kind_are_class_numbers(label):
    data = read_dataset(Listed([(torch.zeros(3), 0), (torch.ones(3), label)]), "train")
    assert isinstance(data, Examples)
    assert data.labels.tolist() == [0, 1]
    assert data.classes == ("0", "1")


@pytest.mark.parametrize("x", [torch.zeros(3, 4, 5), np.zeros((3, 4, 5))])
def test_bytes_of_pictures_become_an_image_set(x):
    whole = x.to(torch.uint8) if isinstance(x, torch.Tensor) else x.astype(np.uint8)
    data = read_dataset(Listed([(whole, 0), (whole, 1)]), "train")
    assert isinstance(data, ImageSet)
    assert data.shape == (3, 4, 5)


def test_pil_images_get_their_channels_first():
    picture = Image.new("RGB", (5, 4), (10, 20, 30))
    data = read_dataset(Listed([(picture, 0), (picture, 1)]), "train")
    assert isinstance(data, ImageSet)
    assert data.shape == (3, 4, 5)
    assert data.images[0, :, 0, 0].tolist() == [10, 20, 30]
    grey = read_dataset(Listed([(picture.convert("L"), 0)]), "train")
    assert isinstance(grey, ImageSet)
    assert grey.shape == (1, 4, 5)


def test_floats_become_examples_of_single_precision():
    data = read_dataset(TensorDataset(torch.rand(4, 7).double(), torch.arange(4)), "train")
    assert isinstance(data, Examples)
    assert data.inputs.dtype == torch.float32


def test_words_keep_their_numbers():
    data = read_dataset(TensorDataset(torch.arange(8).view(4, 2), torch.arange(4)), "train")
    assert isinstance(data, Examples)
    assert data.inputs.dtype == torch.int64


def test_names_and_classes_are_taken_over():
    pairs = [(torch.zeros(2), 1), (torch.ones(2), 0), (torch.ones(2), 1)]
    named = Listed(pairs, names=["x", "y", "z"], classes=["cat", "dog"])
    assert read_dataset(named, "train").names == ("x", "y", "z")
    assert read_dataset(named, "train").classes == ("cat", "dog")
    assert read_dataset(Subset(named, [2, 0]), "train").names == ("z", "x")
    folder = Listed(pairs, root="/d", samples=[("/d/a/1.png", 1), ("/d/b/2.png", 0), ("/q.png", 1)])
    assert read_dataset(folder, "train").names == ("a/1.png", "b/2.png", "/q.png")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (Listed([]), r"The val data should hold examples\. \(got none\)"),
        (
            Listed([torch.zeros(2)]),
            r"should yield pairs \(input, label\)\. \(got Tensor at index 0",
        ),
        (
            Listed([(torch.zeros(2), 0.5)]),
            r"one class number per example\. \(got 0\.5 at index 0\)",
        ),
        (Listed([(torch.zeros(2), torch.eye(2)[0])]), r"one class number per example"),
        (Listed([("word", 0)]), r"should yield tensors, arrays or images\. \(got str"),
        (Listed([(torch.zeros(2), 0), (torch.zeros(3), 0)]), r"one shape.*\[3\].*at index 1\)"),
        (Listed([(torch.tensor([np.nan]), 0)]), r"finite\. \(NaN or infinity at index 0\)"),
        (Listed([(torch.zeros(2), -1)]), r"labels should be in .*got -1 at index 0"),
        (Shaky([0] * 3), r"same every time they are read.*augmentation"),
        (TensorDataset(torch.zeros(2, 2), torch.zeros(2)), r"one class number per example"),
    ],
)
def test_what_is_no_dataset_of_classes_is_refused(data, complaint):
    with pytest.raises(DataError, match=complaint):
        read_dataset(data, "val")


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize("data", [Endless(), 3])
def test_what_cannot_be_indexed_is_refused(data):
    with pytest.raises(InvalidInput, match="map-style dataset"):
        read_dataset(data, "train")
