"""The model card: valid by its schema, and with the numbers of the evidence."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest

from expunge.evidence import Interval
from expunge.evidence._sections import Status
from expunge.request._model_card import model_card
from tests.unit.report import fake

FINGERPRINT = "5ea1" * 16


@pytest.mark.parametrize("status", get_args(Status))
def test_the_card_is_valid_cyclonedx(status: Status) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    evidence = fake.evidence(status=status)
    undefined = Interval(value=math.nan, low=math.nan, high=math.nan)
    metric = evidence.metrics[0].model_copy(update={"after": undefined})
    for given in (evidence, evidence.model_copy(update={"metrics": [metric]})):
        text = json.dumps(model_card(given, FINGERPRINT), allow_nan=False)
        validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
        assert validator.validate_str(text) is None


def test_the_card_has_the_hash_of_the_weights_and_the_numbers_of_the_evidence() -> None:
    evidence = fake.evidence()
    evidence = evidence.model_copy(update={"files": {"weights.safetensors": "ab" * 32}})
    (model,) = model_card(evidence, FINGERPRINT)["components"]
    assert model["type"] == "machine-learning-model"
    assert model["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    rows = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    after = next(row for row in rows if row["slice"] == "records of the request, after")
    ua = evidence.metric("ua").after
    assert float(after["value"]) == pytest.approx(ua.value, rel=1e-5)
    assert float(after["confidenceInterval"]["upperBound"]) == pytest.approx(ua.high, rel=1e-5)
    targets = sum(metric.target is not None for metric in evidence.metrics)
    assert len(rows) == 3 * len(evidence.metrics) + targets + len(evidence.checks)
    again = next(row for row in rows if row["slice"].endswith("request, after benign steps"))
    assert float(again["value"]) == pytest.approx(
        evidence.metric("ua").after_benign_steps.value, rel=1e-5
    )  # type: ignore[union-attr]
    assert model["modelCard"]["considerations"]["technicalLimitations"]
    assert {"name": "expunge:verdict", "value": "achieved"} in model["properties"]


def test_the_card_of_a_model_as_it_was_has_its_numbers_alone() -> None:
    evidence = fake.evidence(status="not achieved")
    (model,) = model_card(evidence, FINGERPRINT)["components"]
    rows = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert [float(row["value"]) for row in rows] == [m.before.value for m in evidence.metrics]
    assert rows[0]["slice"] == "records of the request"
    (words,) = model["modelCard"]["considerations"]["performanceTradeoffs"]
    assert "as it was before the request" in words


def test_equal_evidence_gives_equal_cards() -> None:
    first, second = (model_card(fake.evidence(), FINGERPRINT) for _ in range(2))
    assert first == second
    other = model_card(fake.evidence(), "0" * 64)
    assert other["serialNumber"] != first["serialNumber"]


def test_requirements_are_mapped_to_claims_for_and_against() -> None:
    def mapped(status: Status) -> dict[str, str]:
        card = model_card(fake.evidence(status=status), FINGERPRINT)
        claims = {claim["bom-ref"]: claim["predicate"] for claim in card["declarations"]["claims"]}
        (attestation,) = card["declarations"]["attestations"]
        assert "not legal advice" in attestation["summary"]
        standards = card["definitions"]["standards"]
        known = {each["bom-ref"] for row in standards for each in row["requirements"]}
        assert {row["requirement"] for row in attestation["map"]} == known
        assert all(ref in claims for row in attestation["map"] for ref in [*row.values()][1])
        return {row["requirement"]: [*row][1] for row in attestation["map"]}

    achieved, failed = mapped("achieved"), mapped("not achieved")
    assert achieved["GDPR, Art. 17(1)"] == "claims"
    assert failed["GDPR, Art. 17(1)"] == "counterClaims"
    assert achieved["GDPR, Art. 12(3)"] == "claims"
    assert achieved["GDPR, Art. 19"] == "counterClaims", "a derived model is open"
