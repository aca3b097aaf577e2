"""The model card of a bundle: a machine-readable record of the model, as CycloneDX ML-BOM."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any

from expunge import __version__
from expunge.evidence import Check, Evidence, Interval
from expunge.ledger import EVIDENCE, WEIGHTS

SPECIFICATION = "1.6"
NAMES = {
    "ua": ("accuracy", "records of the request"),
    "ta": ("accuracy", "test data"),
    "va": ("accuracy", "validation data"),
    "ra": ("accuracy", "retained training data"),
}
"""The type and the slice of each headline metric."""
AS_IT_WAS = (
    "The model is as it was before the request: the one that was to replace it did not pass all "
    "checks and was discarded. All numbers are those of the model as it is."
)


FORGOTTEN, RECOMPUTED, ANSWERED = "claim-forgotten", "claim-recomputed", "claim-answered"
DERIVED, LIMITED = "claim-derived", "claim-limits"
REQUIREMENTS = (
    (FORGOTTEN, "GDPR", "Art. 17(1)", "Right to erasure"),
    (RECOMPUTED, "GDPR", "Art. 5(2)", "Accountability"),
    (ANSWERED, "GDPR", "Art. 12(3)", "Information on action taken, within one month"),
    (DERIVED, "GDPR", "Art. 19", "Notification of recipients regarding erasure"),
    (
        FORGOTTEN,
        "EDPB Opinion 28/2024",
        "Anonymity of AI models",
        "Insignificant likelihood of extracting personal data, and of obtaining them by queries",
    ),
    (LIMITED, "NIST AI RMF 1.0", "MEASURE 1.1", "Risks that cannot be measured are documented"),
    (FORGOTTEN, "NIST AI RMF 1.0", "MEASURE 2.10", "Privacy risk is examined and documented"),
)
"""What regulators ask, and the claim that bears on it: see docs/explanation/requirements.md."""
NOT_ADVICE = (
    "Which claims of the evidence bear on which requirements. Whether a requirement applies, and "
    "whether it is met, is not stated here; this is not legal advice."
)


def model_card(evidence: Evidence, fingerprint: str) -> dict[str, Any]:
    """The bill of materials of the weights in a bundle, with its ``modelCard``.

    It follows CycloneDX 1.6. ``fingerprint`` is the SHA-256 of ``evidence.json``, where the numbers
    come from; equal evidence gives equal cards.
    """
    request = evidence.request
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"urn:expunge:evidence:{fingerprint}")
    version = evidence.environment.versions.get("expunge", __version__)
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": request.when,
            "tools": {
                "components": [{"type": "application", "name": "expunge", "version": version}]
            },
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": WEIGHTS,
                "name": str(evidence.config.get("model") or "model"),
                "version": f"after request {request.number}",
                "description": evidence.verdict.headline,
                "hashes": _hashes(evidence),
                "modelCard": _model_card(evidence),
                "properties": _properties(evidence, fingerprint),
            }
        ],
        **_declarations(evidence, fingerprint),
    }


def _declarations(evidence: Evidence, fingerprint: str) -> dict[str, Any]:
    """Requirements, and the claims for and against each that the evidence makes."""
    request, derived = evidence.request, evidence.derived
    stated = {
        FORGOTTEN: evidence.verdict.headline,
        RECOMPUTED: "Numbers and verdict can be computed again from weights and data: "
        "`expunge verify`.",
        LIMITED: " ".join(evidence.limits),
    }
    against = set() if evidence.unlearned else {FORGOTTEN}
    if request.due:
        stated[ANSWERED] = (
            f"Received on {request.received}, carried out on {request.when[:10]}, and to be "
            f"answered by {request.due}."
        )
        against |= {ANSWERED} if (request.days_left or 0) < 0 else set()
    if derived:
        models = "; ".join(f"{each.name} ({each.kind}): {each.status}" for each in derived)
        stated[DERIVED] = f"Models made from this one: {models}."
        against |= {DERIVED} if any(each.status == "open" for each in derived) else set()
    asked = [each for each in REQUIREMENTS if each[0] in stated]
    standards = dict.fromkeys(standard for _, standard, _, _ in asked)
    return {
        "declarations": {
            "assessors": [{"bom-ref": "assessor", "thirdParty": False}],
            "attestations": [
                {
                    "summary": NOT_ADVICE,
                    "assessor": "assessor",
                    "map": [
                        {
                            "requirement": f"{standard}, {identifier}",
                            "counterClaims" if claim in against else "claims": [claim],
                        }
                        for claim, standard, identifier, _ in asked
                    ],
                }
            ],
            "claims": [
                {"bom-ref": ref, "target": WEIGHTS, "predicate": text, "evidence": [EVIDENCE]}
                for ref, text in stated.items()
            ],
            "evidence": [
                {
                    "bom-ref": EVIDENCE,
                    "description": f"{EVIDENCE}, SHA-256 {fingerprint}",
                    "created": request.when,
                }
            ],
        },
        "definitions": {
            "standards": [
                {
                    "bom-ref": name,
                    "name": name,
                    "requirements": [
                        {
                            "bom-ref": f"{name}, {identifier}",
                            "identifier": identifier,
                            "title": title,
                        }
                        for _, standard, identifier, title in asked
                        if standard == name
                    ],
                }
                for name in standards
            ]
        },
    }


def _model_card(evidence: Evidence) -> dict[str, Any]:
    verdict = evidence.verdict
    done = "Retraining" if evidence.config.get("exact") else "Approximate unlearning"
    return {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "text-generation" if evidence.texts else "classification",
            "datasets": [
                {
                    "type": "dataset",
                    "name": "data of the request",
                    "description": f"Train, val and test; SHA-256 {evidence.hashes.data}",
                }
            ],
        },
        "quantitativeAnalysis": {"performanceMetrics": list(_performance(evidence))},
        "considerations": {
            "technicalLimitations": list(evidence.limits),
            "performanceTradeoffs": [AS_IT_WAS] if evidence.discarded else list(verdict.shown),
            "ethicalConsiderations": [
                {
                    "name": f"Deletion of {evidence.request.records} training records was "
                    "requested.",
                    "mitigationStrategy": f"{done}; verdict: {evidence.status}.",
                }
            ],
        },
    }


def _performance(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """The numbers of the delivered model: if the unlearned one was discarded, those from before."""
    for metric in evidence.metrics:
        kind, split = NAMES.get(metric.name, (metric.label, ""))
        if evidence.discarded:
            yield _metric(kind, split, metric.before)
            continue
        yield _metric(kind, f"{split}, before", metric.before)
        yield _metric(kind, f"{split}, after", metric.after)
        if metric.after_benign_steps is not None:
            yield _metric(kind, f"{split}, after benign steps", metric.after_benign_steps)
        if metric.target is not None:
            yield _metric(kind, f"{split}: unseen data alike", metric.target)
    for check in () if evidence.discarded else evidence.checks:
        kind = f"AUC of the attack that {check.label}" if check.is_attack else check.label
        of = "test data" if check.name.startswith("lost") else "records of the request"
        yield _metric(kind, f"{of}, {check.moment}", check)


def _metric(kind: str, split: str, interval: Interval | Check) -> dict[str, Any]:
    """A performance metric; numbers are text in CycloneDX."""
    row: dict[str, Any] = {"type": kind, "value": _text(interval.value), "slice": split}
    if math.isfinite(interval.low) and math.isfinite(interval.high):
        row["confidenceInterval"] = {
            "lowerBound": _text(interval.low),
            "upperBound": _text(interval.high),
        }
    return row


def _text(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "undefined"


def _properties(evidence: Evidence, fingerprint: str) -> list[dict[str, str]]:
    values = {
        "evidence.sha256": fingerprint,
        "verdict": evidence.status,
        "request": str(evidence.request.number),
        "records": str(evidence.request.records),
        "weights_before.sha256": evidence.hashes.weights_before,
        "signed_by": evidence.signed_by or "unsigned",
    }
    return [{"name": f"expunge:{name}", "value": value} for name, value in values.items()]


def _hashes(evidence: Evidence) -> list[dict[str, str]]:
    digest = evidence.files.get(WEIGHTS)
    return [] if digest is None else [{"alg": "SHA-256", "content": digest}]
