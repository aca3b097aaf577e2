"""The head of the ledger in a file: how many requests there were, and the hash of the last.

Without it, a ledger whose last requests are gone looks like a shorter one. Somebody who can write
here can rewrite it; the head that was noted elsewhere and the signed one are for that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from expunge._errors import DataError
from expunge._files import write_text
from expunge._strict_json import read_json
from expunge.ledger._ledger import SEAL, Ledger

HEAD_FILE = "head.json"
"""Beside the bundles."""


@dataclass(frozen=True)
class Head:
    """The number of the last request when the file was written, and the hash of its seal."""

    requests: int
    seal: str


def write_ledger_head(ledger: Ledger) -> None:
    """Write down the last request of ``ledger``."""
    content = {"requests": len(ledger.entries), SEAL: ledger.head}
    write_text(ledger.root / HEAD_FILE, json.dumps(content) + "\n")


def read_ledger_head(root: Path) -> Head | None:
    """The head that was written in ``root``; None if none was."""
    path = root / HEAD_FILE
    try:
        content = read_json(path)
        return Head(int(content["requests"]), str(content[SEAL]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DataError(f"{path} cannot be read: {error!r}. The ledger is damaged.") from error


def head_problem(ledger: Ledger) -> str:
    """What is not as the head knows it, in a sentence; empty if all is, or nothing is known."""
    head, here = read_ledger_head(ledger.root), len(ledger.entries)
    if head is None:
        return ""
    if not 1 <= head.requests <= here:
        return f"{HEAD_FILE} lists {head.requests} requests, {here} are here."
    if ledger.entries[head.requests - 1].head != head.seal:
        return f"{SEAL} of request {head.requests} is not the one that {HEAD_FILE} knows."
    return ""


def require_all(ledger: Ledger) -> None:
    """Raise if requests are gone: the next would start from a model that knows their records."""
    head, here = read_ledger_head(ledger.root), len(ledger.entries)
    if head is not None and head.requests > here:
        raise DataError(
            f"Requests are missing from {ledger.root}: {HEAD_FILE} lists {head.requests}, {here} "
            f"are here. Put their folders back. If they were removed on purpose, remove {HEAD_FILE}"
            " as well, and ask for their records again: the weights before them know these."
        )
