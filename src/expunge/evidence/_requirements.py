"""What regulators ask (docs/explanation/requirements.md), and what evidence states about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from expunge.evidence._schema import Evidence

FORGOTTEN, RECOMPUTED, ANSWERED = "claim-forgotten", "claim-recomputed", "claim-answered"
DERIVED, LIMITED = "claim-derived", "claim-limits"


class Requirement(NamedTuple):
    """A rule in a few words, and the claim of the evidence that bears on it."""

    claim: str
    standard: str
    identifier: str
    title: str


class Claim(NamedTuple):
    """What the evidence states, and whether that supports or contradicts a requirement."""

    text: str
    bearing: Literal["supports", "contradicts", "open"]


NIST, ICO = "NIST AI RMF 1.0", "ICO guidance on AI and data protection"
EDPB, CNIL = "EDPB Opinion 28/2024", "CNIL recommendations on AI of 7 February 2025"
REQUIREMENTS = (
    Requirement(FORGOTTEN, "GDPR", "Art. 17(1)", "Right to erasure"),
    Requirement(RECOMPUTED, "GDPR", "Art. 5(2)", "Accountability"),
    Requirement(ANSWERED, "GDPR", "Art. 12(3)", "Information on action taken, within one month"),
    Requirement(DERIVED, "GDPR", "Art. 19", "Notification of recipients regarding erasure"),
    Requirement(FORGOTTEN, EDPB, "Anonymity", "Extraction of personal data is unlikely"),
    Requirement(FORGOTTEN, ICO, "Individual rights", "Erasure, if a model contains personal data"),
    Requirement(FORGOTTEN, CNIL, "Rights", "Erasure from a model that is not anonymous"),
    Requirement(LIMITED, NIST, "MEASURE 1.1", "Risks that cannot be measured are documented"),
    Requirement(RECOMPUTED, NIST, "MEASURE 2.1", "Test sets, metrics and tools are documented"),
    Requirement(FORGOTTEN, NIST, "MEASURE 2.10", "Privacy risk is examined and documented"),
)
NOT_ADVICE = (
    "Which claims of the evidence bear on which requirements. Whether a requirement applies, and "
    "whether it is met, is not stated here; this is not legal advice."
)


def claims_of(evidence: Evidence) -> dict[str, Claim]:
    """The claims that the evidence makes, by name; those it says nothing about are left out."""
    request, derived = evidence.request, evidence.derived
    verdict = {"achieved": "supports", "not achieved": "contradicts", "inconclusive": "open"}
    claims = {
        FORGOTTEN: Claim(evidence.verdict.headline, verdict[evidence.status]),  # type: ignore[arg-type]
        RECOMPUTED: Claim(
            "Numbers and verdict can be computed again from weights and data: `expunge verify`.",
            "supports",
        ),
        LIMITED: Claim(" ".join(evidence.limits), "supports"),
    }
    if request.due:
        claims[ANSWERED] = Claim(
            f"Received on {request.received}, carried out on {request.when[:10]}, and to be "
            f"answered by {request.due}.",
            "contradicts" if (request.days_left or 0) < 0 else "supports",
        )
    if derived:
        models = "; ".join(f"{each.name} ({each.kind}): {each.status}" for each in derived)
        is_open = any(each.status == "open" for each in derived)
        claims[DERIVED] = Claim(
            f"Models made from this one: {models}.", "contradicts" if is_open else "supports"
        )
    return claims
