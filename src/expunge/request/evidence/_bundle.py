"""The evidence bundle: a folder that appears whole, with the hash of everything in it."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from expunge import _tensors as tensors
from expunge._errors import StorageError
from expunge._files import atomic, sync, write_text
from expunge.engine._artifact import Card
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import IDS, JOB, job_to_toml
from expunge.request._ledger import EVIDENCE, EXAMPLES, RECORDS, SEAL, WEIGHTS, digest_of
from expunge.request.evidence._figures import epochs_figure, scores_figure

PAGE, ATTEMPT = "report.html", "attempt.safetensors"


@dataclass(frozen=True)
class Files:
    """What a bundle holds beside the evidence.

    ``attempt`` is the model of a run that was taken back: to look at, not to use.
    """

    model: nn.Module
    attempt: nn.Module | None
    job: Job
    asked: RequestedRecords
    chosen: tuple[int, ...]
    card: Card | None


def write_bundle(folder: Path, evidence: dict[str, Any], files: Files) -> Path:
    """Write everything beside ``folder`` under a hidden name, then put it in place by a rename."""
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        _fill(scratch, evidence, files)
        sync([*(p for p in scratch.rglob("*") if p.is_file()), scratch])
        scratch.rename(folder)
        sync([folder.parent])
    except (OSError, StorageError) as error:
        shutil.rmtree(scratch, ignore_errors=True)
        why = getattr(error.__cause__ or error, "strerror", None) or str(error).rstrip(".")
        raise StorageError(
            f"The evidence could not be written to {folder}: {why}. The state of the run is kept; "
            "the same command goes on."
        ) from error
    return folder


def _fill(folder: Path, evidence: dict[str, Any], files: Files) -> None:
    from expunge.plotting import save_figure
    from expunge.report import render_request

    tensors.save(folder / WEIGHTS, files.model.state_dict(), _card(files, evidence))
    if files.attempt is not None:
        tensors.save(folder / ATTEMPT, files.attempt.state_dict(), {})
    write_examples(folder / EXAMPLES, evidence["examples"])
    write_text(folder / RECORDS, json.dumps(_forgotten(files)))
    write_text(folder / IDS, json.dumps(list(files.asked.ids)))
    if not evidence["config"].get("in_memory"):
        write_text(folder / JOB, job_to_toml(files.job))
    write_text(folder / "preflight.json", json.dumps(evidence["preflight"], indent=1))
    save_figure(epochs_figure(evidence), folder / "figures" / "epochs.png")
    save_figure(scores_figure(evidence), folder / "figures" / "scores.png")
    evidence["hashes"]["weights_after"] = digest_of(folder / WEIGHTS)
    written = sorted(p for p in folder.rglob("*") if p.is_file())
    evidence["files"] = {p.relative_to(folder).as_posix(): digest_of(p) for p in written}
    write_text(folder / EVIDENCE, json.dumps(evidence, indent=1, allow_nan=False))
    write_text(folder / PAGE, render_request(evidence))
    names = (EVIDENCE, PAGE)
    lines = "".join(f"{digest_of(folder / name)}  {name}\n" for name in names)
    write_text(folder / SEAL, lines)


def _forgotten(files: Files) -> dict[str, Any]:
    return {
        "indices": list(files.chosen),
        "asked": list(files.asked.indices),
        "ids": list(files.asked.ids),
        "digest": files.asked.digest,
    }


def _card(files: Files, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The card of the weights that came in, if they had one: other commands can read these too."""
    if files.card is None:
        return {}
    if evidence["verdict"]["status"] != "achieved":
        return files.card.model_dump(mode="json")
    own = {"stage": "unlearned", "scenario": None, "scenario_seed": None, "forgotten": None}
    return files.card.model_copy(update=own).model_dump(mode="json")


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
