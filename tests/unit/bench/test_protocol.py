"""What a protocol asks for: configurations, sweeps, blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import InvalidInput
from expunge.bench._protocol import Protocol, variants_of
from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import BenchRun
from expunge.bench._stages import plan
from expunge.engine import Procedure
from expunge.methods import METHODS, Scrub
from expunge.update import Focus, Prob, PublishedMoments, Rectified, WeightedSum
from tests.unit.bench.tiny_protocol import TINY, write_tiny


def planned(protocol: Protocol) -> list[tuple[BenchRun, Procedure]]:
    return [each for block in protocol.block for each in variants_of(block)]


def configurations(protocol: Protocol) -> list[tuple[str, str, str, str, str]]:
    return [
        (block.data, block.model, scenario, run.method, run.addon)
        for block in protocol.block
        for run, _ in variants_of(block)
        if not run.baseline
        for scenario in block.scenarios
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
    assert {run.label for run, _ in planned(paper) if run.baseline} == {
        "FT",
        "MSG",
        "CT",
    }
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
    for _, procedure in planned(paper):
        assert (procedure.epochs, procedure.batch_size, procedure.lr) == (10, 256, 1e-4)
        assert procedure.aggregate == WeightedSum(0.05, 0.95)
    probs = [procedure.addon for run, procedure in planned(paper) if run.addon == "prob"]
    assert probs[0] == Prob(moments=PublishedMoments(), p=0.3)


def test_lists_of_rates_and_weights_are_swept() -> None:
    block = load_protocol("demo").only(("digits-frontier",)).block[0]
    variants = planned(load_protocol("demo").only(("digits-frontier",)))
    assert len(variants) == 2 * 2 * 3
    found = {(run.addon, procedure.lr, procedure.aggregate) for run, procedure in variants}
    assert ("focus", 5e-4, WeightedSum(0.2, 0.8)) in found
    assert len(found) == len(variants)
    assert block.unlearning.batch_size == 16, "what the block leaves out is the protocol's"


def test_moments_multiply_only_the_addons_that_have_them(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, ('baselines = ["FT"]', 'moments = ["published", "adam"]'))
    variants = planned(load_protocol(path))
    assert [(run.addon, run.moments) for run, _ in variants] == [
        ("none", ""),
        ("focus", "published"),
        ("focus", "adam"),
    ]
    assert variants[1][1].addon == Focus(moments="published")


def test_an_addon_may_name_moments_of_its_own(tmp_path: Path) -> None:
    change = (
        'addons = ["none", "FOCUS"]',
        'addons = ["PROB(p=0.4)", "FOCUS", "FOCUS(moments=adam)"]',
    )
    variants = [
        (run, how)
        for run, how in planned(load_protocol(write_tiny(tmp_path, change)))
        if not run.baseline
    ]
    assert [(run.label, run.addon, run.moments) for run, _ in variants] == [
        ("SRL-PROB(p=0.4)", "prob(p=0.4)", "published"),
        ("SRL-FOCUS", "focus", "published"),
        ("SRL-FOCUS (adam)", "focus", "adam"),
    ]
    assert variants[0][1].addon == Prob(moments="published", p=0.4)
    assert variants[2][1].addon == Focus(moments="adam")


def test_a_sweep_decides_even_where_a_method_has_a_preference(tmp_path: Path) -> None:
    change = ('baselines = ["FT"]', 'baselines = ["MATCH"]')
    ((_, own),) = (
        each for each in planned(load_protocol(write_tiny(tmp_path, change))) if each[0].baseline
    )
    assert own.aggregate == WeightedSum(0.5, 0.5)
    path = write_tiny(tmp_path, change, ("lr = 1e-3", "lr = 1e-3\nalpha = [0.1, 0.2]"))
    swept = [each for each in planned(load_protocol(path)) if each[0].baseline]
    assert [procedure.aggregate for _, procedure in swept] == [
        WeightedSum(0.1, 0.9),
        WeightedSum(0.2, 0.8),
    ]
    assert {procedure.batchnorm for _, procedure in swept} == {"frozen"}


def test_an_eighth_of_the_width_has_eight_times_the_papers_rate() -> None:
    eighth = load_protocol("paper-eighth")
    assert {block.width for block in eighth.block} == {0.125}
    main = planned(eighth.only(("cifar10", "cifar10-released")))
    assert {procedure.lr for _, procedure in main} == {8e-4}
    swept = planned(eighth.only(("frontier-rate",)))
    assert {procedure.lr for _, procedure in swept} == {4e-4, 16e-4}


@pytest.mark.parametrize(
    ("option", "other", "usual"),
    [("full_scores", '"last"', '"every"'), ("metrics", '["kl", "relearned"]', "[]")],
)
def test_a_block_may_be_measured_otherwise_in_stages_of_its_own(
    tmp_path: Path, option: str, other: str, usual: str
) -> None:
    def keys(*changes: tuple[str, str]) -> set[str]:
        return {run.stage.key for run in plan(load_protocol(write_tiny(tmp_path, *changes)))}

    for_all = ("evaluate_at", f"{option} = {other}\nevaluate_at")
    without, having = keys(), keys(for_all)
    assert not without & having
    assert keys(("limit = 60", f"limit = 60\n{option} = {other}")) == having
    assert keys(for_all, ("limit = 60", f"limit = 60\n{option} = {usual}")) == without


def test_a_quarter_of_the_width_has_four_times_the_papers_rate_and_its_other_numbers() -> None:
    quarter = load_protocol("paper-quarter")
    for block in quarter.block:
        assert (block.width, block.limit, block.training.augment) == (0.25, None, True)
        assert block.options == ({"dropout": 0.0} if block.model == "vgg16" else {})
    main = planned(quarter.only(("cifar10-vgg16", "cifar10-vgg16-released")))
    for run, procedure in main:
        assert (procedure.epochs, procedure.batch_size, procedure.lr) == (10, 256, 4e-4)
        assert procedure.aggregate == WeightedSum(0.05, 0.95) or run.method == "l1-sparse"
    assert {procedure.lr for _, procedure in planned(quarter.only(("cifar10-vgg16-rate",)))} == {
        1e-4
    }
    assert Scrub(loss="released") in {procedure.method for _, procedure in main}


def test_aggregations_multiply_methods_and_show_in_their_labels(tmp_path: Path) -> None:
    change = (
        'addons = ["none", "FOCUS"]',
        'addons = ["none", "FOCUS"]\naggregates = ["linear", "GRU", "torchjd:CAGrad(c=0.4)"]',
    )
    variants = [
        (run, how)
        for run, how in planned(load_protocol(write_tiny(tmp_path, change)))
        if not run.baseline
    ]
    assert [run.label for run, _ in variants] == [
        "SRL",
        "SRL-FOCUS",
        "SRL-GRU",
        "SRL-GRU-FOCUS",
        "SRL-CAGrad(c=0.4)",
        "SRL-CAGrad(c=0.4)-FOCUS",
    ]
    assert [run.aggregate for run, _ in variants[::2]] == [
        "linear",
        "rectified",
        "torchjd:CAGrad(c=0.4)",
    ]
    assert variants[2][1].aggregate == Rectified()
    assert variants[0][1].aggregate == WeightedSum(0.05, 0.95)


def test_rivals_share_models_and_runs_with_the_protocol_of_an_eighth() -> None:
    eighth, rivals = (plan(load_protocol(name)) for name in ("paper-eighth", "rivals"))
    own = [run for run in rivals if run.block == "cifar10"]
    assert {run.reference.key for run in own} <= {run.reference.key for run in eighth}
    shared = {run.stage.key for run in own} & {run.stage.key for run in eighth}
    assert len(shared) == 3 * 10, "FT, GA, MSG, CT, l1-sparse, SRL, NGPlus, SCRUB, released, MATCH"


def test_only_names_blocks(tmp_path: Path) -> None:
    protocol = load_protocol("cpu")
    assert len(planned(protocol)) > len(planned(protocol.only(("svhn",))))
    assert [block.name for block in protocol.only(("svhn",)).block] == ["svhn"]
    assert protocol.only(()) == protocol
    with pytest.raises(InvalidInput, match=r"no block 'imagenet'. .it has: cifar10, svhn"):
        protocol.only(("imagenet",))


def test_a_block_may_have_seeds_of_its_own(tmp_path: Path) -> None:
    again = TINY.partition("[[block]]")[2].replace('"tiny"', '"more"\nseeds = 3')
    path = tmp_path / "two.toml"
    path.write_text(f"{TINY}[[block]]{again}")
    protocol = load_protocol(path)
    assert [block.seeds for block in protocol.block] == [(0,), (0, 1, 2)]
    assert protocol.seeds == (0, 1, 2)
    runs = plan(protocol)
    assert protocol.size == len(runs)
    assert {run.seed for run in runs if run.block != "more"} == {0}
    assert {block.seeds for block in protocol.with_seeds(2).block} == {(0, 1)}


def test_seeds_can_be_counted_off() -> None:
    protocol = load_protocol("demo")
    assert protocol.with_seeds(2).seeds == (0, 1)
    with pytest.raises(InvalidInput, match="`seeds` should be at least 1"):
        protocol.with_seeds(0)


def test_a_protocol_of_language_models_has_every_method_for_them() -> None:
    protocol = load_protocol("tofu-mini")
    assert all(block.is_text for block in protocol.block)
    methods = {run.method for run, _ in planned(protocol)}
    assert {"npo", "gradient-difference"} <= methods
    tokens = {name for name in METHODS if METHODS[name].token_losses}
    assert {"npo", "simnpo", "wga", "satimp", "undial", "ce-u", "rmu"} < tokens
    assert methods == tokens - {"dpo", "match-answers"}
    assert len(planned(protocol)) == 3 * len(methods)
