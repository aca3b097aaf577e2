"""The classifiers: sizes, inputs, seeds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.models import MODELS, Normalise, build_model, channel_statistics
from expunge.models._build import inputs_of_model
from expunge.models._normalise import column_statistics
from tests.tiny import bits, same

IMAGES = [name for name in MODELS if inputs_of_model(MODELS[name]) == "images"]


def weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


SIZES = {"resnet18": 11_173_962, "vgg16": 15_253_578, "vgg16-released": 15_311_818}


@pytest.mark.parametrize(("name", "count"), SIZES.items())
def test_full_width_models_have_the_published_size(name: str, count: int) -> None:
    with torch.device("meta"):  # shapes alone
        assert weights(MODELS[name](num_classes=10, in_channels=3, width=1.0)) == count


@pytest.mark.parametrize("name", IMAGES)
def test_width_multiplies_channels(name: str) -> None:
    half, full = (build_model(name, width=width) for width in (0.125, 0.25))
    assert 3.5 < weights(full) / weights(half) < 4.1
    narrow = build_model(name, width=1e-6)
    assert narrow(torch.rand(2, 3, 8, 8)).shape == (2, 10)


@pytest.mark.parametrize("size", [8, 16, 28, 32])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", IMAGES)
def test_small_grey_images_up_to_32_by_32(name: str, channels: int, size: int) -> None:
    model = build_model(name, num_classes=7, in_channels=channels, width=0.0625, seed=0)
    x = torch.randint(256, (3, channels, size, size), dtype=torch.uint8)
    logits = model(x)
    assert logits.shape == (3, 7)
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", IMAGES)
def test_bytes_are_floats_over_255(name: str) -> None:
    model = build_model(
        name, width=0.0625, mean=[0.3, 0.4, 0.5], std=[0.2, 0.3, 0.4], seed=0
    ).eval()
    x = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
    assert torch.allclose(model(x), model(x.float() / 255), atol=1e-5)


def test_normalisation_is_the_formula_and_travels_with_the_weights() -> None:
    model = build_model("small-cnn", in_channels=1, width=0.1, mean=[0.25], std=[0.5])
    x = torch.rand(2, 1, 4, 4)
    assert torch.allclose(model.normalise(x), (x - 0.25) / 0.5)
    other = build_model("small-cnn", in_channels=1, width=0.1)
    assert not torch.equal(other.normalise(x), model.normalise(x))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), model(x))
    assert "normalise.mean" in model.state_dict()
    assert "normalise.mean" not in dict(model.named_parameters())


@pytest.mark.parametrize("name", IMAGES)
def test_a_seed_decides_the_weights_and_leaves_the_global_state_alone(name: str) -> None:
    state = torch.get_rng_state()
    first, again, other = (bits(build_model(name, width=0.1, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(first, again)
    assert not same(first, other)


def test_without_a_seed_the_global_state_decides() -> None:
    assert not same(*(bits(build_model("small-cnn", width=0.1)) for _ in range(2)))


def test_channel_statistics_are_those_of_the_pixels() -> None:
    images = torch.randint(256, (20, 3, 4, 4), dtype=torch.uint8)
    mean, std = channel_statistics(images)
    pixels = images.double() / 255
    assert mean == pytest.approx(pixels.mean(dim=(0, 2, 3)).tolist())
    assert std == pytest.approx(pixels.std(dim=(0, 2, 3), correction=0).tolist())


def test_a_constant_channel_does_not_divide_by_zero() -> None:
    assert channel_statistics(torch.zeros(2, 1, 2, 2, dtype=torch.uint8)) == ([0.0], [1e-3])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"width": 0.0}, "`width` should be positive"),
        ({"width": float("nan")}, "`width` should be positive"),
        ({"num_classes": 1}, "`num_classes` should be at least 2"),
        ({"name": "resnet81"}, "Unknown model 'resnet81'. Did you mean 'resnet18'?"),
        ({"mean": [0.5], "std": [0.5, 0.5]}, "`mean` should have a number for each"),
        ({"std": [0.0, 1.0, 1.0]}, "`std` positive"),
    ],
)
def test_wrong_models_are_refused(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        build_model(**{"name": "small-cnn"} | wrong)  # type: ignore[arg-type]


def test_normalise_refuses_a_deviation_of_zero() -> None:
    with pytest.raises(InvalidInput, match="`std` positive"):
        Normalise([0.0], [0.0])


@pytest.mark.parametrize("outputs", [1, 5])
def test_a_network_for_vectors_standardises_each_column(outputs: int) -> None:
    x = torch.randn(64, 3) * torch.tensor([100.0, 1.0, 0.01]) + 7
    mean, std = column_statistics(x)
    output = (50.0, 10.0) if outputs == 1 else None
    model = build_model(
        "mlp", num_classes=outputs, in_channels=3, width=0.1, mean=mean, std=std, output=output
    )
    assert torch.allclose(model.normalise(x).mean(0), torch.zeros(3), atol=1e-4)
    assert torch.allclose(model.normalise(x).std(0, correction=0), torch.ones(3), atol=1e-4)
    assert model(x).shape == (64, outputs)
    if output is not None:
        plain = model.body(model.normalise(x))
        assert torch.allclose(model(x), 50 + 10 * plain)


def test_columns_of_zeros_and_ones_and_of_one_value_stay_as_they_are() -> None:
    x = torch.tensor([[0.0, 3.0, 2.0], [1.0, 3.0, 4.0], [1.0, 3.0, 6.0]])
    mean, std = column_statistics(x)
    assert mean == [0.0, 0.0, 4.0]
    assert std[:2] == [1.0, 1.0]
    assert std[2] == pytest.approx((8 / 3) ** 0.5)


def test_a_bag_of_words_does_not_read_padding_or_order() -> None:
    model = build_model("text-bag", num_classes=4, in_channels=20, width=0.25, seed=0).eval()
    text = torch.tensor([[3, 9, 4, 0, 0], [4, 3, 9, 0, 0], [3, 9, 4, 4, 0]])
    logits = model(text)
    assert torch.allclose(logits[0], logits[1], atol=1e-6)
    assert not torch.allclose(logits[0], logits[2], atol=1e-4)
    assert torch.allclose(model(text[:, :3])[0], logits[0], atol=1e-6)
    assert torch.isfinite(model(torch.zeros(2, 3, dtype=torch.int64))).all(), "an empty text"


def test_one_output_is_for_regressions_only() -> None:
    with pytest.raises(InvalidInput, match="`num_classes` should be at least 2"):
        build_model("mlp", num_classes=1, in_channels=3)


def test_the_released_vgg16_has_a_map_of_2x2_and_no_bias_before_batchnorm() -> None:
    body = build_model("vgg16-released", width=0.0625).body
    convolutions = [m for m in body.features if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 13
    assert all(m.bias is None for m in convolutions)
    assert body.features[:-2](torch.rand(2, 3, 32, 32)).shape[2:] == (2, 2)
    assert [m.out_features for m in body.classifier if isinstance(m, nn.Linear)] == [16, 16, 10]
    assert not any(isinstance(m, nn.Dropout) for m in body.modules())
