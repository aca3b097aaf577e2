"""Protocols read from TOML, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import InvalidInput
from expunge.bench._protocol_file import load_protocol
from expunge.bench._stages import plan
from expunge.bench.protocols import BUILT_IN, protocol_text
from tests.unit.bench.tiny_protocol import write_tiny
from tests.unit.bench.tiny_texts import write_tiny_texts


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_protocol_is_valid_and_plans(name: str) -> None:
    protocol = load_protocol(name)
    planned = plan(protocol)
    assert protocol.name == name
    assert len({run.stage.key for run in planned}) == len(planned)
    assert protocol_text(name).startswith("#")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("lr = 1e-3", "lr = 1e-3\nmomentum = 1"), "no key 'unlearning.momentum'"),
        (("width = 0.2", "wdith = 0.2"), "no key 'block.0.wdith'"),
        (("width = 0.2", "width = -1"), "greater than 0. (got -1)"),
        (('methods = ["SRL"]', 'methods = ["SLR"]'), "Did you mean"),
        (('methods = ["SRL"]', 'methods = ["GA"]'), "no constraint"),
        (('addons = ["none", "FOCUS"]', 'addons = ["none", "FOCUSED"]'), "FOCUS"),
        (('scenarios = ["random:0.3"]', 'scenarios = ["random:3"]'), "fraction"),
        (('model = "small-cnn"', 'model = "big-cnn"'), "small-cnn"),
        (('data = "digits"', 'data = "digit"'), "digits"),
        (('baselines = ["FT"]', 'baselines = ["retrain"]'), "ideal is always there"),
        (("seeds = [0]", "seeds = [0, 0]"), "twice"),
        (("seeds = [0]", "seeds = []"), "seeds: should not be empty. (got [])"),
        (("lr = 1e-3", "lr = []"), "unlearning.lr: should not be empty"),
        (('addons = ["none", "FOCUS"]', "addons = []"), "block.0.addons: should not be empty"),
        (("augment = false", 'augment = "no"'), "training.augment: Input should be a valid bool"),
        (("seeds = [0]", "seeds = [0]\nattacks = 1"), "attacks: Input should be a valid boolean"),
        (("schedule =", "shedule ="), "there is no key 'training.shedule'"),
        (("width = 0.2", "options = {dropout = 0.5}"), "no option 'dropout'"),
        (('methods = ["SRL"]', 'methods = ["SCRUB(los=1)"]'), "has no option 'los'"),
        (('addons = ["none", "FOCUS"]', 'addons = ["FOCUS(moments=adan)"]'), "Did you mean 'adam'"),
        (("lr = 1e-3", 'lr = "1e-3*width"'), "unlearning.lr"),
        (("width = 0.2", 'width = 0.2\naggregates = ["GRUU"]'), "Did you mean 'gru'"),
        (("seeds = [0]", 'seeds = [0]\nmetrics = ["fid"]'), "rmia_auc"),
    ],
)
def test_a_wrong_protocol_is_refused_with_its_file(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    path = write_tiny(tmp_path, change)
    with pytest.raises(InvalidInput) as error:
        load_protocol(path)
    assert "tiny.toml: " in str(error.value)
    assert words in str(error.value)


EVERY_BLOCK = ("[[block]]", '[every_block]\ndata = "digits"\nwidth = 0.5\n\n[[block]]')


def test_a_block_overrides_what_every_block_has(tmp_path: Path) -> None:
    (inherits,) = load_protocol(write_tiny(tmp_path, EVERY_BLOCK, ("width = 0.2\n", ""))).block
    (overrides,) = load_protocol(write_tiny(tmp_path, EVERY_BLOCK)).block
    assert (inherits.data, inherits.width, overrides.width) == ("digits", 0.5, 0.2)
    assert inherits == overrides.model_copy(update={"width": 0.5})


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [("width = -1", "width = 0.2\n"), ("depth = 3", ""), ('data = ["a"]', 'data = "digits"\n')],
)
def test_a_mistake_in_what_every_block_has_is_found(
    wrong: str, instead: str, tmp_path: Path
) -> None:
    change = ("[[block]]", f"[every_block]\n{wrong}\n\n[[block]]")
    with pytest.raises(InvalidInput, match=rf"tiny\.toml: .*every_block\.{wrong.split()[0]}"):
        load_protocol(write_tiny(tmp_path, (instead, ""), change))


def test_what_is_not_toml_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("seeds = [")
    with pytest.raises(InvalidInput, match=r"broken\.toml is not TOML"):
        load_protocol(path)
    with pytest.raises(
        InvalidInput,
        match="rivals, paper-mini, paper-eighth, paper-quarter, paper, tofu-mini or a TOML file",
    ):
        load_protocol("papper")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"people:0.2"', '"random:0.2"', r"should be people:FRACTION.*\(got 'random:0.2'\)"),
        ('methods = ["NPO"]', 'methods = ["SRL"]', "SRL is not for language models"),
        ('methods = ["NPO"]', 'methods = ["DPO"]', "DPO needs answers to prefer"),
        ('"small-transformer"', '"vgg16"', "Unknown language model 'vgg16'"),
        ("heads = 2", "tails = 2", "has no option 'tails'"),
        ("[0]", '[0]\nattacks = "released"', "`attacks` = 'released' is for images"),
        ("[0]", '[0]\nfull_scores = "last"', "`full_scores` = 'last' is for images"),
        ("[0]", '[0]\nmetrics = ["jsd"]', r"`metrics` = \['jsd'\] is for images.*'tiny' in a"),
    ],
)
def test_what_does_not_go_with_texts_is_refused_with_its_place(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=rf"texts\.toml: [\w.]+: .*{message}"):
        load_protocol(write_tiny_texts(tmp_path, (old, new)))


def test_people_are_not_forgotten_from_images(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="should be one for images, as the data are digits"):
        load_protocol(write_tiny(tmp_path, ("random:0.3", "people:0.3")))
