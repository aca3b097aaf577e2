"""The stages of a protocol: what changes their keys, and what they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import load_results
from expunge.bench._stages import plan
from tests.unit.bench.tiny_protocol import write_tiny

RESULTS = Path(__file__).parents[3] / "results"


def keys(tmp_path: Path, *changes: tuple[str, str], **options: str) -> set[str]:
    runs = plan(load_protocol(write_tiny(tmp_path, *changes)), **options)
    return {stage.key for run in runs for stage in run.stages}


def test_what_does_not_matter_leaves_every_key_alone(tmp_path: Path) -> None:
    base = keys(tmp_path)
    assert keys(tmp_path, ('name = "tiny"', 'name = "other"')) == base
    assert keys(tmp_path, ('"SRL"', '"random-label"'), ('"FOCUS"', '"focus"')) == base
    assert keys(tmp_path, ("lr = 0.05", "lr = 0.050")) == base
    assert keys(tmp_path, root="/data", device="cuda", keep="none") == base


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        (("limit = 60", "limit = 61"), 0),
        (("epochs = 2", "epochs = 4"), 0),
        (("width = 0.2", "width = 0.3"), 0),
        (("augment = false", "augment = true"), 0),
        (("random:0.3", "random:0.2"), 1),  # the initial model is the same
        (("test_limit = 80", "test_limit = 90"), 2),  # and so is the ideal one
        (("seeds = [0]", 'seeds = [0]\nmetrics = ["jsd"]'), 2),
        (("lr = 1e-3", "lr = 2e-3"), 3),  # and so are their scores
        (("evaluate_at = [1, 3]", "evaluate_at = [1, 2]"), 3),
        (("test_limit", "evaluate_steps = [1]\ntest_limit"), 3),
        (('baselines = ["FT"]', 'baselines = ["CT"]'), 5),  # and all runs but one
    ],
)
def test_what_matters_changes_the_keys_below_it(
    tmp_path: Path, change: tuple[str, str], shared: int
) -> None:
    base = keys(tmp_path)
    assert len(base) == 6
    assert len(base & keys(tmp_path, change)) == shared


@pytest.mark.parametrize(("given", "at"), [("1, 3", [1, 3]), ("1, 2", [1, 2, 3]), ("7", [3])])
def test_a_run_is_always_scored_after_its_last_epoch(
    tmp_path: Path, given: str, at: list[int]
) -> None:
    path = write_tiny(tmp_path, ("evaluate_at = [1, 3]", f"evaluate_at = [{given}]"))
    assert all(list(run.stage.config["evaluate_at"]) == at for run in plan(load_protocol(path)))


@pytest.mark.parametrize("name", ["paper-mini", "tofu-mini"])
def test_published_runs_still_have_their_keys(name: str) -> None:
    """So that a run resumes from a store of this or an earlier version, such as store.tar.xz."""
    published = load_results(RESULTS / name / "results.jsonl")
    planned = {stage.key for run in plan(load_protocol(name)) for stage in run.stages}
    assert {result.key.partition("-")[0] for result in published} <= planned


def test_models_are_shared_by_all_that_hangs_on_them() -> None:
    planned = plan(load_protocol("paper"))
    assert len({run.reference.parents[0].key for run in planned}) == 2 * 2 * 3
    assert len({run.reference.parents[1].key for run in planned}) == 2 * 2 * 3 * 6
    assert len({run.stage.key for run in planned}) == (360 + 72) * 3
