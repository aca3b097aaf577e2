from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.data import Augment


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def augment_reference(
    images: Tensor, padding: int, flip: bool, generator: torch.Generator
) -> Tensor:
    """The same draws, then one image at a time."""
    count, _, height, width = images.shape
    out = images.clone()
    if flip:
        for i, mirrored in enumerate(torch.randint(2, (count,), generator=generator)):
            if mirrored:
                out[i] = out[i].flip(-1)
    if padding:
        down, right = torch.randint(2 * padding + 1, (2, count), generator=generator)
        for i in range(count):
            wide = F.pad(out[i], (padding,) * 4)
            out[i] = wide[:, down[i] : down[i] + height, right[i] : right[i] + width]
    return out


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("shape", [(64, 3, 32, 32), (5, 1, 8, 6), (1, 3, 4, 4)])
@pytest.mark.parametrize(("padding", "flip"), [(4, True), (4, False), (0, True), (1, True)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_batched_way_equals_one_image_at_a_time(dtype, shape, padding, flip, layout):
    images = torch.randint(0, 256, shape, generator=seeded(7)).to(dtype)
    images = images.contiguous(memory_format=layout)
    found = Augment(padding, flip)(images, seeded(1))
    assert found.dtype == dtype
    assert torch.equal(found, augment_reference(images, padding, flip, seeded(1)))


def test_without_padding_and_flip_nothing_changes():
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    generator = seeded(0)
    before = generator.get_state()
    assert torch.equal(Augment(padding=0, flip=False)(images, generator), images)
    assert torch.equal(generator.get_state(), before)


def test_the_input_is_left_alone():
    images = torch.randint(0, 256, (16, 3, 8, 8), dtype=torch.uint8)
    copy = images.clone()
    Augment()(images, seeded(0))
    assert torch.equal(images, copy)


def test_all_shifts_and_both_mirrors_occur():
    image = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8).view(1, 1, 2, 2)
    out = Augment(padding=1)(image.expand(2000, 1, 2, 2), seeded(0))
    assert len(out.flatten(1).unique(dim=0)) == 2 * 9


def test_an_empty_batch_stays_empty():
    assert Augment()(torch.zeros(0, 3, 8, 8), seeded(0)).shape == (0, 3, 8, 8)


def test_wrong_arguments_are_refused():
    with pytest.raises(InvalidInput, match=r"`padding` should be a whole number, at least 0"):
        Augment(padding=-1)
    with pytest.raises(InvalidInput, match=r"\[B, C, H, W\]"):
        Augment()(torch.zeros(3, 8, 8), seeded(0))
