"""Is there an add-on that does more than ``linear`` at the α that FOCUS hides?

    python benchmarks/focus_alpha.py fit --data DIR --store STORE   # the α of ``ALPHAS``
    python benchmarks/focus_alpha.py run --data DIR --store STORE   # resumes
    python benchmarks/focus_alpha.py claims --data DIR --store STORE

The models of ``paper-mini`` (CIFAR-10, VGG16 of an eighth of the width, 10,000 images; see
``focus_alpha.toml``), a random tenth to forget, six seeds. ``fit`` runs FOCUS at α = 0.05 on the
model of seed 0 and fits a·ĝ_U + b·ĝ_C to each of its steps by least squares over the parameters:
the α of the steps is the median of a/(a + b). It looks at no score. ``run`` trains the models that
the store lacks and writes ``results/focus-alpha/results.jsonl``. ``claims`` measures on the same
models what two claims of the paper need: the gradient of the initial models, and MSG with several
shares of the weights.

Fixed before any of these runs, and not changed since:

- one rate for each method: 8e-4, at which FOCUS loses more than two points of TA within ten epochs
  with NGPlus and SCRUB (seed 0 of ``paper-mini``), and 1.6e-3 for SRL, where it loses one at 8e-4;
- every variant has α = 0.05, except ``linear``, which has the α of the steps of FOCUS, and
  "objective alone", which has twice that, as f halves it; primal-dual starts at 0.05, and lets C
  rise by 0.1, at a dual rate of 10;
- every evaluated epoch is a place to stop. Compared is |rUA| at TA budgets of 0, 0.25, … 2 points
  (``compare_frontiers``), variant minus ``linear``, the mean over the budgets, paired by seed. A
  variant wins if the 95 % interval over the seeds lies below zero on two methods.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import expunge
from expunge import dispatch
from expunge.bench._image_stages import Images
from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import (
    HYPERPARAMETERS,
    BenchResult,
    BenchRun,
    load_results,
    save_results,
)
from expunge.bench._stages import plan
from expunge.data import Division, Examples
from expunge.evaluation import EpochScores, Scorer, predict
from expunge.store import Store
from expunge.update import PrimalDual, WeightedSum
from expunge.update._addons import RELATIVE_EPS

HERE = Path(__file__).resolve().parent
PROTOCOL = HERE / "focus_alpha.toml"
RESULTS = HERE.parent / "results" / "focus-alpha" / "results.jsonl"
RHO, EPS, LARGER_EPS = 0.9, 1e-8, 6.4e-7
RATES = {"neg-grad-plus": 8e-4, "random-label": 1.6e-3, "scrub": 8e-4}
ALPHA = 0.05
ALPHAS = {"neg-grad-plus": 0.199, "random-label": 0.085, "scrub": 0.314}
"""What ``fit`` printed, at the rate of 8e-4."""
EVALUATED = (1, 2, 4, 7, 10)
SHARES = (0.1, 0.2, 0.3)
"""Of the weights that MSG replaces; its authors propose the last."""


class FocusStep:
    """FOCUS with the published moments, as (18) and (24) have it: [2, n] to [n]."""

    def __init__(self, alpha: float, eps: float | str = EPS) -> None:
        self.alpha, self.beta, self.eps = alpha, 1.0 - alpha, eps
        self._moments: dict[str, Tensor] = {}

    def __call__(self, gradients: Tensor) -> Tensor:
        g_u, g_c = gradients
        return self.step(g_u, g_c)

    def step(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        """-Δ of one step."""
        return self.focus(g_u, g_c) * self.linear(g_u, g_c)

    def linear(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        """The step without an add-on."""
        return self.alpha * g_u + self.beta * g_c

    def focus(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        """f, after the moments have seen both gradients."""
        phi_u, phi_c = self._phi("u", g_u), self._phi("c", g_c)
        return phi_u * phi_c + (1 - phi_u) * (1 - phi_c)

    def _phi(self, side: str, g: Tensor) -> Tensor:
        square = g * g
        last = self._moments.get(side)
        v = (1 - RHO) * square if last is None else RHO * square + (1 - RHO) * last
        self._moments[side] = v
        eps = RELATIVE_EPS * square.mean() if isinstance(self.eps, str) else self.eps
        return torch.special.ndtr(g / (v + eps).sqrt())


class SameLength(FocusStep):
    """The step of FOCUS, as long as the one without it."""

    def step(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        focused, plain = super().step(g_u, g_c), self.linear(g_u, g_c)
        return focused * (plain.norm() / focused.norm().clamp_min(1e-30))


class AveragedConstraint(FocusStep):
    """f from a moving average of ĝ_C over the steps, which has less noise; the step is of ĝ_C."""

    decay = 0.9

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self._sum: Tensor | None = None
        self._weight = 0.0

    def focus(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        last = torch.zeros_like(g_c) if self._sum is None else self._sum
        self._sum = self.decay * last + (1 - self.decay) * g_c
        self._weight = self.decay * self._weight + 1 - self.decay
        return super().focus(g_u, self._sum / self._weight)


class ObjectiveAlone(FocusStep):
    """f weighs ĝ_U alone: α·f·ĝ_U + β·ĝ_C."""

    def step(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        return self.alpha * self.focus(g_u, g_c) * g_u + self.beta * g_c


class Fitted(FocusStep):
    """FOCUS; for each step the α of the linear step nearest to it, and how f is distributed."""

    def __init__(self, alpha: float, eps: float | str) -> None:
        super().__init__(alpha, eps)
        self.alphas: list[float] = []
        self.shares: list[list[float]] = []

    def step(self, g_u: Tensor, g_c: Tensor) -> Tensor:
        f = self.focus(g_u, g_c)
        focused = f * self.linear(g_u, g_c)
        self.alphas.append(effective_alpha(focused, g_u, g_c))
        below, above = float((f < 0.4).double().mean()), float((f > 0.6).double().mean())
        self.shares.append([100 * below, 100 * (1 - below - above), 100 * above])
        return focused


def effective_alpha(step: Tensor, g_u: Tensor, g_c: Tensor) -> float:
    """a/(a + b) of the a·ĝ_U + b·ĝ_C nearest to a step."""
    sides = torch.stack([g_u, g_c]).double()
    a, b = torch.linalg.solve(sides @ sides.T, sides @ step.double()).tolist()
    return a / (a + b)


class Variant(NamedTuple):
    """An add-on of the library or a step of this file, and what it aggregates with."""

    addon: str
    aggregate: Callable[[str], Any]
    alpha: Callable[[str], float | None] = lambda method: ALPHA


def _own(step: type[FocusStep], alpha: Callable[[str], float] = lambda method: ALPHA) -> Variant:
    return Variant("none", lambda method: step(alpha(method)), alpha)


VARIANTS = {
    "linear": Variant("none", lambda method: _weighted(ALPHAS[method]), ALPHAS.__getitem__),
    "FOCUS": Variant("focus(moments=published)", lambda method: _weighted(ALPHA)),
    "same length": _own(SameLength),
    "averaged constraint": _own(AveragedConstraint),
    "objective alone": _own(ObjectiveAlone, lambda method: 2 * ALPHAS[method]),
    "primal-dual FOCUS": Variant(
        "focus(moments=published)",
        lambda method: PrimalDual(slack=0.1, rate=10.0, settle=4),
        lambda method: None,
    ),
}
ADDED = {
    "linear, α = 0.05": Variant("none", lambda method: _weighted(ALPHA)),
    "FOCUS, larger ε": Variant(
        f"focus(eps={LARGER_EPS:g}, moments=published)", lambda method: _weighted(ALPHA)
    ),
}
"""Added after two seeds of the others had been seen: the paper's own α without an add-on, and ε
scaled as the square of the width, 64 times 1e-8."""
LIBRARY_ALONE = {"scrub": ("linear", "FOCUS")}
"""The variants of methods that do not have all of them."""


def _weighted(alpha: float) -> WeightedSum:
    return WeightedSum(alpha, 1.0 - alpha)


def models_of(run: BenchRun, store: Store) -> tuple[Division, list[nn.Module]]:
    """What a planned run divides, and its initial and ideal model."""
    assert run.stage is not None
    images, entries = Images(), [store.open(stage) for stage in run.reference.parents]
    splits = images.load(entries[0].config["data"], run.stage.options)
    division = images.divide(splits, run.reference.config)
    return division, [images.restore(entry, splits) for entry in entries]


def unlearned(
    model: nn.Module,
    division: Division,
    run: BenchRun,
    aggregate: Any,
    addon: str = "none",
    callbacks: Sequence[expunge.Callback] = (),
) -> list[dict[str, Any]]:
    """The epochs of a run at the method, rate and seed of ``run``."""
    result = expunge.unlearn(
        model,
        forget=division.forget,
        retain=division.retain,
        method=run.method,
        addon=addon,
        aggregate=aggregate,
        epochs=run.total_epochs,
        batch_size=run.batch_size,
        lr=run.lr,
        execution=expunge.Execution(seed=run.seed, progress=False, callbacks=callbacks),
    )
    return [dict(row) for row in result.history.epochs]


def fit(planned: Sequence[BenchRun], store: Store) -> None:
    """Print the α of the steps of FOCUS with quartiles over the steps, and mean shares of f."""
    division, (model, _) = models_of(planned[0], store)
    for method, eps in itertools.product(RATES, (EPS, LARGER_EPS, "relative")):
        fitted = Fitted(ALPHA, eps)
        unlearned(model, division, replace(planned[0], method=method), fitted)
        low, median, high = statistics.quantiles(fitted.alphas, n=4)
        shares = " / ".join(
            f"{statistics.mean(each):.0f}" for each in zip(*fitted.shares, strict=True)
        )
        print(f"{method}, ε = {eps}: α = {median:.3f} ({low:.3f} to {high:.3f}); {shares} %")


def run_all(planned: Sequence[BenchRun], store: Store) -> None:
    """All variants of a seed, then those of the next; what is in the results is left alone."""
    results = load_results(RESULTS) if RESULTS.exists() else []
    for seeded in planned:
        done = {result.key for result in results}
        wanted = [(key, *rest) for key, *rest in _variants_of(seeded) if key not in done]
        if not wanted:
            continue
        dispatch.run([seeded.reference], store, workers=1)
        division, (model, ideal) = models_of(seeded, store)
        scorer = Scorer(division, predict(ideal, division.forget))
        start = {"epoch": 0} | scorer.score_by_name(model, per_class=True)
        for key, run, variant in wanted:
            scores = EpochScores(scorer, EVALUATED, per_class=True, full="last")
            aggregate = variant.aggregate(run.method)
            rows = unlearned(model, division, run, aggregate, variant.addon, [scores])
            results.append(BenchResult(**run.settings, key=key, epochs=[start, *rows]))
            save_results(RESULTS, results)
            print(key, {k: round(rows[-1][k], 2) for k in ("rua", "ta")}, flush=True)


def _variants_of(seeded: BenchRun) -> Iterator[tuple[str, BenchRun, Variant]]:
    """Every variant of a seed with its key and its run."""
    for method, lr in RATES.items():
        for name in (*LIBRARY_ALONE.get(method, tuple(VARIANTS)), *ADDED):
            variant = (VARIANTS | ADDED)[name]
            alpha = variant.alpha(method)
            run = replace(seeded, method=method, addon=name, lr=lr, baseline=False, stage=None)
            run = replace(run, alpha=alpha, beta=None if alpha is None else 1.0 - alpha)
            yield f"{name}, {method}, seed {run.seed}", run, variant


def run_claims(planned: Sequence[BenchRun], store: Store) -> None:
    """The peaks of both gradients at the initial models, and MSG by its share."""
    results = []
    for seeded in planned:
        division, (model, ideal) = models_of(seeded, store)
        scorer = Scorer(division, predict(ideal, division.forget))
        start = {"epoch": 0} | scorer.score_by_name(model)
        start["retain_peak"] = gradient_peak(model, division.retain)
        start["unseen_peak"] = gradient_peak(model, division.splits.test)
        first = replace(seeded, method="", model="initial", baseline=False, stage=None)
        first = replace(first, **dict.fromkeys(HYPERPARAMETERS))
        key = f"initial, seed {seeded.seed}"
        results.append(BenchResult(**first.settings, key=key, epochs=[start]))
        for share in SHARES:
            name = "mask-small-gradients" + (f"(share={share:g})" if share != 0.3 else "")
            run = replace(seeded, method=name, stage=None)
            scores = EpochScores(scorer, EVALUATED[-1:])
            rows = unlearned(model, division, run, "linear", callbacks=[scores])
            key = f"{name}, seed {run.seed}"
            results.append(
                BenchResult(**run.settings, baseline=True, key=key, epochs=[start, *rows])
            )
        save_results(RESULTS.with_name("claims.jsonl"), results)


def gradient_peak(model: nn.Module, data: Examples) -> float:
    """The largest |entry| of the gradient of the mean loss over all of ``data``, in eval mode."""
    model.eval().zero_grad()
    for images, labels in DataLoader(data, 500):
        (cross_entropy(model(images), labels, reduction="sum") / len(data)).backward()
    return max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)


def main() -> None:
    """Fit or run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=("fit", "run", "claims"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    planned = plan(load_protocol(PROTOCOL), root=options.data)
    {"fit": fit, "run": run_all, "claims": run_claims}[options.task](planned, Store(options.store))


if __name__ == "__main__":
    main()
