"""What was shown, and what was not, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expunge.request.calibrate._comparison import Comparison

AGAINST = "Against test data: "
"""How the reasons of the audit begin."""
LIMITS = (
    "Nothing here is a proof that no trace is left: approximate unlearning is judged by what can "
    "be measured.",
    "The target is an estimate from unseen data of the same classes; the retrained model itself "
    "was not made. How much worse that would be for having had less data is assumed, and that two "
    "trainings differ by chance is not in the interval.",
    "The attacks look at the whole forget set; an attacker with models trained for the purpose "
    "(U-LiRA, see `expunge audit`) may find single records that these do not.",
    "Copies of the records elsewhere (backups, other models, logs) are not touched.",
)


def verdict_of(
    *,
    status: str,
    reason: str,
    records: int,
    metrics: Sequence[Mapping[str, Any]],
    attacks: Sequence[Mapping[str, Any]],
    examples: Sequence[Mapping[str, Any]],
    earlier: Sequence[Mapping[str, Any]],
    held_out: Comparison,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Status, headline, reasons, and what was and was not shown.

    ``held_out`` is the comparison with test data, which took no part in the run: what satisfied
    val has to stand up to it. The attacks are shown; by themselves they decide nothing, as some of
    six see something by chance.
    """
    again = [e for e in earlier if e["status"] == "exposed again"]
    run = status == "achieved"  # else the model is as it was, and nothing is new about it
    told = run and not held_out.indistinguishable
    status = "not achieved" if again or told else status
    ua = next(m for m in metrics if m["name"] == "ua")
    ta = next(m for m in metrics if m["name"] == "ta")
    found = [a for a in attacks if a["after"]["verdict"] == "detected"]
    reasons = [reason]
    reasons += [
        f"The records of request {e['number']} stand out again: accuracy on them is "
        f"{e['ua']['value']:.1f} %, {e['target']['low']:.1f} to {e['target']['high']:.1f} % would "
        "be expected."
        for e in again
    ]
    if told:
        reasons += [f"{AGAINST}{reason}" for reason in held_out.reasons]
    if found and run:
        names = ", ".join(a["name"] for a in found)
        verb = "tells" if len(found) == 1 else "tell"
        reasons.append(
            f"{len(found)} of {len(attacks)} attacks {verb} the records from unseen data: {names}. "
            "It decides nothing by itself: of six, some see something by chance."
        )
    reasons += warnings
    return {
        "status": status,
        "headline": _headline(status, records, ua, ta, len(found), len(attacks)),
        "reasons": reasons,
        "shown": _shown(status, ua, ta, attacks, examples),
        "not_shown": list(LIMITS),
    }


def _headline(
    status: str,
    records: int,
    ua: Mapping[str, Any],
    ta: Mapping[str, Any],
    found: int,
    attacks: int,
) -> str:
    many = f"{records} record{'s' if records != 1 else ''}"
    if status == "achieved":
        lost = ta["before"]["value"] - ta["after"]["value"]
        change = f"{lost:.1f} points lower" if lost > 0.05 else "no lower than before"
        return (
            f"The model treats the {many} like data it never saw: it is right on "
            f"{ua['after']['value']:.1f} % of them, {ua['target']['value']:.1f} % would be "
            f"expected; {found or 'none'} of {attacks} attacks tell{'s' if found < 2 else ''} them "
            f"from unseen data; test accuracy is {change}."
        )
    return (
        f"The {many} were not forgotten to the standard asked for; the bundle holds the model as "
        "it was before the request."
    )


def _shown(
    status: str,
    ua: Mapping[str, Any],
    ta: Mapping[str, Any],
    attacks: Sequence[Mapping[str, Any]],
    examples: Sequence[Mapping[str, Any]],
) -> list[str]:
    target = ua["target"]
    exposed = sum(e["flag"] == "still exposed" for e in examples)
    inside = target["low"] <= ua["after"]["value"] <= target["high"]
    verdicts = [a["after"]["verdict"] for a in attacks]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    return [
        f"Accuracy on the forgotten records went from {ua['before']['value']:.1f} % to "
        f"{ua['after']['value']:.1f} %, {'inside' if inside else 'outside'} the interval expected "
        f"of a model that never saw them ({target['low']:.1f} to {target['high']:.1f} %).",
        f"Test accuracy went from {ta['before']['value']:.1f} % to {ta['after']['value']:.1f} % "
        f"[{ta['after']['low']:.1f}, {ta['after']['high']:.1f}].",
        f"Of {len(attacks)} membership attacks: {counts}.",
        f"{exposed} of {len(examples)} forgotten records stand out from unseen data one by one; "
        f"about {0.01 * len(examples):.0f} would by chance.",
    ]
