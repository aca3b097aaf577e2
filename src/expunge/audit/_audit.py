"""An audit: predictions of up to three models, every affordable attack, and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments, check_fields
from expunge.data import Examples, row_hashes
from expunge.evaluation import (
    ATTACKS,
    AttackReport,
    Estimate,
    Predictions,
    Scores,
    ShadowPlan,
    ULiRA,
    Views,
    check_same_labels,
    join,
    js_divergence,
    js_divergence_by_example,
    match_class_mix,
    predict,
    run_attack,
    run_shadows,
    scaled_confidence,
    score,
    ulira,
    view,
    wilson_interval,
)
from expunge.store import Store


@dataclass(frozen=True)
class AuditInput:
    """What is audited: the unlearned model, its data, and the models to compare it with."""

    unlearned: nn.Module
    forget: Examples
    retain: Examples
    test: Examples
    val: Examples | None = None
    initial: nn.Module | None = None
    ideal: nn.Module | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Nearness:
    """Whether the outputs on the forget set are nearer to the ideal or to the initial model's."""

    to_ideal: float
    """The mean Jensen-Shannon divergence from the ideal model, in bits."""
    to_initial: float
    nearer: Estimate
    """Percent of the examples, of those that differ, whose outputs are nearer to the ideal's."""
    examples: int

    @property
    def verdict(self) -> str:
        """The model that most examples are nearer to, if the interval leaves no doubt."""
        if self.nearer.low > 50.0:
            return "the retrained model"
        return "the original model" if self.nearer.high < 50.0 else "neither model"

    @property
    def reason(self) -> str:
        """The comparison in a sentence."""
        return (
            f"On the forget set, the outputs are nearer to those of {self.verdict}: the retrained "
            f"model is nearer on {self.nearer.value:.0f} % of {self.examples} examples (95 % "
            f"interval {self.nearer.low:.0f} to {self.nearer.high:.0f} %). The mean JSD from it is "
            f"{self.to_ideal:.3f} bits, and {self.to_initial:.3f} bits from the original model."
        )


def nearness(unlearned: Predictions, initial: Predictions, ideal: Predictions) -> Nearness:
    """Compare predictions on the forget set with those of both models, example by example."""
    far, near = (js_divergence_by_example(unlearned, other) for other in (initial, ideal))
    hits, count = int((near < far).sum()), int((near != far).sum())
    share = wilson_interval(hits, count) if count else Estimate(50.0, 0.0, 100.0)
    to_ideal, to_initial = (js_divergence(unlearned, other) for other in (ideal, initial))
    return Nearness(to_ideal, to_initial, share, count)


@dataclass(frozen=True, eq=False)
class Audit:
    """The results of an audit; empty where the models or data for them were not given."""

    scores: dict[str, Scores]
    """By model: ``initial``, ``unlearned``, ``ideal``, those that were given."""
    attacks: tuple[AttackReport, ...]
    ulira: ULiRA | None
    views: dict[str, Views] = field(repr=False)
    notes: tuple[str, ...] = ()
    nearness: Nearness | None = None

    @property
    def verdict(self) -> str:
        """The verdict of the strongest attack that can be believed; over-forgetting counts too."""
        if self.ulira is not None and self.ulira.verdict != "inconclusive":
            return f"U-LiRA: {self.ulira.verdict}. {self.ulira.reason}"
        for verdict in ("over-forgotten", "detected"):
            found = [a for a in self.attacks if a.verdict == verdict]
            if found:
                worst = max(found, key=lambda a: abs(a.auc.value - 0.5))
                return f"{worst.name}: {verdict}. {worst.reason}"
        return (
            "No population attack detects the forget set. Such attacks are weak: only U-LiRA, "
            "which did not decide here, judges each example by itself."
        )


def run_audit(
    inputs: AuditInput,
    *,
    plan: ShadowPlan | None = None,
    store: Store | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
    report: Any = None,
) -> Audit:
    """Audit ``inputs``: metrics, population attacks, RMIA if there is an ideal model, U-LiRA.

    ``plan`` describes U-LiRA's shadow models, which are kept in ``store``; without it there are
    none. Attacks compare the forget set with the unseen data of its classes.
    """
    check_arguments(run_audit, locals())
    if plan is not None and store is None:
        raise InvalidInput("Shadow models are kept in a store: give one.")
    notes = _note_copies(inputs)

    # One pass of every model over every split.
    given = {"initial": inputs.initial, "unlearned": inputs.unlearned, "ideal": inputs.ideal}
    models = {name: model for name, model in given.items() if model is not None}
    splits = {name: getattr(inputs, name) for name in ("forget", "retain", "test", "val")}
    views: dict[str, Views] = {}
    for name, model in models.items():
        progress(f"predictions of the {name} model")
        views[name] = view(model, **splits)
    for part in views.values():
        check_same_labels(part.forget, views["unlearned"].forget)

    # Metrics.
    scores: dict[str, Scores] = {}
    for name, part in views.items():
        progress(f"metrics of the {name} model")
        scores[name] = score(part, views.get("ideal"), attacks=True, seed=seed)

    # Attacks without shadow models; the ideal model is a reference.
    peers = [views["ideal"].of_forget_classes()] if "ideal" in views else []
    target = views["unlearned"].of_forget_classes()
    attacks = []
    for name, attack in ATTACKS.items():
        if peers or not getattr(attack, "needs_references", False):
            progress(f"attack {name}")
            attacks.append(run_attack(name, target, peers, seed=seed))

    # U-LiRA.
    found = None
    if plan is not None and store is not None:
        targets = join(inputs.forget, match_classes(inputs.test, inputs.forget, seed))
        shadows = run_shadows(
            plan,
            retain=inputs.retain,
            targets=targets,
            store=store,
            workers=workers,
            report=report,
        )
        confidences = {k: scaled_confidence(*predict(m, targets)) for k, m in models.items()}
        found = ulira(shadows, forgotten=len(inputs.forget), seed=seed, **confidences)
        notes += shadows.notes
    compared = None
    if len(models) == len(given):
        compared = nearness(*(part.forget for part in (target, views["initial"], views["ideal"])))
    return Audit(scores, tuple(attacks), found, views, notes, compared)


def _note_copies(inputs: AuditInput) -> tuple[str, ...]:
    """A note on test examples that are training examples too; an error if half of them are."""
    known = {*row_hashes(inputs.forget), *row_hashes(inputs.retain)}
    copies = sum(row in known for row in row_hashes(inputs.test))
    note = f"{copies} of {len(inputs.test)} test examples are training examples"
    if 2 * copies >= len(inputs.test) > 0:
        raise InvalidInput(f"{note}: scores on them would not be of unseen data. Take them out.")
    return (f"{note}: scores on them are not of unseen data.",) if copies else ()


def match_classes(pool: Examples, like: Examples, seed: int) -> Examples:
    """As many examples of ``pool`` as ``like`` has of each class, or all there are."""
    chosen = match_class_mix(pool.labels, like.labels, seed)
    if not chosen:
        raise InvalidInput("The test set has no example of the forget set's classes.")
    return pool.subset(chosen)
