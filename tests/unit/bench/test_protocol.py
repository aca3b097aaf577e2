from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import InvalidInput
from expunge._toml_lines import line_of
from expunge.bench._protocol import Protocol
from expunge.bench._protocol_file import load_protocol
from expunge.bench._stages import StageOptions, plan
from expunge.bench.protocols import BUILT_IN, protocol_text
from expunge.update import Focus, Linear, Prob, PublishedMoments
from tests.unit.bench.tiny_protocol import TINY, write_tiny


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


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_protocol_is_valid_and_plans(name: str) -> None:
    protocol = load_protocol(name)
    planned = plan(protocol)
    assert protocol.name == name
    assert len({run.unlearn.key for run in planned}) == len(planned)
    assert protocol_text(name).startswith("#")


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("lr = 1e-3", "lr = 1e-3\nmomentum = 1"), "no key 'unlearning.momentum'"),
        (("width = 0.2", "wdith = 0.2"), "no key 'block.0.wdith'"),
        (("width = 0.2", "width = -1"), "greater than 0. (got -1)"),
        (('methods = ["SRL"]', 'methods = ["SLR"]'), "Did you mean"),
        (('methods = ["SRL"]', 'methods = ["SRL", "random-label"]'), "twice"),
        (('methods = ["SRL"]', 'methods = ["GA"]'), "no constraint"),
        (('addons = ["none", "FOCUS"]', 'addons = ["none", "FOCUSED"]'), "FOCUS"),
        (('scenarios = ["random:0.3"]', 'scenarios = ["random:3"]'), "fraction"),
        (('model = "small-cnn"', 'model = "big-cnn"'), "small-cnn"),
        (('data = "digits"', 'data = "digit"'), "digits"),
        (('baselines = ["FT"]', 'baselines = ["retrain"]'), "ideal is always there"),
        (("seeds = [0]", "seeds = [0, 0]"), "twice"),
        (("seeds = [0]", "seeds = []"), "at least 1"),
        (("evaluate_at = [1, 3]", "evaluate_at = [7]"), "nothing would be evaluated"),
        (("width = 0.2", "options = {dropout = 0.5}"), "no option 'dropout'"),
    ],
)
def test_a_wrong_protocol_is_refused_with_its_line(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    path = write_tiny(tmp_path, change)
    pairs = zip(TINY.splitlines(), path.read_text().splitlines(), strict=False)
    line = next(n for n, (before, after) in enumerate(pairs, start=1) if before != after)
    with pytest.raises(InvalidInput) as error:
        load_protocol(path)
    assert f"tiny.toml, line {line}: " in str(error.value)
    assert words in str(error.value)


def test_a_configuration_in_two_blocks_is_refused(tmp_path: Path) -> None:
    block = TINY[TINY.index("[[block]]") :].replace('name = "tiny"', 'name = "again"')
    path = tmp_path / "two.toml"
    path.write_text(TINY + "\n" + block)
    with pytest.raises(InvalidInput, match=r"line 36: block 'again' repeats .* of block 'tiny'"):
        load_protocol(path)


def test_what_is_not_toml_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("seeds = [")
    with pytest.raises(InvalidInput, match=r"broken\.toml is not TOML"):
        load_protocol(path)
    with pytest.raises(InvalidInput, match="demo, cpu, paper or a TOML file"):
        load_protocol("papper")


def test_only_names_blocks(tmp_path: Path) -> None:
    protocol = load_protocol("cpu")
    assert [block.name for block in protocol.only(("svhn",)).block] == ["svhn"]
    assert protocol.only(()) == protocol
    with pytest.raises(InvalidInput, match=r"no block 'imagenet'. .it has: cifar10, svhn"):
        protocol.only(("imagenet",))


@pytest.mark.parametrize(
    ("path", "line"),
    [(["a"], 1), (["t", "b"], 3), (["x", 0, "c"], 5), (["x", 1], 6), (["x", 1, "u", "d"], 9)],
)
def test_lines_are_found(path: list[str | int], line: int) -> None:
    text = "a = 1\n[t]\nb = 2\n[[x]]\nc = 3\n[[x]]\nc = 4\n[x.u]\nd = 5\n"
    assert line_of(text, path) == line


def keys(tmp_path: Path, *changes: tuple[str, str], place: StageOptions | None = None) -> set[str]:
    runs = plan(load_protocol(write_tiny(tmp_path, *changes)), place)
    return {stage.key for run in runs for stage in run.stages}


def test_what_does_not_matter_leaves_every_key_alone(tmp_path: Path) -> None:
    base = keys(tmp_path)
    assert keys(tmp_path, ('name = "tiny"', 'name = "other"')) == base
    assert keys(tmp_path, ('"SRL"', '"random-label"'), ('"FOCUS"', '"focus"')) == base
    assert keys(tmp_path, ("lr = 0.05", "lr = 0.050")) == base
    assert keys(tmp_path, place=StageOptions(root="/data", device="cuda", keep="none")) == base


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        (("limit = 60", "limit = 61"), 0),
        (("epochs = 2", "epochs = 4"), 0),
        (("width = 0.2", "width = 0.3"), 0),
        (("augment = false", "augment = true"), 0),
        (("random:0.3", "random:0.2"), 1),  # the initial model is the same
        (("test_limit = 80", "test_limit = 90"), 2),  # and so is the ideal one
        (("lr = 1e-3", "lr = 2e-3"), 3),  # and so are their scores
        (("evaluate_at = [1, 3]", "evaluate_at = [1, 2]"), 3),
        (('baselines = ["FT"]', 'baselines = ["CT"]'), 5),  # and all runs but one
    ],
)
def test_what_matters_changes_the_keys_below_it(
    tmp_path: Path, change: tuple[str, str], shared: int
) -> None:
    base = keys(tmp_path)
    assert len(base) == 6
    assert len(base & keys(tmp_path, change)) == shared


def test_models_are_shared_by_all_that_hangs_on_them() -> None:
    planned = plan(load_protocol("paper"))
    assert len({run.initial.key for run in planned}) == 2 * 2 * 3
    assert len({run.ideal.key for run in planned}) == 2 * 2 * 3 * 6
    assert len({run.unlearn.key for run in planned}) == (360 + 72) * 3
