"""Tensors in files: what goes in comes out, and damage does not go unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import DataError, StorageError

KINDS = {
    "float": torch.randn(3, 4),
    "double": torch.randn(2, dtype=torch.float64),
    "bfloat16": torch.randn(5).bfloat16(),
    "half": torch.randn(5).half(),
    "scalar": torch.tensor(3),
    "bfloat16 scalar": torch.tensor(1.5).bfloat16(),
    "empty": torch.zeros(0, 3),
    "bool": torch.tensor([True, False]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
    "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "view": torch.arange(10)[::3],
    "transposed": torch.randn(3, 4).t(),
    "with a gradient": torch.randn(2, requires_grad=True),
}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    flat = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*flat)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tensor_comes_back(kind: str, tmp_path: Path) -> None:
    tensors.save(tmp_path / "file", {"x": KINDS[kind]}, {"note": 1})
    found, notes = tensors.load(tmp_path / "file")
    assert same_bits(found["x"], KINDS[kind])
    assert notes == {"note": 1}


def test_the_same_content_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in "abcdefgh":
        tensors.save(tmp_path / name, {"x": torch.ones(2), "y": torch.ones(1)}, {"n": 1, "m": "é"})
    assert len({(tmp_path / name).read_bytes() for name in "abcdefgh"}) == 1


def test_tied_weights_are_written_twice(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    tensors.save(tmp_path / "file", model.state_dict(), {})
    found, _ = tensors.load(tmp_path / "file")
    assert torch.equal(found["0.weight"], found["1.weight"])
    assert len(found) == 4


def test_a_file_without_tensors(tmp_path: Path) -> None:
    tensors.save(tmp_path / "file", {}, {"a": [1, None]})
    assert tensors.load(tmp_path / "file") == ({}, {"a": [1, None]})


def test_no_flipped_bit_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = {"x": torch.arange(4.0), "y": torch.tensor(7)}
    tensors.save(path, content, {"a": "b"})
    good = path.read_bytes()
    refused = 0
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1
        path.write_bytes(bad)
        try:
            found, notes = tensors.load(path)
        except DataError:
            refused += 1
            continue
        # What is let through is either unchanged or has lost its card, which no reader accepts.
        assert notes == {} or (
            notes == {"a": "b"} and all(torch.equal(found[k], content[k]) for k in content)
        ), position
    assert refused > 0.7 * len(good)


@pytest.mark.parametrize("keep", [0, 5, 8, 100, -1])
def test_a_truncated_file_is_refused(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    tensors.save(path, {"x": torch.arange(4.0)}, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="truncated or not a safetensors file"):
        tensors.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file .*nowhere"):
        tensors.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"should be a regular file. \(got a folder\)"):
        tensors.load(tmp_path)


def test_a_foreign_file_has_no_metadata(tmp_path: Path) -> None:
    safetensors.torch.save_file({"x": torch.ones(1)}, tmp_path / "file", metadata={"format": "pt"})
    found, notes = tensors.load(tmp_path / "file")
    assert notes == {}
    assert found["x"].item() == 1.0


def test_a_failed_write_keeps_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    tensors.save(path, {"x": torch.ones(1)}, {})
    before = path.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise safetensors.SafetensorError("No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(StorageError, match="The previous content is kept"):
        tensors.save(path, {"x": torch.zeros(1)}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
keys = st.integers() | st.text() | st.none() | st.booleans()
trees = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=10,
)


@given(trees)
def test_any_tree_of_plain_values_survives_a_file(tree: Any) -> None:
    import json

    arrays, node = tensors.pack({"tree": tree, "tensor": torch.ones(2)})
    back = tensors.unpack(arrays, json.loads(json.dumps(node)))
    assert back["tree"] == tree
    assert type(back["tree"]) is type(tree)
    assert torch.equal(back["tensor"], torch.ones(2))


def test_what_cannot_be_kept_is_named() -> None:
    with pytest.raises(StorageError, match="A set cannot be kept in a checkpoint"):
        tensors.pack({"a": {1, 2}})
