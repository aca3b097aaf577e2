"""Compute again what the evidence of a request states, from its weights and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from expunge._errors import DataError
from expunge.evaluation import Estimate
from expunge.request._ledger import WEIGHTS, LedgerEntry
from expunge.request._predictions import predict_once
from expunge.request._seal import ATTEMPT
from expunge.request._stated_numbers import (
    Finding,
    check_accuracies,
    check_attacks,
    check_earlier,
    check_floors,
    check_held_out,
    check_metrics,
    check_power,
)
from expunge.request.calibrate._comparison import compare, compare_with_test
from expunge.request.calibrate._run import kept_indices, look_at_val
from expunge.request.calibrate._target import ClassCounts, Target, estimate_target
from expunge.request.evidence._audit import (
    Audit,
    audit_earlier_requests,
    audit_models,
    held_out_comparison,
    power_check,
    target_interval,
)
from expunge.request.evidence._measurements import (
    SplitPredictions,
    measure_attacks,
    measure_metrics,
)
from expunge.request.evidence._sections import EarlierRequest, Status, Stop
from expunge.request.evidence._verdict import decide_status
from expunge.request.subject._comparable import with_comparable_answers
from expunge.request.subject._load import Subject

THREE_STATUSES = 2
"""The ``schema_version`` from which on a verdict follows the present rules."""


@dataclass(frozen=True)
class Recomputation:
    """What came out again or did not, and what could not be computed, in sentences."""

    findings: tuple[Finding, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Rules:
    """The settings that the audit of a request depends on, as its evidence states them."""

    floor: float
    level: float
    seed: int

    @classmethod
    def of(cls, entry: LedgerEntry) -> _Rules:
        """The rules in the configuration of a request; whoever wrote that, they should be some."""
        config = entry.evidence.config
        try:
            floor, level = float(config.get("floor", 2.0)), float(config.get("level", 0.95))
            seed = int(config.get("seed", 0))
            if 0.0 <= floor <= 100.0 and 0.0 < level < 1.0 and 0 <= seed < 2**63:
                return cls(floor, level, seed)
            problem = f"floor {floor}, level {level}, seed {seed}"
        except (TypeError, ValueError, OverflowError) as error:
            problem = str(error)
        raise DataError(f"The configuration of request {entry.number} is damaged: {problem}.")


def recompute(
    entry: LedgerEntry, earlier: Sequence[LedgerEntry], subject: Subject
) -> Recomputation:
    """Accuracies, attacks, intervals, floors, power and verdict, from the weights in the bundles.

    ``earlier`` are the requests before. Where the weights from before the request are gone, what
    needs them (the numbers before, the target, the floors, the power, the verdict) is left out.
    """
    request = _Request(entry, earlier, subject)
    model = request.model_in(entry, WEIGHTS)
    if model is None:
        return Recomputation((), (f"any number: {WEIGHTS} of this request is gone",))
    after = request.predict(model)
    found = request.audit_earlier(model)
    findings = [check_earlier(entry.evidence.earlier, found)] if earlier else []

    # Without the model from before, what the new one does by itself.
    model_before = request.model_before()
    if model_before is None:
        findings += request.compare_after(after)
        left_out = "numbers from before, target, floors, power and verdict"
        return Recomputation(tuple(findings), (f"{left_out}: the weights from before are gone",))

    # With it, everything; where the run was discarded, its model is beside the one as it was.
    before = request.predict(model_before)
    audit, status = request.audit(before, after, found)
    findings += request.compare_audit(audit)
    if not entry.evidence.unlearned:
        findings.append(_unchanged(model_before, model))
        attempt = request.model_in(entry, ATTEMPT)
        if attempt is None:
            return Recomputation(tuple(findings))
        found = request.audit_earlier(attempt)
        audit, status = request.audit(before, request.predict(attempt), found)
        findings += request.compare_attempt(audit)
    if entry.evidence.schema_version < THREE_STATUSES:
        return Recomputation(tuple(findings), ("the verdict: an earlier version had other rules",))
    return Recomputation((*findings, request.compare_verdict(status, audit)))


class _Request:
    """One request: the records and rules that its evidence states, and the data."""

    def __init__(
        self, entry: LedgerEntry, earlier: Sequence[LedgerEntry], subject: Subject
    ) -> None:
        self.entry, self.earlier, self.chosen = entry, earlier, list(entry.indices)
        self.evidence = entry.evidence
        self.rules = _Rules.of(entry)
        before = set().union(*(request.indices for request in earlier))
        subject = subject.without_unseen(entry.unseen)
        self.subject = with_comparable_answers(subject, self.chosen, before)
        train, gone = self.subject.train, {*self.chosen, *before}
        self.forget = train.subset(self.chosen)
        self.retain = train.subset([i for i in range(len(train)) if i not in gone])

    def model_in(self, entry: LedgerEntry, name: str) -> nn.Module | None:
        path = entry.folder / name
        return self.subject.with_weights(path).model if path.is_file() else None

    def model_before(self) -> nn.Module | None:
        """The model that the request started with: of the one before, or as it was given."""
        if self.earlier:
            return self.model_in(self.earlier[-1], WEIGHTS)
        given = self.subject.weights_digest == self.evidence.hashes.weights_before
        return self.subject.model if given else None

    def predict(self, model: nn.Module) -> SplitPredictions:
        return SplitPredictions(
            forget=predict_once(model, self.forget),
            val=predict_once(model, self.subject.val),
            retain=predict_once(model, self.retain),
            test=predict_once(model, self.subject.test),
        )

    def audit_earlier(self, model: nn.Module) -> list[EarlierRequest]:
        return audit_earlier_requests(self.earlier, model, self.subject, self.chosen, self.rules)

    def target(self, before: SplitPredictions) -> Target:
        labels = before.forget.labels, before.retain.labels
        return estimate_target(before.val, *labels, level=self.rules.level)

    def audit(
        self, before: SplitPredictions, after: SplitPredictions, earlier: Sequence[EarlierRequest]
    ) -> tuple[Audit, Status]:
        target = self.target(before)
        stopped = self._judge_on_val(before, after, target)
        audit = audit_models(
            before,
            after,
            target,
            classes=self.subject.classes,
            stopped=stopped,
            earlier=earlier,
            rules=self.rules,
        )
        return audit, decide_status(stopped, audit.objections, audit.power)

    def _judge_on_val(
        self, before: SplitPredictions, after: SplitPredictions, target: Target
    ) -> Stop:
        """Whether the model satisfied val, as the run judges its epochs."""
        floor, level, seed = self.rules.floor, self.rules.level, self.rules.seed
        initial = compare(before.forget, before.val, target, level=level, seed=seed)
        counts = ClassCounts.of(before.val, before.forget.labels, before.retain.labels)
        kept = None
        if before.forget.of_texts:
            chosen = kept_indices(len(before.retain.labels))
            kept = before.retain.take(chosen), after.retain.take(chosen)
        look = look_at_val(
            after.forget, after.val, before.val, target, initial, counts, floor, level, seed, kept
        )
        arrived = look.comparison.indistinguishable and not look.broken
        status: Status = "achieved" if arrived else "not achieved"
        return Stop(epoch=self.evidence.stopped.epoch, reason="", status=status)

    def compare_audit(self, audit: Audit) -> list[Finding]:
        stated = self.evidence
        findings = [
            *check_accuracies(stated.metrics, audit.metrics),
            check_metrics(stated.metrics, audit.metrics, ("before", "after", "target")),
            check_attacks(stated.attacks, audit.attacks, ("before", "after")),
            check_held_out(stated.held_out, held_out_comparison(audit.held_out, len(self.chosen))),
        ]
        if stated.schema_version >= THREE_STATUSES:
            findings.append(check_floors(stated.floors, audit.floors))
            if stated.unlearned:
                power = None if audit.power is None else power_check(audit.power)
                findings.append(check_power(stated.power, power))
        return findings

    def compare_after(self, after: SplitPredictions) -> list[Finding]:
        """What the new model does by itself, measured against the target as stated."""
        stated, rules = self.evidence, self.rules
        target = self.target(after)
        if stated.target is not None:
            values = (stated.target.value, stated.target.low, stated.target.high)
            target = replace(target, accuracy=Estimate(*values))
        held_out = compare_with_test(
            after.forget, after.val, after.test, target, level=rules.level, seed=rules.seed
        )
        metrics = measure_metrics(after, after, target_interval(target), rules.level)
        attacks = measure_attacks(after, after, rules.level, rules.seed)
        return [
            *check_accuracies(stated.metrics, metrics),
            check_metrics(stated.metrics, metrics, ("after",)),
            check_attacks(stated.attacks, attacks, ("after",)),
            check_held_out(stated.held_out, held_out_comparison(held_out, len(self.chosen))),
        ]

    def compare_attempt(self, audit: Audit) -> list[Finding]:
        attempt = self.evidence.attempt
        if attempt is None:
            return [Finding("the attempt", f"{ATTEMPT} is there; the evidence has no attempt.")]
        findings = [
            check_metrics(attempt.metrics, audit.metrics, ("after",)),
            check_attacks(attempt.attacks, audit.attacks, ("after",)),
            *([check_floors(attempt.floors, audit.floors)] if attempt.floors else []),
        ]
        return [replace(each, claim=f"of the discarded run: {each.claim}") for each in findings]

    def compare_verdict(self, found: Status, audit: Audit) -> Finding:
        stated = self.evidence.status
        if found == stated:
            return Finding(f"the verdict comes out as {found}")
        problem = f"The verdict comes out as {found}, not {stated}."
        return Finding("the verdict", " ".join([problem, *audit.objections]))


def _unchanged(before: nn.Module, after: nn.Module) -> Finding:
    """The weights in the bundle of a request that was not achieved are those from before."""
    old, new = before.state_dict(), after.state_dict()
    same = old.keys() == new.keys() and all(torch.equal(old[name], new[name]) for name in old)
    problem = "" if same else f"{WEIGHTS} is not the model as it was before the request."
    return Finding("the model is as it was before the request", problem)
