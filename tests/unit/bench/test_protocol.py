"""What a protocol asks for: configurations, sweeps, blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import InvalidInput
from expunge.bench._protocol import Protocol
from expunge.bench._protocol_file import load_protocol
from expunge.methods import METHODS
from expunge.update import Focus, Linear, Prob, PublishedMoments
from tests.unit.bench.tiny_protocol import write_tiny


def configurations(protocol: Protocol) -> list[tuple[str, str, str, str, str]]:
    return [
        (arm.block.data, arm.block.model, scenario, arm.method, arm.addon)
        for arm in protocol.configurations
        if not arm.baseline
        for scenario in arm.block.scenarios
    ]


def test_the_papers_protocol_has_exactly_its_360_configurations() -> None:
    found = configurations(load_protocol("paper"))
    assert len(found) == len(set(found)) == 360
    data, models, scenarios, methods, addons = (set(column) for column in zip(*found, strict=True))
    assert data == {"cifar10", "svhn"}
    assert models == {"resnet18", "vgg16"}
    assert methods == {"random-label", "neg-grad-plus", "scrub"}
    assert addons == {"none", "saliency", "and", "prob", "focus"}
    ratios = {("random", share) for share in ("0.05", "0.1", "0.5")}
    ratios |= {("class", share) for share in ("0.1", "0.4", "0.75")}
    assert {(s.split(":")[0], s.split(":")[-1]) for s in scenarios} == ratios


def test_the_papers_protocol_has_its_baselines_and_numbers() -> None:
    paper = load_protocol("paper")
    assert {arm.label for arm in paper.configurations if arm.baseline} == {"FT", "MSG", "CT"}
    for block in paper.block:
        assert block.width == 1.0
        assert block.limit is None
        recipe = block.training.recipe
        assert (recipe.epochs, recipe.batch_size, recipe.lr, recipe.schedule) == (
            100,
            256,
            0.1,
            "step",
        )
    for arm in paper.configurations:
        procedure = arm.procedure
        assert (procedure.epochs, procedure.batch_size, procedure.lr) == (10, 256, 1e-4)
        assert procedure.aggregate == Linear(0.05, 0.95)
    probs = [arm.procedure.addon for arm in paper.configurations if arm.addon == "prob"]
    assert probs[0] == Prob(moments=PublishedMoments(), p=0.3)


def test_lists_of_rates_and_weights_are_swept() -> None:
    block = load_protocol("demo").only(("digits-frontier",)).block[0]
    arms = load_protocol("demo").only(("digits-frontier",)).configurations
    assert len(arms) == 2 * 2 * 3
    found = {(arm.addon, arm.procedure.lr, arm.procedure.aggregate) for arm in arms}
    assert ("focus", 5e-4, Linear(0.2, 0.8)) in found
    assert len(found) == len(arms)
    assert block.unlearning.batch_size == 16, "what the block leaves out is the protocol's"


def test_moments_multiply_only_the_addons_that_have_them(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, ('baselines = ["FT"]', 'moments = ["published", "adam"]'))
    arms = load_protocol(path).configurations
    assert [(arm.addon, arm.moments) for arm in arms] == [
        ("none", ""),
        ("focus", "published"),
        ("focus", "adam"),
    ]
    assert arms[1].procedure.addon == Focus(moments="published")


def test_only_names_blocks(tmp_path: Path) -> None:
    protocol = load_protocol("cpu")
    assert [block.name for block in protocol.only(("svhn",)).block] == ["svhn"]
    assert protocol.only(()) == protocol
    with pytest.raises(InvalidInput, match=r"no block 'imagenet'. .it has: cifar10, svhn"):
        protocol.only(("imagenet",))


def test_seeds_can_be_counted_off() -> None:
    protocol = load_protocol("demo")
    assert protocol.with_seeds(2).seeds == (0, 1)
    with pytest.raises(InvalidInput, match="`seeds` should be at least 1"):
        protocol.with_seeds(0)


def test_a_protocol_of_language_models_has_every_method_for_them() -> None:
    protocol = load_protocol("tofu-mini")
    (block,) = protocol.block
    assert block.is_text
    methods = {configuration.method for configuration in protocol.configurations}
    assert {"npo", "gradient-difference"} <= methods
    assert methods == {name for name in METHODS if METHODS[name].token_losses}
    assert len(protocol.configurations) == 3 * len(methods)
