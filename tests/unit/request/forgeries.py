"""Ways to forge the evidence of two requests, each by somebody who can write there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from expunge import _tensors as tensors
from expunge._files import file_digest
from expunge.request._head_file import HEAD_FILE, write_head
from expunge.request._ledger import Ledger, digest_config
from expunge.request._seal import write_seal

Forgery = Callable[[Path], None]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def change_evidence(bundle: Path, change: Callable[[Any], None]) -> None:
    """Change ``evidence.json`` in place."""
    evidence = read_json(bundle / "evidence.json")
    change(evidence)
    (bundle / "evidence.json").write_text(json.dumps(evidence, indent=1))


def redo_hashes(bundle: Path) -> None:
    """Make all hashes of a bundle those of its present files, and the head that of the last."""

    def redo(evidence: Any) -> None:
        for name in evidence["files"]:
            evidence["files"][name] = file_digest(bundle / name)
        state, _ = tensors.load(bundle / "weights.safetensors")
        evidence["hashes"]["config"] = digest_config(evidence["config"])
        evidence["hashes"]["weights_after"] = tensors.state_digest(state)

    change_evidence(bundle, redo)
    write_seal(bundle)
    write_head(Ledger.read(bundle.parent))


def empty_the_seal(root: Path) -> None:
    (root / "0002" / "evidence.sha256").write_text("")


def shorten_the_seal(root: Path) -> None:
    path = root / "0002" / "evidence.sha256"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.endswith("report.html\n")))
    (root / "0002" / "report.html").unlink()


def delete_the_last(root: Path) -> None:
    shutil.rmtree(root / "0002")


def delete_the_last_and_its_trace(root: Path) -> None:
    shutil.rmtree(root / "0002")
    write_head(Ledger.read(root))


def delete_the_last_and_the_head(root: Path) -> None:
    shutil.rmtree(root / "0002")
    (root / HEAD_FILE).unlink()


def delete_the_first(root: Path) -> None:
    shutil.rmtree(root / "0001")
    (root / "0002").rename(root / "0001")


def swap(root: Path) -> None:
    (root / "0001").rename(root / "aside")
    (root / "0002").rename(root / "0001")
    (root / "aside").rename(root / "0002")


def plant_a_file(root: Path) -> None:
    (root / "0002" / "figures" / "better.png").write_bytes(b"")


def plant_an_attempt(root: Path) -> None:
    bundle = root / "0001"
    (bundle / "attempt.safetensors").unlink(missing_ok=True)
    shutil.copy(bundle / "weights.safetensors", bundle / "attempt.safetensors")
    write_seal(bundle)


def change_weights(root: Path) -> None:
    path = root / "0002" / "weights.safetensors"
    state, card = tensors.load(path)
    tensors.save(path, {name: torch.zeros_like(value) for name, value in state.items()}, card)
    redo_hashes(root / "0002")


def change_the_verdict(root: Path) -> None:
    def change(evidence: Any) -> None:
        verdict = evidence["verdict"]
        verdict["status"] = "inconclusive" if verdict["status"] == "achieved" else "achieved"

    change_evidence(root / "0002", change)
    redo_hashes(root / "0002")


def change_the_attacks(root: Path) -> None:
    def change(evidence: Any) -> None:
        for check in evidence["checks"]:
            check |= {name: check[name] - 0.3 for name in ("value", "low", "high")}

    change_evidence(root / "0002", change)
    redo_hashes(root / "0002")


def change_the_page(root: Path) -> None:
    path = root / "0002" / "report.html"
    path.write_text(path.read_text().replace("not achieved", "achieved") + "\n")
    redo_hashes(root / "0002")


def replace_the_letter(root: Path) -> None:
    (root / "0002" / "letter.html").write_text("All is well.")
    redo_hashes(root / "0002")


FORGERIES: dict[str, Forgery] = {
    "the seal emptied": empty_the_seal,
    "a file deleted, with its line in the seal": shorten_the_seal,
    "the last request deleted": delete_the_last,
    "the last request deleted, `head.json` rewritten": delete_the_last_and_its_trace,
    "the last request deleted, and `head.json`": delete_the_last_and_the_head,
    "the first request deleted, the second put in its place": delete_the_first,
    "two bundles swapped": swap,
    "a file planted in a bundle": plant_a_file,
    "an `attempt.safetensors` planted and sealed": plant_an_attempt,
    "weights changed, hashes redone": change_weights,
    "the verdict changed, hashes redone": change_the_verdict,
    "numbers of attacks changed, hashes redone": change_the_attacks,
    "`report.html` changed, hashes redone": change_the_page,
    "the letter replaced, hashes redone": replace_the_letter,
}
"""By what ``docs/requests.md`` calls them."""
