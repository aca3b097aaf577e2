"""Ledgers of many requests that hold next to nothing, made quickly."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from expunge.ledger._id_key import digest_requested
from expunge.ledger._ledger import Ledger, digest_config
from expunge.ledger._seal import write_ledger_head
from tests.unit.report import fake_rows as rows

CONSTANT = {
    "weights.safetensors": b"",
    "forgotten.json": json.dumps(
        {"key": "k", "records": [], "asked": [], "ids": [], "left_out": [], "digest": ""}
    ).encode(),
    "report.html": b"",
    "letter.html": b"",
    "letter.md": b"",
    "model-card.cdx.json": b"",
}
INTERVAL = {"value": 1.0, "low": 1.0, "high": 1.0}
METRIC = {"label": "", "unit": "%", "direction": "higher", "before": INTERVAL, "after": INTERVAL}


def make_chain(root: Path, count: int) -> Ledger:
    """A ledger of ``count`` requests; files that all bundles share are hard links."""
    shared = root.with_name(f"{root.name}-shared")
    shared.mkdir(parents=True)
    for name, content in CONSTANT.items():
        (shared / name).write_bytes(content)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in CONSTANT.items()}
    previous = None
    for number in range(1, count + 1):
        bundle = root / f"{number:04d}"
        bundle.mkdir(parents=True)
        for name in CONSTANT:
            os.link(shared / name, bundle / name)
        text = json.dumps(_evidence(number, previous, digests))
        (bundle / "evidence.json").write_text(text)
        sealed = digests | {"evidence.json": hashlib.sha256(text.encode()).hexdigest()}
        seal = "".join(f"{digest}  {name}\n" for name, digest in sorted(sealed.items()))
        (bundle / "evidence.sha256").write_text(seal)
        previous = hashlib.sha256(seal.encode()).hexdigest()
    ledger = Ledger.read(root)
    write_ledger_head(ledger)
    return ledger


def _evidence(number: int, previous: str | None, digests: dict[str, str]) -> dict[str, Any]:
    weights, data, config = "a" * 64, "b" * 64, {"seed": 0}
    return {
        "schema_version": 5,
        "kind": "request",
        "verdict": {
            "status": "inconclusive",
            "headline": "",
            "reasons": [],
            "shown": [],
        },
        "request": {
            "number": number,
            "ids": 0,
            "records": 0,
            "copies": 0,
            "share": 0.0,
            "source": "",
            "when": "",
            "ledger": {"id": "c" * 32, "model": weights, "data": data},
            "previous": previous,
        },
        "hashes": {
            "weights_before": weights,
            "data": data,
            "ids": digest_requested((), ()),
            "config": digest_config(config),
            "weights_after": weights,
        },
        "config": config,
        "preflight": rows.preflight(0).model_dump(mode="json"),
        "metrics": [METRIC | {"name": name, "target": None} for name in ("ua", "ta")],
        "stopped": {"epoch": 0, "reason": ""},
        "files": {name: digests[name] for name in ("weights.safetensors", "forgotten.json")},
    }
