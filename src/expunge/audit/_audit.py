"""An audit: predictions of up to three models, every affordable attack, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments, check_fields
from expunge.data import Examples
from expunge.evaluation import (
    ATTACKS,
    AttackReport,
    Exposure,
    Finding,
    Scores,
    ShadowPlan,
    ULiRA,
    Variant,
    Views,
    check_overlap,
    check_same_labels,
    expose,
    join,
    match_class_mix,
    over_forgetting,
    predict,
    run_attack,
    run_references,
    run_shadows,
    scaled_confidence,
    score,
    ulira,
    view,
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


@dataclass(frozen=True, eq=False)
class Audit:
    """The results of an audit; None or empty where the models or data for them were not given."""

    scores: dict[str, Scores]
    """By model: ``initial``, ``unlearned``, ``ideal``, those that were given."""
    attacks: tuple[AttackReport, ...]
    ulira: tuple[ULiRA, ...]
    findings: tuple[Finding, ...]
    exposure: Exposure | None
    views: dict[str, Views] = field(repr=False)
    overlap: str = ""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the strongest attack that can be believed; over-forgetting counts too."""
        for attack in self.ulira:
            if attack.verdict != "inconclusive":
                return f"{attack.report.name}: {attack.verdict}. {attack.reason}"
        if self.findings and all(f.kind != "entropy too low" for f in self.findings):
            return f"over-forgotten: {self.findings[0].words}"
        detected = [a for a in self.attacks if a.verdict == "detected"]
        if detected:
            worst = max(detected, key=lambda a: a.auc.value)
            return f"{worst.name}: detected. {worst.reason}"
        return (
            "No population attack detects the forget set. Such attacks are weak: only U-LiRA, "
            "which did not decide here, judges each example by itself."
        )


def run_audit(
    subject: AuditInput,
    *,
    plan: ShadowPlan | None = None,
    reference_plan: ShadowPlan | None = None,
    references: int = 0,
    store: Store | None = None,
    workers: int | None = None,
    variants: Sequence[Variant] = ("online", "offline"),
    exact: bool = False,
    allow_overlap: bool = False,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
    report: Any = None,
) -> Audit:
    """Audit ``subject``: metrics, population attacks, RMIA if there is a reference, U-LiRA by plan.

    ``plan`` describes U-LiRA's shadow models, ``reference_plan`` the models of which ``references``
    are trained for RMIA; both are kept in ``store``. Attacks compare the forget set with the unseen
    data of its classes.
    """
    check_arguments(run_audit, locals())
    if references and (reference_plan is None or store is None):
        raise InvalidInput("`references` are trained by a `reference_plan`, into a `store`.")
    overlap = check_overlap(
        {"forget": subject.forget, "retain": subject.retain},
        subject.test,
        allow_overlap=allow_overlap,
    )
    models = {"initial": subject.initial, "unlearned": subject.unlearned, "ideal": subject.ideal}
    given = {name: model for name, model in models.items() if model is not None}
    test, val = (
        _indices_of_same_classes(subject.test, subject.forget),
        _indices_of_same_classes(subject.val, subject.forget),
    )
    views: dict[str, Views] = {}
    scores: dict[str, Scores] = {}
    fair: dict[str, Views] = {}
    for name, model in given.items():
        progress(f"predictions of the {name} model")
        views[name] = view(
            model,
            forget=subject.forget,
            retain=subject.retain,
            test=subject.test,
            val=subject.val,
        )
        fair[name] = _restrict(views[name], test, val)
    for part in views.values():
        check_same_labels(part.forget, views["unlearned"].forget)
    for name in given:
        progress(f"metrics of the {name} model")
        scores[name] = score(views[name], views.get("ideal"), attacks=True, exact=exact, seed=seed)
    peers = _references(subject, reference_plan, references, store, workers, report, test, val)
    if subject.ideal is not None:
        peers = [fair["ideal"], *peers]
    attacks = []
    for name, attack in ATTACKS.items():
        if peers or not getattr(attack, "needs_references", False):
            progress(f"attack {name}")
            attacks.append(run_attack(name, fair["unlearned"], peers, seed=seed))
    lira, notes = _ulira(subject, plan, store, workers, variants, seed, report)
    ideal = views["ideal"].forget if "ideal" in views else None
    findings = over_forgetting(fair["unlearned"], ideal=ideal, reports=attacks, seed=seed)
    exposure = None
    if "initial" in views and len(subject.test) >= 100:
        progress("exposure of each example")
        exposure = expose(
            views["initial"],
            views["unlearned"],
            forget=subject.forget,
            retain=subject.retain,
            seed=seed,
        )
    return Audit(
        scores,
        tuple(attacks),
        tuple(lira),
        tuple(findings),
        exposure,
        views,
        str(overlap) if overlap else "",
        tuple(notes),
    )


def _ulira(
    subject: AuditInput,
    plan: ShadowPlan | None,
    store: Store | None,
    workers: int | None,
    variants: Sequence[Variant],
    seed: int,
    report: Any,
) -> tuple[list[ULiRA], tuple[str, ...]]:
    if plan is None:
        return [], ()
    if store is None:
        raise InvalidInput("Shadow models are kept in a store: give one.")
    others = match_classes(subject.test, subject.forget, seed)
    targets = join(subject.forget, others)
    shadows = run_shadows(
        plan, retain=subject.retain, targets=targets, store=store, workers=workers, report=report
    )

    def confidence(model: nn.Module | None) -> Any:
        if model is None:
            return None
        predictions = predict(model, targets)
        return scaled_confidence(predictions.logits, predictions.labels)

    attacks = [
        ulira(
            shadows,
            forgotten=len(subject.forget),
            unlearned=confidence(subject.unlearned),
            initial=confidence(subject.initial),
            ideal=confidence(subject.ideal),
            variant=variant,
            seed=seed,
        )
        for variant in variants
    ]
    return attacks, shadows.notes


def match_classes(pool: Examples, like: Examples, seed: int) -> Examples:
    """As many examples of ``pool`` as ``like`` has of each class, or all there are."""
    chosen = match_class_mix(pool.labels, like.labels, seed)
    if not chosen:
        raise InvalidInput("The test set has no example of the forget set's classes.")
    return pool.subset(chosen)


def _references(
    subject: AuditInput,
    plan: ShadowPlan | None,
    count: int,
    store: Store | None,
    workers: int | None,
    report: Any,
    test: Tensor,
    val: Tensor | None,
) -> list[Views]:
    if count == 0 or plan is None or store is None:
        return []
    models = run_references(
        plan, count, retain=subject.retain, store=store, workers=workers, report=report
    )
    return [
        _restrict(view(model, forget=subject.forget, test=subject.test, val=subject.val), test, val)
        for model in models
    ]


def _indices_of_same_classes(data: Examples | None, forget: Examples) -> Any:
    """The indices of ``data`` whose class occurs in the forget set."""
    if data is None:
        return None
    return torch.isin(data.labels, torch.unique(forget.labels)).nonzero().squeeze(1)


def _restrict(views: Views, test: Tensor, val: Tensor | None) -> Views:
    """The views with unseen data of the forget set's classes only, for a fair comparison."""
    return Views(
        forget=views.forget,
        retain=views.retain,
        test=views.test.take(test.numpy()),
        val=None if views.val is None or val is None else views.val.take(val.numpy()),
    )
