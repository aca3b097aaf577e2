from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from expunge._errors import DataError, InvalidInput
from expunge.data import ImageSet
from expunge.request.subject._dataset import collect
from expunge.request.subject._examples import Examples


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
    data = collect(Listed([(torch.zeros(3), 0), (torch.ones(3), label)]), "train")
    assert isinstance(data, Examples)
    assert data.labels.tolist() == [0, 1]
    assert data.classes == ("0", "1")


@pytest.mark.parametrize("x", [torch.zeros(3, 4, 5), np.zeros((3, 4, 5))])
def test_bytes_of_pictures_become_an_image_set(x):
    whole = x.to(torch.uint8) if isinstance(x, torch.Tensor) else x.astype(np.uint8)
    data = collect(Listed([(whole, 0), (whole, 1)]), "train")
    assert isinstance(data, ImageSet)
    assert data.shape == (3, 4, 5)


def test_pil_images_get_their_channels_first():
    picture = Image.new("RGB", (5, 4), (10, 20, 30))
    data = collect(Listed([(picture, 0), (picture, 1)]), "train")
    assert isinstance(data, ImageSet)
    assert data.shape == (3, 4, 5)
    assert data.images[0, :, 0, 0].tolist() == [10, 20, 30]
    grey = collect(Listed([(picture.convert("L"), 0)]), "train")
    assert isinstance(grey, ImageSet)
    assert grey.shape == (1, 4, 5)


def test_floats_become_examples_of_single_precision():
    data = collect(TensorDataset(torch.rand(4, 7).double(), torch.arange(4)), "train")
    assert isinstance(data, Examples)
    assert data.inputs.dtype == torch.float32


def test_words_keep_their_numbers():
    data = collect(TensorDataset(torch.arange(8).view(4, 2), torch.arange(4)), "train")
    assert isinstance(data, Examples)
    assert data.inputs.dtype == torch.int64


def test_names_and_classes_are_taken_over():
    pairs = [(torch.zeros(2), 1), (torch.ones(2), 0), (torch.ones(2), 1)]
    named = Listed(pairs, names=["x", "y", "z"], classes=["cat", "dog"])
    assert collect(named, "train").names == ("x", "y", "z")
    assert collect(named, "train").classes == ("cat", "dog")
    assert collect(Subset(named, [2, 0]), "train").names == ("z", "x")
    folder = Listed(pairs, root="/d", samples=[("/d/a/1.png", 1), ("/d/b/2.png", 0), ("/q.png", 1)])
    assert collect(folder, "train").names == ("a/1.png", "b/2.png", "/q.png")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (Listed([]), r"The val data should hold examples\. \(got none\)"),
        (
            Listed([torch.zeros(2)]),
            r"should yield pairs \(input, label\)\. \(got Tensor at index 0",
        ),
        (Listed([(torch.zeros(2), 0.5)]), r"one class number an example\. \(got 0\.5 at index 0\)"),
        (Listed([(torch.zeros(2), torch.eye(2)[0])]), r"one class number an example"),
        (Listed([("word", 0)]), r"should yield tensors, arrays or images\. \(got str"),
        (Listed([(torch.zeros(2), 0), (torch.zeros(3), 0)]), r"one shape.*\[3\].*at index 1\)"),
        (Listed([(torch.tensor([np.nan]), 0)]), r"finite\. \(NaN or infinity at index 0\)"),
        (Listed([(torch.zeros(2), -1)]), r"labels should be in .*got -1 at index 0"),
        (Shaky([0] * 3), r"same at every reading.*augmentation"),
        (TensorDataset(torch.zeros(2, 2), torch.zeros(2)), r"one class number an example"),
    ],
)
def test_what_is_no_dataset_of_classes_is_refused(data, complaint):
    with pytest.raises(DataError, match=complaint):
        collect(data, "val")


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize("data", [Endless(), 3])
def test_what_cannot_be_indexed_is_refused(data):
    with pytest.raises(InvalidInput, match="map-style dataset"):
        collect(data, "train")
