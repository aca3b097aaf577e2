"""Rewinding: at the end of a run, return to the epoch that forgot just as much as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from expunge._kinds import Range, check_arguments
from expunge.engine._callbacks import Callback

if TYPE_CHECKING:
    from expunge.engine._run import Run


class Rewind(Callback):
    """At the end, return to the epoch whose error on forget data is nearest to the reference.

    Forgetting more than a model that never saw the data would is itself a trace of them. The error
    of such a model is estimated on unseen data, with the class mix of the forget set: the
    *reference* is the error of the last epoch's model there. Of epochs that are equally near, the
    last one is taken. With ``method="scrub"`` this is SCRUB+R; it goes with every other method.

    Errors are shares in [0, 1]. Every epoch's row gets ``forget_error`` and ``unseen_error``, the
    last one also ``rewound_to``. The weights of all epochs are kept in main memory and, where the
    run has one, in its checkpoint, since the reference is known only at the end; with a
    ``reference`` given, just those of the nearest epoch so far. The run needs ``unseen`` data.

    Reference: M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou, *Towards Unbounded Machine
    Unlearning*, NeurIPS 2023 (arXiv 2302.09880): SCRUB+R.

    Deviation: the paper picks unseen examples that have the distribution of the forget set; here
    all are used, with a weight per class. It does not say which of equally near epochs is taken.

    Args:
        reference: the error on forget data to aim at, if it is known; then no ``unseen`` data are
            needed.

    Example:
        >>> from expunge import Execution, unlearn
        >>> data = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.arange(32) % 2)
        >>> parts = torch.utils.data.random_split(data, [8, 16, 8])
        >>> forget, retain, unseen = parts
        >>> rewind = Rewind()
        >>> result = unlearn(
        ...     torch.nn.Linear(3, 2), forget=forget, retain=retain, unseen=unseen,
        ...     method="scrub", epochs=3, execution=Execution(callbacks=[rewind]),
        ... )
        >>> rewind.epoch in (1, 2, 3)
        True
    """

    def __init__(self, reference: Annotated[float, Range(0, 1, "[]")] | None = None) -> None:
        check_arguments(Rewind.__init__, locals())
        self.reference = reference
        self.epoch: int | None = None
        """The epoch that the run has returned to; None before its end."""
        self._kept: list[dict[str, Any]] = []

    def on_start(self, run: Run) -> None:
        """Forget the epochs of an earlier run."""
        self.epoch = None
        if run.step == 0:
            self._kept = []

    def on_epoch(self, run: Run) -> None:
        """Keep the weights, and measure both errors."""
        logits, labels = run.problem.predict("forget")
        error = float((logits.argmax(dim=1) != labels).double().mean())
        unseen_error = self.reference
        if unseen_error is None:
            unseen_error = error_in_class_mix(*run.problem.predict("unseen"), labels)
            run.record(unseen_error=unseen_error)
        run.record(forget_error=error)
        weights = {name: t.detach().to("cpu", copy=True) for name, t in _state(run).items()}
        self._kept.append(
            {"epoch": run.epoch, "error": error, "reference": unseen_error, "weights": weights}
        )
        if self.reference is not None:
            self._kept = [self._nearest()]

    def on_end(self, run: Run) -> None:
        """Load the weights of the epoch that is nearest to the reference."""
        if not self._kept:
            return
        nearest = self._nearest()
        run.model.load_state_dict(nearest["weights"])
        self.epoch = int(nearest["epoch"])
        run.record(rewound_to=self.epoch)

    def _nearest(self) -> dict[str, Any]:
        reference = self._kept[-1]["reference"]
        return min(self._kept, key=lambda kept: (abs(kept["error"] - reference), -kept["epoch"]))

    def state_dict(self) -> dict[str, Any]:
        """The epochs so far, with their weights."""
        return {"kept": list(self._kept)} if self._kept else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the epochs that a checkpoint has."""
        self._kept = list(state["kept"])


def _state(run: Run) -> dict[str, Tensor]:
    return dict(run.model.state_dict())


def error_in_class_mix(logits: Tensor, labels: Tensor, mix: Tensor) -> float:
    """The error of ``logits`` [M, K] for ``labels`` [M], with the class frequencies of ``mix`` [N].

    ``mix`` holds labels. Classes without an example among ``labels`` do not count; if none of
    them has one, the plain error.

    >>> logits, labels = torch.eye(3)[[0, 1, 1, 1]], torch.tensor([0, 0, 1, 1])
    >>> error_in_class_mix(logits, labels, torch.tensor([0, 0, 0, 1]))
    0.375
    """
    wrong = (logits.argmax(dim=1) != labels).double()
    count = logits.shape[1]
    here, wanted = (torch.bincount(part, minlength=count).double() for part in (labels, mix))
    weights = torch.where(here > 0, wanted / here.clamp(min=1.0), 0.0)[labels]
    if not weights.any():
        return float(wrong.mean())
    return float((weights * wrong).sum() / weights.sum())
