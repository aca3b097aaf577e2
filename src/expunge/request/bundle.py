"""The evidence bundle: a folder that appears whole, with the hash of everything in it."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from expunge import tensors
from expunge.errors import StorageError
from expunge.files import atomic, write_text
from expunge.request.figures import epochs_figure, scores_figure
from expunge.request.ledger import EVIDENCE, EXAMPLES, RECORDS, SEAL, WEIGHTS, digest_of
from expunge.store.durable import sync

PAGE = "report.html"


def write_bundle(
    folder: Path,
    evidence: dict[str, Any],
    model: nn.Module,
    card: Mapping[str, Any],
    forgotten: Mapping[str, Any],
) -> Path:
    """Write everything beside ``folder`` under a hidden name, then put it in place by a rename."""
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        _fill(scratch, evidence, model, card, forgotten)
        sync([*(p for p in scratch.rglob("*") if p.is_file()), scratch])
        scratch.rename(folder)
        sync([folder.parent])
    except OSError as error:
        raise StorageError(
            f"The evidence could not be written to {folder}: {error.strerror or error}. The state "
            "of the run is kept; the same command goes on."
        ) from error
    return folder


def _fill(
    folder: Path,
    evidence: dict[str, Any],
    model: nn.Module,
    card: Mapping[str, Any],
    forgotten: Mapping[str, Any],
) -> None:
    from expunge.bench.figures import save_figure
    from expunge.report import render_request

    tensors.save(folder / WEIGHTS, model.state_dict(), dict(card))
    write_examples(folder / EXAMPLES, evidence["examples"])
    write_text(folder / RECORDS, json.dumps(forgotten))
    write_text(folder / "preflight.json", json.dumps(evidence["preflight"], indent=1))
    save_figure(epochs_figure(evidence), folder / "figures" / "epochs.png")
    save_figure(scores_figure(evidence), folder / "figures" / "scores.png")
    evidence["hashes"]["weights_after"] = digest_of(folder / WEIGHTS)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    evidence["files"] = {p.relative_to(folder).as_posix(): digest_of(p) for p in files}
    write_text(folder / EVIDENCE, json.dumps(evidence, indent=1, allow_nan=False))
    write_text(folder / PAGE, render_request(evidence))
    names = (EVIDENCE, PAGE)
    lines = "".join(f"{digest_of(folder / name)}  {name}\n" for name in names)
    write_text(folder / SEAL, lines)


def write_examples(path: Path, examples: Sequence[Mapping[str, Any]]) -> None:
    """One line a forgotten record."""
    header = ["index", "id", "label", "flag"]
    sides = ("prediction", "confidence", "exposure")
    with atomic(path) as scratch, scratch.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*header, *(f"{s}_{w}" for w in ("before", "after") for s in sides)])
        for row in examples:
            cells = [row[name] for name in header]
            writer.writerow(cells + [row[w][s] for w in ("before", "after") for s in sides])
