"""The model card of a bundle: a machine-readable record of the model, as CycloneDX ML-BOM."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any

from expunge import __version__
from expunge.evidence import NOT_ADVICE, REQUIREMENTS, Check, Evidence, Interval, claims_of
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

MAPPED = {"supports": "claims", "contradicts": "counterClaims"}
"""What the map of an attestation calls them; it leaves out claims that are open."""


def model_card(evidence: Evidence, evidence_digest: str) -> dict[str, Any]:
    """The bill of materials of the weights in a bundle, with its ``modelCard``.

    It follows CycloneDX 1.6. ``evidence_digest`` is the SHA-256 of ``evidence.json``, where the
    numbers come from; equal evidence gives equal cards.
    """
    request, digest = evidence.request, evidence.files.get(WEIGHTS)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"urn:expunge:evidence:{evidence_digest}")
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
                "hashes": [{"alg": "SHA-256", "content": digest}] if digest else [],
                "modelCard": _model_card(evidence),
                "properties": _properties(evidence, evidence_digest),
            }
        ],
        **_declarations(evidence, evidence_digest),
    }


def _declarations(evidence: Evidence, evidence_digest: str) -> dict[str, Any]:
    """Requirements, and the claims for and against each that the evidence makes."""
    claims = claims_of(evidence)
    asked = [each for each in REQUIREMENTS if each.claim in claims]
    return {
        "declarations": {
            "assessors": [{"bom-ref": "assessor", "thirdParty": False}],
            "attestations": [
                {
                    "summary": NOT_ADVICE,
                    "assessor": "assessor",
                    "map": [
                        {
                            "requirement": f"{each.standard}, {each.identifier}",
                            MAPPED[claims[each.claim].bearing]: [each.claim],
                        }
                        for each in asked
                        if claims[each.claim].bearing in MAPPED
                    ],
                }
            ],
            "claims": [
                {"bom-ref": ref, "target": WEIGHTS, "predicate": each.text, "evidence": [EVIDENCE]}
                for ref, each in claims.items()
            ],
            "evidence": [
                {
                    "bom-ref": EVIDENCE,
                    "description": f"{EVIDENCE}, SHA-256 {evidence_digest}",
                    "created": evidence.request.when,
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
                            "bom-ref": f"{name}, {each.identifier}",
                            "identifier": each.identifier,
                            "title": each.title,
                        }
                        for each in asked
                        if each.standard == name
                    ],
                }
                for name in dict.fromkeys(each.standard for each in asked)
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


def _properties(evidence: Evidence, evidence_digest: str) -> list[dict[str, str]]:
    values = {
        "evidence.sha256": evidence_digest,
        "verdict": evidence.status,
        "request": str(evidence.request.number),
        "records": str(evidence.request.records),
        "weights_before.sha256": evidence.hashes.weights_before,
        "signed_by": evidence.signed_by or "unsigned",
    }
    return [{"name": f"expunge:{name}", "value": value} for name, value in values.items()]
