"""What a protocol asks for: configurations, sweeps, blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import InvalidInput
from expunge.bench._protocol import Protocol
from expunge.bench._protocol_file import load_protocol
from expunge.bench._stages import plan
from expunge.methods import METHODS, Scrub
from expunge.update import Focus, Prob, PublishedMoments, Rectified, WeightedSum
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
        assert procedure.aggregate == WeightedSum(0.05, 0.95)
    probs = [arm.procedure.addon for arm in paper.configurations if arm.addon == "prob"]
    assert probs[0] == Prob(moments=PublishedMoments(), p=0.3)


def test_lists_of_rates_and_weights_are_swept() -> None:
    block = load_protocol("demo").only(("digits-frontier",)).block[0]
    arms = load_protocol("demo").only(("digits-frontier",)).configurations
    assert len(arms) == 2 * 2 * 3
    found = {(arm.addon, arm.procedure.lr, arm.procedure.aggregate) for arm in arms}
    assert ("focus", 5e-4, WeightedSum(0.2, 0.8)) in found
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


def test_an_addon_may_name_moments_of_its_own(tmp_path: Path) -> None:
    change = (
        'addons = ["none", "FOCUS"]',
        'addons = ["PROB(p=0.4)", "FOCUS", "FOCUS(moments=adam)"]',
    )
    arms = [a for a in load_protocol(write_tiny(tmp_path, change)).configurations if not a.baseline]
    assert [(arm.label, arm.addon, arm.moments) for arm in arms] == [
        ("SRL-PROB(p=0.4)", "prob(p=0.4)", "published"),
        ("SRL-FOCUS", "focus", "published"),
        ("SRL-FOCUS", "focus", "adam"),
    ]
    assert arms[0].procedure.addon == Prob(moments="published", p=0.4)
    assert arms[2].procedure.addon == Focus(moments="adam")


def test_a_rate_by_rule_grows_as_the_width_shrinks(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, ("lr = 1e-3", 'lr = ["1e-4/width", 1e-3, "5e-5 / width"]'))
    rates = {arm.procedure.lr for arm in load_protocol(path).configurations}
    assert rates == {1e-4 / 0.2, 1e-3, 5e-5 / 0.2}


def test_a_sweep_decides_even_where_a_method_has_a_preference(tmp_path: Path) -> None:
    change = ('baselines = ["FT"]', 'baselines = ["MATCH"]')
    (own,) = (a for a in load_protocol(write_tiny(tmp_path, change)).configurations if a.baseline)
    assert own.procedure.aggregate == WeightedSum(0.5, 0.5)
    path = write_tiny(tmp_path, change, ("lr = 1e-3", "lr = 1e-3\nalpha = [0.1, 0.2]"))
    swept = [arm for arm in load_protocol(path).configurations if arm.baseline]
    assert [arm.procedure.aggregate for arm in swept] == [
        WeightedSum(0.1, 0.9),
        WeightedSum(0.2, 0.8),
    ]
    assert {arm.procedure.batchnorm for arm in swept} == {"frozen"}


def test_an_eighth_of_the_width_has_eight_times_the_papers_rate() -> None:
    eighth = load_protocol("paper-eighth")
    assert {block.width for block in eighth.block} == {0.125}
    main = eighth.only(("cifar10", "cifar10-released")).configurations
    assert {arm.procedure.lr for arm in main} == {8e-4}
    swept = eighth.only(("frontier-rate",)).configurations
    assert {arm.procedure.lr for arm in swept} == {4e-4, 16e-4}


def test_full_scores_at_the_last_epoch_alone_make_another_stage(tmp_path: Path) -> None:
    def keys(*changes: tuple[str, str]) -> set[str]:
        return {run.unlearn.key for run in plan(load_protocol(write_tiny(tmp_path, *changes)))}

    for_all = ("evaluate_at", 'full_scores = "last"\nevaluate_at')
    every, last = keys(), keys(for_all)
    assert not every & last
    assert keys(("limit = 60", 'limit = 60\nfull_scores = "last"')) == last
    assert keys(for_all, ("limit = 60", 'limit = 60\nfull_scores = "every"')) == every


def test_a_quarter_of_the_width_has_four_times_the_papers_rate_and_its_other_numbers() -> None:
    quarter = load_protocol("paper-quarter")
    for block in quarter.block:
        assert (block.width, block.limit, block.training.augment) == (0.25, None, True)
        assert block.options == ({"dropout": 0.0} if block.model == "vgg16" else {})
    main = quarter.only(("cifar10-vgg16", "cifar10-vgg16-released")).configurations
    for arm in main:
        procedure = arm.procedure
        assert (procedure.epochs, procedure.batch_size, procedure.lr) == (10, 256, 4e-4)
        assert procedure.aggregate == WeightedSum(0.05, 0.95) or arm.method == "l1-sparse"
    assert {arm.procedure.lr for arm in quarter.only(("cifar10-vgg16-rate",)).configurations} == {
        1e-4
    }
    assert Scrub(loss="released") in {arm.procedure.method for arm in main}


def test_aggregations_multiply_methods_and_show_in_their_labels(tmp_path: Path) -> None:
    change = (
        'addons = ["none", "FOCUS"]',
        'addons = ["none", "FOCUS"]\naggregates = ["linear", "GRU", "torchjd:CAGrad(c=0.4)"]',
    )
    arms = [a for a in load_protocol(write_tiny(tmp_path, change)).configurations if not a.baseline]
    assert [arm.label for arm in arms] == [
        "SRL",
        "SRL-FOCUS",
        "SRL-GRU",
        "SRL-GRU-FOCUS",
        "SRL-CAGrad(c=0.4)",
        "SRL-CAGrad(c=0.4)-FOCUS",
    ]
    assert [arm.aggregate for arm in arms[::2]] == ["linear", "rectified", "torchjd:CAGrad(c=0.4)"]
    assert arms[2].procedure.aggregate == Rectified()
    assert arms[0].procedure.aggregate == WeightedSum(0.05, 0.95)


def test_rivals_share_models_and_runs_with_the_protocol_of_an_eighth() -> None:
    eighth, rivals = (plan(load_protocol(name)) for name in ("paper-eighth", "rivals"))
    own = [run for run in rivals if run.configuration.block.name == "cifar10"]
    assert {run.reference.key for run in own} <= {run.reference.key for run in eighth}
    shared = {run.unlearn.key for run in own} & {run.unlearn.key for run in eighth}
    assert len(shared) == 3 * 10, "FT, GA, MSG, CT, l1-sparse, SRL, NGPlus, SCRUB, released, MATCH"


def test_only_names_blocks(tmp_path: Path) -> None:
    protocol = load_protocol("cpu")
    assert len(protocol.configurations) > len(protocol.only(("svhn",)).configurations)
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
    assert all(block.is_text for block in protocol.block)
    methods = {configuration.method for configuration in protocol.configurations}
    assert {"npo", "gradient-difference"} <= methods
    tokens = {name for name in METHODS if METHODS[name].token_losses}
    assert {"npo", "simnpo", "wga", "satimp", "undial", "ce-u", "rmu"} < tokens
    assert methods == tokens - {"dpo", "idk-dpo", "match-answers"}
    assert len(protocol.configurations) == 3 * len(methods)
