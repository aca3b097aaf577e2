"""How the agreement probability f is distributed over the parameters of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from expunge.engine import Callback, Run
from expunge.update._agreement import accord
from expunge.update._gradients import gather

BINS = 50
PREFIX = "f_bin_"


class AgreementProbe(Callback):
    """After each epoch of ``epochs``, a histogram of f (18) over all parameters, for one pair of
    batches: what the add-on would see at its next step. The run is left as it was.

    The share of each bin goes into the epoch's row, as ``f_bin_00`` and so on, so that a run that
    is killed does not lose it; :func:`take_histograms` takes them out of the rows again.
    """

    def __init__(self, epochs: frozenset[int], bins: int = BINS) -> None:
        self.epochs, self.bins = epochs, bins

    def on_epoch(self, run: Run) -> None:
        moments = run.update.addon.statistics
        if run.epoch not in self.epochs or moments is None or moments.from_parts:
            return
        if not run.method.constrained or not run.update.state.moments_u:
            return
        counts = torch.zeros(self.bins)
        for f in agreement_of(run):
            counts += torch.histc(f.float().cpu(), bins=self.bins, min=0.0, max=1.0)
        shares = (counts / counts.sum()).tolist()
        run.record(**{f"{PREFIX}{k:02d}": share for k, share in enumerate(shares)})


def take_histograms(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The histograms in ``rows`` by epoch, removed from them."""
    found = {}
    for row in rows:
        names = sorted(name for name in row if name.startswith(PREFIX))
        if names:
            found[str(row["epoch"])] = [round(row.pop(name), 6) for name in names]
    return found


def agreement_of(run: Run) -> list[Tensor]:
    """f of every parameter for the first pair of batches, as the run's next step would see it."""
    problem, update = run.problem, run.update
    forget, retain = next(problem.pairs())
    kept = [(buffer, buffer.clone()) for buffer in run.model.buffers()]
    random: Any = problem.generator.get_state()
    training = run.model.training
    run.model.train()
    try:
        with torch.enable_grad():
            params = problem.parameters
            first = gather(run.method.objective(problem, forget, retain), params)
            second = gather(run.method.constraint(problem, forget, retain), params)
    finally:
        run.model.train(training)
        problem.generator.set_state(random)
        with torch.no_grad():
            for buffer, value in kept:
                buffer.copy_(value)
    moments, state = update.addon.statistics, update.state
    assert moments is not None
    keep, add, scale = moments.coefficients(state.step + 1, 1)
    found = []
    pairs = zip(first.gradients, second.gradients, state.moments_u, state.moments_c, strict=True)
    for u, c, v_u, v_c in pairs:
        if u is None or c is None:
            continue
        new_u, new_c = (keep * v + add * g * g for v, g in ((v_u, u), (v_c, c)))
        sure = accord(u, c, new_u, new_c, update.addon.stability, (scale, scale))
        found.append((0.5 + 0.5 * sure).detach())
    return found
