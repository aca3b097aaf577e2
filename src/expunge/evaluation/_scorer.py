"""Score models on one division of the data, against an ideal model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import nn

from expunge.data import Division, Examples
from expunge.distributed import SINGLE, Group, shared_inference
from expunge.engine import Callback, Predictions, Run, predict
from expunge.evaluation._benign_steps import after_benign_steps, loss_auc
from expunge.evaluation._distances import (
    activation_distance,
    js_divergence,
    kl_divergence,
    klom,
    zrf,
)
from expunge.evaluation._scores import Released, Scores, relearned_scores, score
from expunge.evaluation._statistics import auc_of
from expunge.evaluation._views import Views, view
from expunge.evaluation.attacks._population import RMIA


def rmia_auc(model: Views, references: Sequence[Views]) -> float:
    """The AUC of RMIA against test data of the classes to forget, by retrained models."""
    fair = [views.of_forget_classes() for views in (model, *references)]
    found = RMIA().score(fair[0], fair[1:])
    return auc_of(found.forget, found.test)


DISTANCES = {"kl": kl_divergence, "jsd": js_divergence, "activation_distance": activation_distance}
"""Distances from the ideal model's predictions on the forget set."""
MORE_METRICS = ("rmia_auc", *DISTANCES, "zrf", "loss_auc", "relearned", "klom")
"""What a benchmark may measure besides the paper's metrics, by name.

``relearned`` stands for UA, TA, rUA and the AUC of the loss attack after benign steps, which are
taken where all scores are. ``klom`` is the 95th percentile over the forget set, by ``references``.
"""


@dataclass
class Scorer:
    """Scores models on one division of the data.

    ``ideal`` is the model retrained without the forget set, whose predictions are computed once, or
    those predictions. In a ``group``, all processes make the same calls and share the work.
    ``more`` names metrics of :data:`MORE_METRICS`; they need the ``ideal`` model's views and
    ``untrained`` predictions, ``relearned`` also those of the ideal model on the forget set after
    the same benign steps. RMIA has the ``references`` (default: the ideal model), and
    KLoM has them as the retrained models.
    """

    division: Division
    ideal: nn.Module | Predictions | Views | None = None
    attacks: bool | Released = False
    group: Group = SINGLE
    more: Collection[str] = ()
    untrained: Predictions | None = None
    ideal_after_benign_steps: Predictions | None = None
    references: Sequence[Views] = ()

    def score(self, model: nn.Module) -> Scores:
        """UA, RA, TA; with an ideal model rUA and FID; with ``attacks`` the membership attacks."""
        views = self._view(model)
        return self.group.run_in_first(lambda: self._score(views))

    def score_by_name(
        self, model: nn.Module, *, per_class: bool = False, briefly: bool = False
    ) -> dict[str, float]:
        """The scores that exist by name; ``briefly``: without those that need all retained data."""
        views = self._view(model, briefly=briefly)
        later = None
        if "relearned" in self.more and not briefly:
            stepped = after_benign_steps(model, self.division.retain)
            with shared_inference(self.group):
                later = view(stepped, forget=self.division.forget, test=self.division.splits.test)

        def measure() -> dict[str, float]:
            values = self._score(views).as_dict(per_class=per_class)
            if self.more:
                values |= self._more(views)
            ideal = self.ideal_after_benign_steps
            return values if later is None else values | relearned_scores(later, ideal)

        return self.group.run_in_first(measure)

    def _more(self, views: Views) -> dict[str, float]:
        assert isinstance(self.ideal, Views)
        assert self.untrained is not None
        values = {
            name: distance(views.forget, self.ideal.forget)
            for name, distance in DISTANCES.items()
            if name in self.more
        }
        if "zrf" in self.more:
            values["zrf"] = zrf(views.forget, self.untrained)
        if "loss_auc" in self.more:
            values["loss_auc"] = loss_auc(views.forget, views.test)
        if "klom" in self.more:
            others = [each.forget for each in self.references]
            values["klom"] = float(klom([views.forget], others).quantile(0.95))
        if "rmia_auc" in self.more:
            values["rmia_auc"] = rmia_auc(views, self.references or (self.ideal,))
        return values

    @cached_property
    def _population(self) -> Examples:
        """The validation data of the classes to forget, which is all that RMIA looks at."""
        val, classes = self.division.splits.val, torch.unique(self.division.forget.labels)
        return val.subset(torch.isin(val.labels, classes).nonzero()[:, 0])

    def _view(self, model: nn.Module, *, briefly: bool = False) -> Views:
        splits = self.division.splits
        rest: dict[str, Any] = {"val": self._population} if "rmia_auc" in self.more else {}
        rest |= {} if briefly else {"retain": self.division.retain}
        with shared_inference(self.group):
            if isinstance(self.ideal, nn.Module):
                self.ideal = predict(self.ideal, self.division.forget)
            return view(model, forget=self.division.forget, test=splits.test, **rest)

    def _score(self, views: Views) -> Scores:
        ideal = self.ideal.forget if isinstance(self.ideal, Views) else self.ideal
        assert not isinstance(ideal, nn.Module)
        without_val = Views(views.forget, views.test, views.retain)
        return score(without_val, ideal, attacks=views.retain is not None and self.attacks)


class EpochScores(Callback):
    """Adds the scores to the history after each of ``epochs``, or after every epoch.

    Where an epoch overshoots, ``steps`` are more moments to score at, numbered from 1. Those within
    an epoch are in ``between``: rows like the history's, whose epoch is a fraction.
    """

    def __init__(
        self,
        scorer: Scorer,
        epochs: Collection[int] | None = None,
        *,
        per_class: bool = False,
        full: Literal["every", "last"] = "every",
        steps: Collection[int] = (),
    ) -> None:
        self.scorer, self.epochs, self.per_class, self.full = scorer, epochs, per_class, full
        self.steps = steps
        self.between: list[dict[str, float]] = []

    def on_step(self, run: Run) -> None:
        if run.step in self.steps and run.step % run.steps_per_epoch:
            seconds, processor = run.watch.both
            row = {"epoch": run.step / run.steps_per_epoch}
            row |= {"seconds": seconds, "processor_seconds": processor}
            self.between.append(row | self._scores(run))

    def on_epoch(self, run: Run) -> None:
        if self.epochs is None or run.epoch in self.epochs or run.step in self.steps:
            run.record(**self._scores(run))

    def _scores(self, run: Run) -> dict[str, float]:
        briefly = self.full == "last" and run.step < run.total_steps
        return self.scorer.score_by_name(run.model, per_class=self.per_class, briefly=briefly)

    def state_dict(self) -> dict[str, Any]:
        return {"between": self.between}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.between = state["between"]
