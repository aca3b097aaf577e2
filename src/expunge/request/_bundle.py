"""The evidence bundle: a folder that appears complete, with the hash of everything in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import StorageError
from expunge._files import sync, write_text
from expunge.engine._artifact import Card
from expunge.evidence._schema import Evidence
from expunge.evidence._sections import ConfidenceScores, ExampleRow, Interval
from expunge.evidence._times_and_cost import Seconds
from expunge.ledger._id_key import ForgottenRecords
from expunge.ledger._ledger import EVIDENCE, RECORDS, SEAL, WEIGHTS, digest_of
from expunge.ledger._seal import (
    ATTEMPT,
    LETTERS,
    MODEL_CARD,
    PAGE,
    PREFLIGHT,
    THUMBNAILS,
    write_seal,
)
from expunge.ledger._signatures import sign_bundle, sign_head, sign_weights
from expunge.ledger._signing_keys import SigningKey
from expunge.report import COLOURS, hide_frame, legend_beside, new_figure, save_figure
from expunge.request._job_file import JOB, job_to_toml
from expunge.request._model_card import model_card
from expunge.request.verdict._build import RequestInputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BundleContents:
    """What a bundle holds beside the evidence.

    ``attempt`` is the model of a run that was discarded: to look at, not to use.
    """

    model: nn.Module
    attempt: nn.Module | None
    inputs: RequestInputs
    chosen: tuple[int, ...]
    card: Card | None
    key: SigningKey | None = None
    """What signs the bundle, if it is to be signed."""
    examples: Sequence[ExampleRow] = ()
    """The forgotten records one by one, if they are to be kept."""


def write_bundle(
    folder: Path,
    evidence: Evidence,
    contents: BundleContents,
    seconds: Callable[[], Seconds] | None = None,
) -> Evidence:
    """Write everything under a hidden name, then rename it to ``folder``.

    ``seconds`` is asked for the times of the request when all but the evidence and its page is
    written. Returns the evidence as written, with the hashes of the weights and of all files.
    """
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        evidence = _write_files(scratch, evidence, contents, seconds)
        sync([*(path for path in scratch.rglob("*") if path.is_file()), scratch])
        if contents.key is not None:
            # Before the folder appears: killed in between, the command resumes and signs again.
            sign_head(folder.parent, evidence.request, digest_of(scratch / SEAL), contents.key)
        scratch.rename(folder)
        sync([folder.parent])
    except (OSError, StorageError) as error:
        why = getattr(error.__cause__ or error, "strerror", None) or str(error).rstrip(".")
        raise StorageError(
            f"The evidence could not be written to {folder}: {why}. The state of the run is kept; "
            "the same command resumes it."
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return evidence


def _write_files(
    folder: Path,
    evidence: Evidence,
    contents: BundleContents,
    seconds: Callable[[], Seconds] | None,
) -> Evidence:
    # The models: the second to look at, and both remember what a later request asks to forget.
    state = contents.model.state_dict()
    tensors.save(folder / WEIGHTS, state, card_after(contents.card, evidence))
    if contents.attempt is not None:
        tensors.save(folder / ATTEMPT, contents.attempt.state_dict(), {})
    if contents.key is not None:
        sign_weights(folder, contents.key)
        evidence = evidence.model_copy(update={"signed_by": contents.key.key_id})

    # What was asked for and found, for reading and for repeating the request.
    rows = [row.model_dump(mode="json") for row in contents.examples]
    if evidence.keep_examples:
        write_text(folder / THUMBNAILS, json.dumps(rows), private=True)
    records = forgotten_records(contents.inputs, contents.chosen)
    write_text(folder / RECORDS, records.model_dump_json(), private=True)
    if not evidence.in_memory:
        write_text(folder / JOB, job_to_toml(contents.inputs.job), private=True)
    write_text(folder / PREFLIGHT, preflight_file(evidence), private=True)
    save_figure(accuracy_figure(evidence), folder / "figures" / "accuracy.png", ["png"])
    if evidence.scores is not None:
        figure = scores_figure(evidence.scores, judged_name(evidence))
        save_figure(figure, folder / "figures" / "scores.png", ["png"])

    # The evidence, with the hashes of all the above, and what shows it: page, letter, model card.
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): digest_of(path) for path in paths}
    digests = {"weights_after": tensors.state_digest(state)}
    if contents.attempt is not None:
        digests["attempt"] = tensors.state_digest(contents.attempt.state_dict())
    hashes = evidence.hashes.model_copy(update=digests)
    evidence = evidence.model_copy(update={"hashes": hashes, "files": files})
    if seconds is not None:
        evidence = _with_seconds(evidence, seconds())
    text = json.dumps(evidence.as_json(), indent=1, allow_nan=False)
    write_text(folder / EVIDENCE, text, private=True)
    for name, content in shown_files(evidence, digest_of(folder / EVIDENCE), rows).items():
        write_text(folder / name, content, private=True)

    # The seal over everything, and the signature over that.
    write_seal(folder)
    if contents.key is not None:
        sign_bundle(folder, evidence, contents.key)
    return evidence


def _with_seconds(evidence: Evidence, seconds: Seconds) -> Evidence:
    cost = None if evidence.cost is None else evidence.cost.with_request(seconds)
    return evidence.model_copy(update={"seconds": seconds, "cost": cost})


def preflight_file(evidence: Evidence) -> str:
    """The findings of the preflight by themselves, as JSON."""
    return json.dumps(evidence.as_json()["preflight"], indent=1, allow_nan=False)


def shown_files(
    evidence: Evidence, fingerprint: str, examples: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """What shows the evidence to people and programs, by file: the page, letters, the model card.

    ``fingerprint`` is the hash of ``evidence.json``; the page shows the ``examples`` that are kept.
    """
    from expunge.report import render_letter, render_request

    return {
        PAGE: render_request(evidence, examples),
        **{name: render_letter(evidence, fingerprint, name.rpartition(".")[2]) for name in LETTERS},
        MODEL_CARD: json.dumps(model_card(evidence, fingerprint), indent=1),
    }


def forgotten_records(inputs: RequestInputs, chosen: Sequence[int]) -> ForgottenRecords:
    """The records of a request as keyed hashes; the ``chosen`` ones are gone."""
    key, hashed = inputs.key, inputs.hashed
    return ForgottenRecords(
        key=key.fingerprint,
        records=sorted(map(key.hash_record, chosen)),
        asked=list(hashed.records),
        ids=list(hashed.ids),
        unseen=sorted(
            key.hash_record(index, split)
            for split, indices in inputs.requested.unseen.items()
            for index in indices
        ),
        digest=hashed.digest,
    )


def card_after(card: Card | None, evidence: Evidence) -> dict[str, Any]:
    """The card of the initial weights, if they had one, so that other commands can read these."""
    if card is None:
        return {}
    if not evidence.unlearned:
        return card.model_dump(mode="json")
    changes = {"stage": "unlearned", "scenario": None, "scenario_seed": None, "forgotten": None}
    return card.model_copy(update=changes).model_dump(mode="json")


def judged_name(evidence: Evidence) -> str:
    """What figures call the model that was judged."""
    return "discarded" if evidence.discarded else "after"


def accuracy_figure(evidence: Evidence) -> Figure:
    """Accuracy on the records and on test data with intervals: before, after and later."""
    figure = new_figure(6.4, 3.6)
    ax = figure.subplots()
    groups = [metric for metric in evidence.metrics if metric.name in ("ua", "ta")]
    series: tuple[tuple[str, str, Sequence[Interval | None]], ...] = (
        ("before", "D", [metric.before for metric in groups]),
        (judged_name(evidence), "o", [metric.after for metric in groups]),
        ("after benign steps", "^", [metric.relearned for metric in groups]),
        ("unseen data alike", "s", [metric.target for metric in groups]),
    )
    for k, (label, marker, intervals) in enumerate(series):
        shown = [(x, interval) for x, interval in enumerate(intervals) if interval is not None]
        if not shown:
            continue
        ax.errorbar(
            [x + 0.12 * (k - 1.5) for x, _ in shown],
            [interval.value for _, interval in shown],
            yerr=[
                [interval.value - interval.low for _, interval in shown],
                [interval.high - interval.value for _, interval in shown],
            ],
            fmt=marker,
            color=COLOURS[k],
            capsize=3,
            label=label,
        )
    ax.set_xticks(range(len(groups)), [metric.label for metric in groups])
    ax.set_xlim(-0.5, len(groups) - 0.5)
    ax.set_ylabel("accuracy (%)")
    ax.grid(alpha=0.25, linewidth=0.5, axis="y")
    hide_frame(ax)
    legend_beside(ax)
    return figure


def scores_figure(scores: ConfidenceScores, judged: str) -> Figure:
    """Histograms of the confidence in the true label, before and ``judged`` (after)."""
    figure = new_figure(7.2, 3.2)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, title, splits in zip(
        axes, ("before", judged), (scores.before, scores.after), strict=True
    ):
        curves = (
            ("forgotten", splits.forget, "-"),
            ("unseen", splits.val, "--"),
            ("retained", splits.retain, ":"),
        )
        for colour, (label, counts, style) in zip(COLOURS, curves, strict=False):
            bins = np.linspace(0.0, 1.0, len(counts) + 1)
            shares = np.asarray(counts) / max(sum(counts), 1)
            ax.stairs(shares, bins, color=colour, linewidth=1.6, linestyle=style, label=label)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel(scores.name)
        hide_frame(ax)
    axes[0].set_ylabel("share")
    legend_beside(axes[1])
    return figure
