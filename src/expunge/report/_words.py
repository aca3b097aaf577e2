"""Numbers and names as people read them; ``js/start.js`` writes numbers in the same way."""

from __future__ import annotations

import datetime
import re
from typing import Any

DECIMALS = {"%": 1, "points": 1, "s": 1}
LABELS = {
    "fit": "Does the model fit these data?",
    "fits": "The model fits the data",
    "ids": "What was asked",
    "asked": "Ids asked for",
    "records": "Training records they name",
    "share": "Share of the training data",
    "train": "Training data",
    "val": "Held-out data (val)",
    "test": "Test data",
    "retain": "Retained data",
    "forget": "Data to forget",
    "duplicates": "Copies of forgotten records that remain",
    "exact": "Exact copies",
    "near": "Near copies",
    "hardness": "How well the model knows the data to forget",
    "cost": "Cost",
    "accuracy": "Accuracy, %",
    "chance": "Accuracy of guessing, %",
    "twice": "Ids listed more than once",
    "held_out": "Ids found in held-out data only",
    "earlier": "Forgotten by earlier requests",
    "near_count": "Near copies found",
    "in_retain": "Of these in the retained data",
    "near_expected_by_chance": "Near copies expected by chance",
    "thresholds": "Similarity that counts as near",
    "auc": "How often a record to forget is surer than a held-out one",
    "lr": "Learning rate",
    "classes": "By class",
    "n_val": "Held-out records",
    "n_forget": "Forgotten records",
    "val_fraction": "Share held out",
    "ua": "Accuracy on the forgotten data",
    "va": "Accuracy on held-out data",
    "ta": "Accuracy on test data",
    "ra": "Accuracy on retained data",
}


def number(value: Any, unit: str = "") -> str:
    """A number with the decimals of its unit; a dash where there is none.

    >>> number(87.126, "%"), number(0.5), number(42), number(None)
    ('87.1', '0.500', '42', '–')
    """
    if not isinstance(value, (int, float)):
        return str(value or "–")
    if value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    small = unit not in DECIMALS and value != 0 and abs(value) < 0.001
    text = f"{value:.3g}" if small else f"{value:,.{DECIMALS.get(unit, 3)}f}"
    return text.replace("-", "−")


def share(value: Any) -> str:
    """A share as a percentage: ``share(0.035)`` is 3.5 %."""
    return f"{100 * value:.1f} %" if isinstance(value, (int, float)) else "–"


def moment(text: Any) -> str:
    """A time of ISO 8601 as people write it; anything else as it is."""
    try:
        when = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return str(text or "")
    zone = " UTC" if when.utcoffset() == datetime.timedelta(0) else ""
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def prose(text: Any) -> str:
    """A sentence whose numbers stay on one line with their per cent.

    >>> prose("87 % of 5")
    '87\\xa0% of 5'
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", str(text))


def label(name: str) -> str:
    """A key of the evidence in plain words.

    >>> label("step_seconds"), label("val")
    ('Step seconds', 'Held-out data (val)')
    """
    text = name.replace("_", " ").replace("-", " ").strip()
    return LABELS.get(name, text[:1].upper() + text[1:])
