"""What the stages of a protocol compute and leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from expunge import InvalidInput
from expunge import _tensors as tensors
from expunge.bench._image_stages import IDEAL, _scorer, agreement_of
from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import BenchRun
from expunge.bench._run import collect, run_planned, stages_of
from expunge.bench._stages import plan
from expunge.data import divide, load
from expunge.dispatch import InlineEngine
from expunge.engine import Callback, Run
from expunge.evaluation import Predictions, evaluate, klom
from expunge.models import build_model
from expunge.store import Store
from tests.tiny import unlearn
from tests.unit.bench.tiny_protocol import write_tiny

pytestmark = pytest.mark.usefixtures("one_thread")


def test_every_stage_leaves_its_files(planned: list[BenchRun], done: Store) -> None:
    assert {path.name for path in done.root.glob("[!.]*/")} == {
        "initial",
        "ideal",
        "reference",
        "unlearn",
    }
    for stage in stages_of(planned):
        entry = done.open(stage)
        names = {path.name for path in entry.folder.iterdir()}
        assert {"config.json", "metrics.jsonl", "environment.json"} <= names
        assert "weights.safetensors" in names or stage.kind == "reference"
        assert not any(name.startswith(".") for name in names)


def test_the_final_row_is_what_evaluate_says_of_the_kept_weights(
    planned: list[BenchRun], done: Store
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
        model(run.stage),
        forget=parts.forget,
        retain=parts.retain,
        test=splits.test,
        ideal=model(run.reference.parents[1]),
    )
    final = collect(planned, done)[-1].final
    for name in ("ua", "ra", "rua", "fid"):
        assert final[name] == pytest.approx(getattr(scores, name))
    assert final["ta"] == pytest.approx(scores.ta, abs=15), "TA is of 80 of the test images"


def test_weights_are_kept_as_asked(planned: list[BenchRun], tmp_path: Path) -> None:
    path = write_tiny(tmp_path, ('methods = ["SRL"]\naddons = ["none", "FOCUS"]\n', ""))
    for keep in ("none", "last"):
        runs = plan(load_protocol(path), device="cpu", keep=keep)
        assert runs[0].stage.key == planned[0].stage.key, "what is kept does not change the key"
        store = Store(tmp_path / keep)
        run_planned(runs, store, engine=InlineEngine(store)).check()
        names = set(store.open(runs[0].stage).files)
        assert ("weights.safetensors" in names) == (keep == "last")
        assert all(store.has(stage) for stage in runs[0].reference.parents)
        again = run_planned(runs, store, engine=InlineEngine(store))
        assert not again.done


def test_a_second_ideal_model_shows_the_noise_floor(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path,
        ('methods = ["SRL"]\naddons = ["none", "FOCUS"]\n', ""),
        ("seeds", 'ideals = 2\nmetrics = ["rmia_auc", "kl", "loss_auc", "relearned"]\nseeds'),
    )
    runs = plan(load_protocol(path), device="cpu")
    store = Store(tmp_path / "store")
    run_planned(runs, store, engine=InlineEngine(store)).check()
    results = {result.model: result for result in collect(runs, store)}
    assert set(results) == {"initial", "ideal", "ideal-2", "unlearned"}
    first, second = results["ideal"].final, results["ideal-2"].final
    assert first["rua"] == first["kl"] == first["relearned_rua"] == 0.0
    assert second["kl"] > 0.0, "two retrained models differ"
    assert second["rua"] == pytest.approx(second["ua"] - first["ua"])
    assert second["relearned_rua"] == pytest.approx(second["relearned_ua"] - first["relearned_ua"])
    outputs = tensors.load(store.open(runs[0].reference).path(IDEAL))[0]
    division = divide(load("digits", limit=60), "random:0.3", 0)
    config = {"attacks": False, "metrics": ["rmia_auc"]}
    for name, count in (("ideal", 1), ("ideal-2", 1), ("unlearned", 2)):
        assert len(_scorer(division, outputs, config, name).references) == count, "never itself"
    assert {"relearned_auc", "loss_auc", "kl"} <= results["unlearned"].final.keys()


def test_an_epoch_that_overshoots_can_be_scored_step_by_step(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path,
        ('"none", "FOCUS"', '"FOCUS"'),
        ('baselines = ["FT"]', "evaluate_steps = [1, 2]"),
        ("batch_size = 8", "batch_size = 6"),
    )
    runs = plan(load_protocol(path), device="cpu")
    store = Store(tmp_path / "store")
    run_planned(runs, store, engine=InlineEngine(store)).check()
    [found] = [result for result in collect(runs, store) if not result.is_reference]
    per_epoch = found.epochs[-1]["steps"]
    assert per_epoch > 2
    expected = [0, 1 / per_epoch, 2 / per_epoch, 1, 3]
    assert [row["epoch"] for row in found.evaluated] == pytest.approx(expected)
    assert found.value("rte", found.evaluated[2]["epoch"]) > 0.0
    assert all("ra" in row for row in found.evaluated), "full scores, as at epochs"


def test_klom_compares_with_several_retrained_models(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path,
        ('methods = ["SRL"]\naddons = ["none", "FOCUS"]\n', ""),
        ("seeds", 'ideals = 4\nmetrics = ["klom"]\nseeds'),
    )
    runs = plan(load_protocol(path), device="cpu")
    store = Store(tmp_path / "store")
    run_planned(runs, store, engine=InlineEngine(store)).check()
    results = {result.model: result for result in collect(runs, store)}
    names = ["ideal", "ideal-2", "ideal-3", "ideal-4"]
    assert [*results] == ["initial", *names, "unlearned"]
    outputs = tensors.load(store.open(runs[0].reference).path(IDEAL))[0]
    logits = [outputs[f"{prefix}logits"] for prefix in ("", "second_", "ideal-3_", "ideal-4_")]
    views = [Predictions(each, outputs["labels"]) for each in logits]
    for k, name in enumerate(names):
        apart = klom([views[k]], [each for j, each in enumerate(views) if j != k])
        assert results[name].final["klom"] == pytest.approx(float(apart.quantile(0.95)))
    assert results["unlearned"].final["klom"] > 0.0
    with pytest.raises(InvalidInput, match=r"`ideals` should be at least 3. \(got 2\)"):
        load_protocol(write_tiny(tmp_path, ("seeds", 'ideals = 2\nmetrics = ["klom"]\nseeds')))


def test_changed_data_are_noticed(planned: list[BenchRun], done: Store, tmp_path: Path) -> None:
    archive = tmp_path / "own.npz"

    def write(seed: int) -> None:
        rng = np.random.default_rng(seed)
        names = ("x_train", "x_test")
        arrays = {n: rng.integers(0, 255, (60, 8, 8), dtype=np.uint8) for n in names}
        labels = {n.replace("x", "y"): np.arange(60) % 3 for n in names}
        np.savez(archive, **arrays, **labels)

    write(0)
    path = write_tiny(tmp_path, ('data = "digits"\nlimit = 60', f'data = "npz:{archive}"'))
    before = plan(load_protocol(path), device="cpu")
    write(1)
    after = plan(load_protocol(path), device="cpu")
    assert before[0].reference.parents[0].key != after[0].reference.parents[0].key
    outcome = run_planned(before, Store(tmp_path / "store"), engine=None, workers=1)
    assert "have changed since the run was planned" in outcome.failed[0].message


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
