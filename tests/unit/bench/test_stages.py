from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from expunge import _tensors as tensors
from expunge import dispatch
from expunge._errors import DataError, InvalidInput
from expunge.bench._agreement_probe import agreement_of
from expunge.bench._protocol_file import load_protocol
from expunge.bench._records import collect, load_records, save_records, select_records
from expunge.bench._run import drop_trained, run_planned, stages_of, status
from expunge.bench._stages import PlannedRun, StageOptions, plan
from expunge.data import divide, load
from expunge.dispatch import InlineEngine
from expunge.engine import Callback, Run, unlearn
from expunge.evaluation import evaluate
from expunge.models import build_model
from expunge.store import Store
from tests.unit.bench.tiny_protocol import timeless, write_tiny
from tests.unit.dispatch.forks import Fork

HERE = StageOptions(device="cpu")


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> list[PlannedRun]:
    return plan(load_protocol(write_tiny(tmp_path_factory.mktemp("protocol"))), HERE)


@pytest.fixture(scope="module")
def done(planned: list[PlannedRun], tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("bench") / "store")
    run_planned(planned, store, engine=InlineEngine(store)).check()
    return store


def test_every_stage_leaves_its_files(planned: list[PlannedRun], done: Store) -> None:
    assert {entry.kind for entry in done.entries()} == {"initial", "ideal", "reference", "unlearn"}
    for stage in stages_of(planned):
        entry = done.open(stage)
        names = {path.name for path in entry.folder.iterdir()}
        assert {"config.json", "metrics.jsonl", "environment.json"} <= names
        assert "weights.safetensors" in names or stage.kind == "reference"
        assert not any(name.startswith(".") for name in names)


def test_records_hold_the_metrics_at_the_epochs_asked_for(
    planned: list[PlannedRun], done: Store
) -> None:
    records = collect(planned, done)
    assert [r.label for r in records] == ["initial", "ideal", "FT", "SRL", "SRL-FOCUS"]
    focus = records[-1]
    assert [row["epoch"] for row in focus.epochs] == [0, 1, 2, 3]
    assert [row["epoch"] for row in focus.evaluated] == [0, 1, 3]
    assert focus.value("ua", 0) == records[0].value("ua")
    assert focus.value("rua") == pytest.approx(focus.final["ua"] - records[1].value("ua"))
    assert focus.value("abs_rua") == abs(focus.final["rua"])
    assert focus.value("rte") == focus.final["seconds"] > 0
    assert focus.value("rte", 7) is None
    assert records[1].value("rua") == 0.0
    assert records[1].value("fid") == 100.0
    assert focus["scenario"] == "random:0.3"
    assert len(focus.steps["cosine"]) == 3 * focus.at(1)["steps"]
    assert list(focus.agreement) == ["1", "3"]
    assert sum(focus.agreement["3"]) == pytest.approx(1.0, abs=1e-3)
    assert not records[2].agreement


def test_the_final_row_is_what_evaluate_says_of_the_kept_weights(
    planned: list[PlannedRun], done: Store
) -> None:
    run = planned[-1]
    splits = load("digits", limit=60)
    parts = divide(splits, "random:0.3", 0)

    def model(stage: Any) -> torch.nn.Module:
        net = build_model("small-cnn", in_channels=1, width=0.2)
        state, _ = tensors.load(done.open(stage).path("weights.safetensors"))
        net.load_state_dict(state)
        return net.eval()

    scores = evaluate(
        model(run.unlearn),
        forget=parts.forget,
        retain=parts.retain,
        test=splits.test,
        ideal=model(run.ideal),
    )
    final = collect(planned, done)[-1].final
    for name in ("ua", "ra", "rua", "fid"):
        assert final[name] == pytest.approx(getattr(scores, name))
    assert final["ta"] == pytest.approx(scores.ta, abs=15), "TA is of 80 of the test images"


def test_a_second_run_does_nothing(planned: list[PlannedRun], done: Store) -> None:
    again = run_planned(planned, done, engine=InlineEngine(done))
    assert not again.done
    assert len(again.found) == 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_kills_at_twenty_random_moments_end_with_the_same_records(
    planned: list[PlannedRun], done: Store, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    dice = random.Random(1)

    def attempt() -> str:
        return str(run_planned(planned, store, engine=InlineEngine(store)).check())

    kills = rounds = 0
    while kills < 20 and rounds < 60:
        rounds += 1
        kills += Fork(attempt).kill_after(dice.uniform(0.02, 0.4))
        if all(store.has(run.unlearn) for run in planned):
            whole = list(stages_of(planned))
            store.remove(dice.choice(whole))  # there is nothing left to disturb: take some away
            store.remove(planned[dice.randrange(len(planned))].unlearn)
    assert kills == 20
    attempt()
    assert timeless(collect(planned, store)) == timeless(collect(planned, done))


def test_weights_are_kept_as_asked(planned: list[PlannedRun], tmp_path: Path) -> None:
    arm = planned[0]
    for keep, files in (("none", set()), ("all", {1, 3})):
        path = write_tiny(tmp_path, ('methods = ["SRL"]\naddons = ["none", "FOCUS"]\n', ""))
        runs = plan(load_protocol(path), StageOptions(device="cpu", keep=keep))
        assert runs[0].unlearn.key == arm.unlearn.key, "what is kept does not change the key"
        store = Store(tmp_path / keep)
        run_planned(runs, store, engine=InlineEngine(store), keep=keep).check()
        names = set(store.open(runs[0].unlearn).files)
        assert {n for n in names if n.startswith("weights-")} == {
            f"weights-{epoch}.safetensors" for epoch in files
        }
        assert ("weights.safetensors" in names) == (keep == "all")
        assert store.has(runs[0].initial) == (keep == "all")
        assert len(collect(runs, store)) == 3
        again = run_planned(runs, store, engine=InlineEngine(store), keep=keep)
        assert not again.done, "models that nothing needs any more are not trained again"


def test_models_that_a_missing_stage_needs_stay(planned: list[PlannedRun], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    dispatch.run([planned[0].unlearn], store, inline=True).check()
    assert drop_trained(planned, store) == []
    assert drop_trained(planned[:1], store) == [planned[0].initial, planned[0].ideal]


def test_status_tells_done_failed_damaged_and_missing(
    planned: list[PlannedRun], tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    assert {one.state for one in status(planned, store)} == {"missing"}
    dispatch.run([planned[0].reference], store, inline=True).check()
    store.record_failure(planned[0].unlearn, {"error": "ValueError", "message": "no luck"})
    store.work(planned[1].unlearn)
    weights = store.open(planned[0].initial).path("weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    found = {one.stage.key: one for one in status(planned, store)}
    assert found[planned[0].ideal.key].state == "done"
    assert found[planned[0].initial.key].state == "damaged"
    assert found[planned[1].unlearn.key].state == "interrupted"
    failed = found[planned[0].unlearn.key]
    assert failed.state == "failed"
    assert failed.failure is not None
    assert failed.failure["message"] == "no luck"
    with store.lock(planned[2].unlearn):
        states = {one.stage.key: one.state for one in status(planned, store)}
    assert states[planned[2].unlearn.key] == "running"


def test_changed_data_are_noticed(planned: list[PlannedRun], done: Store, tmp_path: Path) -> None:
    archive = tmp_path / "own.npz"

    def write(seed: int) -> None:
        rng = np.random.default_rng(seed)
        names = ("x_train", "x_test")
        arrays = {n: rng.integers(0, 255, (60, 8, 8), dtype=np.uint8) for n in names}
        labels = {n.replace("x", "y"): np.arange(60) % 3 for n in names}
        np.savez(archive, **arrays, **labels)

    write(0)
    path = write_tiny(tmp_path, ('data = "digits"\nlimit = 60', f'data = "npz:{archive}"'))
    before = plan(load_protocol(path), HERE)
    write(1)
    after = plan(load_protocol(path), HERE)
    assert before[0].initial.key != after[0].initial.key
    outcome = run_planned(before, Store(tmp_path / "store"), engine=None, workers=1)
    assert "have changed since the run was planned" in outcome.failed[0].message


def test_records_survive_a_file(planned: list[PlannedRun], done: Store, tmp_path: Path) -> None:
    records = collect(planned, done)
    save_records(tmp_path / "records.jsonl", records)
    loaded = load_records(tmp_path / "records.jsonl")
    assert [r.dump() for r in loaded] == [r.dump() for r in records]
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    for damage, words in (
        (lines[1][:-20], "line 2: this is not a record"),
        ('{"key": "x"}', "line 2: this is not a record"),
        (lines[1].replace('"format": 1', '"format": 9'), "line 2: written by a newer version"),
    ):
        (tmp_path / "bad.jsonl").write_text("\n".join([lines[0], damage]) + "\n")
        with pytest.raises(DataError, match=words):
            load_records(tmp_path / "bad.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        load_records(tmp_path / "absent.jsonl")


def test_conditions_choose_records(planned: list[PlannedRun], done: Store) -> None:
    records = collect(planned, done)
    assert [r.label for r in select_records(records, ["method=SRL"])] == ["SRL", "SRL-FOCUS"]
    assert [r.label for r in select_records(records, ["addon=FOCUS,none", "lr=0.001"])] == [
        "FT",
        "SRL",
        "SRL-FOCUS",
    ]
    assert [r.label for r in select_records(records, ["label=ideal"])] == ["ideal"]
    assert select_records(records, ["seed=1"]) == []
    for wrong in ("colour=red", "method"):
        with pytest.raises(InvalidInput, match="A condition is name=value"):
            select_records(records, [wrong])


def test_the_probe_sees_what_the_next_step_sees_and_changes_nothing() -> None:
    """f from the probe, against the diagnostics of a step on the same batches."""
    splits = load("digits", limit=40)
    parts = divide(splits, "random:0.4", 0)
    net = build_model("small-cnn", in_channels=1, width=0.2, seed=0)
    means: list[float] = []

    class Look(Callback):
        def on_epoch(self, run: Run) -> None:
            f = torch.cat([part.flatten() for part in agreement_of(run)])
            assert 0.0 <= float(f.min()) <= float(f.max()) <= 1.0
            means.append(float(f.mean()))

    arguments: dict[str, Any] = {
        "forget": parts.forget,
        "retain": parts.retain,
        "method": "neg-grad-plus",
        "epochs": 2,
        "batch_size": 16,
        "device": "cpu",
        "progress": False,
    }
    plain = unlearn(net, **arguments)
    probed = unlearn(net, **arguments, callbacks=[Look()])
    for a, b in zip(
        plain.model.state_dict().values(), probed.model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b)
    assert len(means) == 2
    assert all(0.2 < mean < 0.8 for mean in means)
