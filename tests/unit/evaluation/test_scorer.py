"""Scores of a benchmark beyond the paper's metrics."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from expunge.data import divide, load
from expunge.engine import Callback, Run
from expunge.evaluation import RMIA, Predictions, Views, klom, predict, run_attack, view
from expunge.evaluation._benign_steps import after_benign_steps, loss_auc
from expunge.evaluation._distances import activation_distance, js_divergence, kl_divergence, zrf
from expunge.evaluation._scorer import MORE_METRICS, EpochScores, Scorer, rmia_auc
from expunge.evaluation._scores import accuracy
from expunge.models import build_model
from tests.tiny import unlearn


@pytest.mark.usefixtures("one_thread")
def test_more_metrics_are_those_of_their_functions() -> None:
    splits = load("digits", limit=90)
    parts = divide(splits, "class:3:0.8", 0)
    model, ideal, untrained = (
        build_model("small-cnn", in_channels=1, width=0.2, seed=seed) for seed in range(3)
    )
    data = {"forget": parts.forget, "test": splits.test, "val": splits.val}
    of_ideal, of_untrained = view(ideal, **data), predict(untrained, parts.forget)
    relearned = predict(after_benign_steps(ideal, parts.retain), parts.forget)
    more: dict[str, Any] = {"untrained": of_untrained, "ideal_after_benign_steps": relearned}
    retrained = [of_ideal, view(untrained, **data)]
    scorer = Scorer(parts, of_ideal, more=MORE_METRICS, references=retrained, **more)
    found, plain = scorer.score_by_name(model), Scorer(parts, of_ideal.forget).score(model)
    after = ["relearned_ua", "relearned_ta", "relearned_rua", "relearned_auc"]
    names = [name for name in MORE_METRICS if name != "relearned"] + after
    assert found == plain.as_dict() | {name: found[name] for name in names}
    of_model = view(model, **data)
    assert found["rmia_auc"] == rmia_auc(of_model, retrained)
    assert found["klom"] == klom([of_model.forget], [v.forget for v in retrained]).quantile(0.95)
    assert found["kl"] == kl_divergence(of_model.forget, of_ideal.forget)
    assert found["loss_auc"] == loss_auc(of_model.forget, of_model.test)
    again = view(after_benign_steps(model, parts.retain), **data)
    assert found["relearned_ua"] == accuracy(again.forget)
    assert found["relearned_ta"] == accuracy(again.test)
    assert found["relearned_rua"] == accuracy(again.forget) - accuracy(relearned)
    assert found["relearned_auc"] == loss_auc(again.forget, again.test)
    assert found["jsd"] == js_divergence(of_model.forget, of_ideal.forget)
    assert found["activation_distance"] == activation_distance(of_model.forget, of_ideal.forget)
    assert found["zrf"] == zrf(of_model.forget, of_untrained)


@pytest.mark.usefixtures("one_thread")
def test_brief_scores_are_those_that_need_no_retained_data() -> None:
    parts = divide(load("digits", limit=90), "random:0.3", 0)
    model, ideal = (
        build_model("small-cnn", in_channels=1, width=0.2, seed=seed) for seed in range(2)
    )
    scorer = Scorer(parts, ideal, attacks=True)
    full, brief = scorer.score_by_name(model), scorer.score_by_name(model, briefly=True)
    assert set(brief) == {"ua", "ta", "rua", "fid"}
    assert brief == {name: full[name] for name in brief}
    assert full.keys() - brief.keys() > {"ra"}


@pytest.mark.usefixtures("one_thread")
def test_steps_within_an_epoch_are_scored_as_a_shorter_run_would_be() -> None:
    parts = divide(load("digits", limit=90), "random:0.3", 0)
    model = build_model("small-cnn", in_channels=1, width=0.2, seed=0)
    data: dict[str, Any] = {"forget": parts.forget, "retain": parts.retain, "progress": False}
    data |= {"batch_size": 9, "method": "random-label"}
    scorer = Scorer(parts)

    class StopAfter(Callback):
        def on_step(self, run: Run) -> None:
            if run.step == 4:
                run.stop()

    watch = EpochScores(scorer, (2,), steps=(1, 3, 4, 5))
    rows = unlearn(model, **data, epochs=2, callbacks=[watch]).history.epochs
    spe = int(rows[0]["steps"])
    assert spe == 3
    assert ["ua" in row for row in rows] == [True, True], "step 3 ends an epoch"
    assert [row["epoch"] for row in watch.between] == [1 / 3, 4 / 3, 5 / 3]
    stopped = unlearn(model, **data, epochs=2, callbacks=[StopAfter()]).model
    expected = scorer.score_by_name(stopped)
    assert {name: watch.between[1][name] for name in expected} == expected
    times = [row["seconds"] for row in (watch.between[0], rows[0], *watch.between[1:], rows[1])]
    assert times == sorted(times)
    resumed = EpochScores(scorer)
    resumed.load_state_dict(watch.state_dict())
    assert resumed.between == watch.between


@pytest.mark.usefixtures("one_thread")
def test_full_scores_can_be_those_of_the_last_epoch_alone() -> None:
    parts = divide(load("digits", limit=90), "random:0.3", 0)
    model = build_model("small-cnn", in_channels=1, width=0.2, seed=0)
    watch = EpochScores(Scorer(parts), (1, 3), full="last")
    data = {"forget": parts.forget, "retain": parts.retain}
    rows = unlearn(model, **data, epochs=3, callbacks=[watch], progress=False).history.epochs
    assert [("ua" in row, "ra" in row) for row in rows] == [
        (True, False),
        (False, False),
        (True, True),
    ]


def test_rmia_compares_with_unseen_data_of_the_classes_to_forget() -> None:
    generator = torch.Generator().manual_seed(0)

    def outputs(label: int, count: int) -> Predictions:
        logits = torch.randn(count, 3, generator=generator)
        logits[:, label] += 2.0
        return Predictions(logits, torch.full((count,), label))

    def views() -> tuple[Views, Views]:
        parts = [outputs(1, n) for n in (40, 50, 60)]
        other = outputs(2, 30)
        mixed = [
            Predictions(*(torch.cat(t) for t in zip(p, other, strict=True))) for p in parts[1:]
        ]
        return Views(parts[0], *parts[1:2], val=parts[2]), Views(parts[0], mixed[0], val=mixed[1])

    target, reference = views(), views()
    pure = run_attack(RMIA(), target[0], [reference[0]], resamples=1).auc.value
    assert rmia_auc(target[1], [reference[1]]) == pytest.approx(pure)
