"""The seal of a bundle, which has the hash of each of its files, and the head of the ledger.

The head says how many requests there were, and the hash of the last one's seal. Without it, a
ledger whose last requests are gone looks like a shorter one. Somebody who can write here can
rewrite both; the head that was noted elsewhere and the signed one are for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from expunge._errors import DataError
from expunge._files import read_regular, write_text
from expunge._strict_json import read_json
from expunge.evidence import Evidence
from expunge.ledger._ledger import EVIDENCE, FORGOTTEN, SEAL, WEIGHTS, Ledger, digest_of

PAGE, SIGNATURE = "report.html", "bundle.dsse.json"
LETTERS, MODEL_CARD = {"letter.html": "html", "letter.md": "md"}, "model-card.cdx.json"
DISCARDED = "discarded.safetensors"
JOB = "job.toml"
"""What a request is repeated from, together with the file of ids."""
HEAD_FILE = "head.json"
"""Beside the bundles."""
NOT_SEALED = frozenset({SEAL, SIGNATURE})
"""Files that the seal cannot list: the seal itself, and the signature over it."""
FROM_EVIDENCE = frozenset({EVIDENCE, PAGE, *LETTERS, MODEL_CARD})
"""Files that are written after the evidence, so that it cannot list them."""
REQUIRED = FROM_EVIDENCE | {WEIGHTS, FORGOTTEN}
_LINE = re.compile(r"([0-9a-f]{64})  ([^/\\\s][^\\]*)")


def write_seal(folder: Path) -> None:
    """Write the hashes of all files in ``folder`` to its seal."""
    names = sorted(files_in(folder) - NOT_SEALED)
    write_text(folder / SEAL, "".join(f"{digest_of(folder / name)}  {name}\n" for name in names))


def read_seal(folder: Path) -> dict[str, str]:
    """The hash of each file that the seal lists."""
    path = folder / SEAL
    try:
        lines = read_regular(path).decode().splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    sealed: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None or ".." in Path(match[2]).parts or match[2] in sealed:
            raise DataError(f"{path} is damaged: line {number} is not a hash and a file name.")
        sealed[match[2]] = match[1]
    return sealed


def files_in(folder: Path) -> set[str]:
    """The names of all files in ``folder``; whatever is neither file nor folder counts as one."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in paths}


def seal_problems(folder: Path, evidence: Evidence, sealed: Mapping[str, str]) -> list[str]:
    """What is wrong with the list of files, in sentences: gaps, contradictions, strangers."""
    problems = [
        f"{SEAL} does not list {name}, which this bundle has to have."
        for name in sorted((REQUIRED | evidence.files.keys()) - sealed.keys())
    ]
    problems += [
        f"{SEAL} and {EVIDENCE} give different hashes of {name}."
        for name in sorted(sealed.keys() & evidence.files.keys())
        if sealed[name] != evidence.files[name]
    ]
    listed = evidence.files.keys() | (sealed.keys() & FROM_EVIDENCE)
    strangers = (files_in(folder) | sealed.keys()) - NOT_SEALED - listed
    return problems + [
        f"{name} is not part of the bundle: {EVIDENCE} does not list it."
        for name in sorted(strangers)
    ]


def write_ledger_head(ledger: Ledger) -> None:
    """Write down the last request of ``ledger``."""
    content = {"requests": len(ledger.entries), SEAL: ledger.head}
    write_text(ledger.root / HEAD_FILE, json.dumps(content) + "\n")


def read_ledger_head(root: Path) -> tuple[int, str] | None:
    """The number of the last request when the head was written in ``root``, and the hash of its
    seal; None if none was."""
    path = root / HEAD_FILE
    try:
        content = read_json(path)
        return int(content["requests"]), str(content[SEAL])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DataError(f"{path} cannot be read: {error!r}. The ledger is damaged.") from error


def head_problem(ledger: Ledger) -> str:
    """How the ledger differs from its head file; empty if it does not, or there is no such file."""
    head, here = read_ledger_head(ledger.root), len(ledger.entries)
    if head is None:
        return ""
    requests, seal = head
    if not 1 <= requests <= here:
        return f"{HEAD_FILE} lists {requests} requests, {here} are here."
    if ledger.entries[requests - 1].head != seal:
        return f"{SEAL} of request {requests} is not the one that {HEAD_FILE} knows."
    return ""


def require_all(ledger: Ledger) -> None:
    """Raise if requests are gone: the next would start from a model that knows their records."""
    if problem := head_problem(ledger):
        raise DataError(
            f"The requests in {ledger.root} are not complete: {problem} Put their folders back. If "
            f"they were removed on purpose, remove {HEAD_FILE} as well, and ask for their records "
            "again: the weights before them know these."
        )
