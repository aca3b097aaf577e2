"""Score models on one division of the data, against an ideal model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch import nn

from expunge.data import Division
from expunge.distributed import SINGLE, Group
from expunge.distributed._shared_inference import shared_inference
from expunge.engine import Callback, Run
from expunge.engine._predict import Predictions, predict
from expunge.evaluation._scores import Scores, score
from expunge.evaluation._views import view


@dataclass
class Scorer:
    """Scores models on one division of the data.

    ``ideal`` is the model retrained without the forget set, whose predictions are computed once, or
    those predictions. In a ``group``, all processes make the same calls and share the work.
    """

    division: Division
    ideal: nn.Module | Predictions | None = None
    attacks: bool = False
    group: Group = SINGLE

    def score(self, model: nn.Module) -> Scores:
        """UA, RA, TA; with an ideal model rUA and FID; with ``attacks`` the membership attacks."""
        division = self.division
        with shared_inference(self.group):
            if isinstance(self.ideal, nn.Module):
                self.ideal = predict(self.ideal, division.forget)
            ideal = self.ideal
            views = view(
                model,
                forget=division.forget,
                retain=division.retain,
                test=division.splits.test,
            )
        return self.group.run_in_first(lambda: score(views, ideal, attacks=self.attacks))


class EpochScores(Callback):
    """Adds the scores to the history after each of ``epochs``, or after every epoch."""

    def __init__(
        self, scorer: Scorer, epochs: Collection[int] | None = None, *, per_class: bool = False
    ) -> None:
        self.scorer, self.epochs, self.per_class = scorer, epochs, per_class

    def on_epoch(self, run: Run) -> None:
        if self.epochs is None or run.epoch in self.epochs:
            run.record(**self.scorer.score(run.model).as_dict(per_class=self.per_class))
