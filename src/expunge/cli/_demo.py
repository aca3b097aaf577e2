"""``expunge demo``: a deletion request, and the paper's add-ons on methods, in a minute."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from expunge._files import atomic, refuse_existing, write_text
from expunge.cli._output import WIDE, AsJson, Output, Quiet, number_table

if TYPE_CHECKING:
    from expunge.bench.tables._summary import Summary
    from expunge.evaluation import Scores

BLOCK = "digits-early"
"""The block of the protocol that the demo runs; the others are for ``expunge bench run demo``."""
TRAINED, VALIDATED, FORGOTTEN = 1200, 150, 300
"""How many digits the request's model is trained on, how many are for val, how many have to go."""
NOISE = 80
"""Deviation of the noise on their pixels, of 255: it leaves the model something to memorise."""
EPOCHS = 25
LINES = {
    "ua": "right on the forgotten records, %",
    "ta": "right on test data, %",
    "loss_auc": "AUC of the loss attack (0.5: chance)",
}


def demo_command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for everything that the demo writes.")
    ] = Path("demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How often to repeat the comparison.")] = 3,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (default: one per core).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a README.md that is not an earlier demo's.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """See in a minute what unlearning does, on handwritten digits.

    First a deletion request: a model that knows 1,200 noisy digits by heart forgets 300 of them,
    and is compared with a model retrained without them. Then three methods, alone and with add-ons
    of the paper, forget half of 120 digits: the block "digits-early" of the protocol demo, all of
    which "expunge bench run demo" runs. Writes the bundle of the request, and what "bench run"
    writes: results, tables, figures, claims. If it is interrupted, the same command resumes it;
    remove OUT to compute everything again.

    Example:  expunge demo --seeds 5 --out demo5
    """
    if not (out / "store").is_dir():
        refuse_existing(out / "README.md", force=force)
    start = time.perf_counter()
    output = Output(as_json=as_json, quiet=quiet, width=WIDE)
    found = {"request": show_request(out, output)}
    found |= {"table": show_comparison(out, seeds, workers, output)}
    output.data(found)
    output.show(f"{time.perf_counter() - start:.0f} s in all.")


def show_request(out: Path, output: Output) -> dict[str, Any]:
    """Forget some of the digits that a model knows, and compare it with a retrained one."""
    import torch

    from expunge.data import divide
    from expunge.engine import Recipe, load_artifact, load_card_data, restore_from_config
    from expunge.evaluation import evaluate, retrain_ideal, train_initial
    from expunge.evidence import read_evidence
    from expunge.request import forget

    torch.set_num_threads(1)  # images of 8 x 8 pixels give a second thread nothing to do

    # The model in production, and the list of what has to go.
    weights, ids, retrained = (
        out / name for name in ("model.safetensors", "request.txt", "retrained.safetensors")
    )
    if not weights.is_file():
        output.message(f"Training a model on {TRAINED:,} noisy digits ...")
        write_noisy_digits(out / "digits.npz")
        write_text(ids, "".join(f"{index}\n" for index in range(FORGOTTEN)))
        recipe = Recipe(epochs=EPOCHS, batch_size=32, lr=0.05, schedule="one-cycle")
        train_initial(
            f"npz:{out / 'digits.npz'}", weights, width=0.5, recipe=recipe, progress=False
        )
    initial = load_artifact(weights)

    # The request, and what it is compared with here: a model that never saw the records.
    output.message(f"Forgetting {FORGOTTEN} of them ...")
    folder = out / "requests" / "0001"
    if not folder.is_dir():
        key = out / "id.key"
        forget(weights=weights, ids=ids, out=out / "requests", id_key=key, progress=False)
    evidence = read_evidence(folder / "evidence.json")
    after = restore_from_config(initial.card.model.model_dump(), folder / "weights.safetensors")
    scenario = f"ids:{ids}"
    if not retrained.is_file():
        output.message("Retraining without them, to compare ...")
        retrain_ideal(initial, scenario, retrained, progress=False)
    division = divide(load_card_data(initial.card), scenario, 0)
    retain, test = division.retain, division.splits.test
    models = {"before": initial.model, "after": after, "retrained": load_artifact(retrained).model}
    scores = {
        name: evaluate(model, forget=division.forget, retain=retain, test=test, benign_steps=50)
        for name, model in models.items()
    }

    columns = _columns(scores)
    output.show(f"\n[bold]A deletion request[/]: {FORGOTTEN} of {TRAINED:,} noisy digits")
    output.show(_request_table(columns), highlight=True)
    output.show(f"[bold]{evidence.status.upper()}[/] {evidence.verdict.headline}", highlight=True)
    output.show(f"The page: {folder}/report.html. To check it: expunge verify {out}/requests\n")
    return {
        "status": evidence.status,
        "headline": evidence.verdict.headline,
        "scores": columns,
        "folder": str(folder),
    }


def write_noisy_digits(path: Path) -> None:
    """Write the digits of scikit-learn with noise, in a fixed order, as ``npz``."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits, draw = load_digits(), np.random.default_rng(0)
    order = draw.permutation(len(digits.target))
    noisy = digits.images * 16 + draw.normal(0, NOISE, digits.images.shape)
    x, y = noisy.clip(0, 255).astype(np.uint8)[order], digits.target[order]
    held = TRAINED + VALIDATED
    parts = {"train": slice(TRAINED), "val": slice(TRAINED, held), "test": slice(held, None)}
    arrays = {f"x_{split}": x[part] for split, part in parts.items()}
    arrays |= {f"y_{split}": y[part] for split, part in parts.items()}
    with atomic(path) as scratch, scratch.open("wb") as file:
        np.savez(file, **arrays)


def _columns(scores: Mapping[str, Scores]) -> dict[str, dict[str, float | None]]:
    """The scores by moment: before, after, after benign steps, retrained."""
    columns: dict[str, dict[str, float | None]] = {}
    for name, score in scores.items():
        columns[name] = {line: getattr(score, line) for line in LINES}
        if name == "after":
            later = (score.relearned_ua, score.relearned_ta, score.relearned_auc)
            columns["after benign steps"] = dict(zip(LINES, later, strict=True))
    return columns


def _request_table(columns: Mapping[str, Mapping[str, float | None]]) -> Table:
    rows = []
    for line, label in LINES.items():
        digits = 3 if line == "loss_auc" else 1
        values = [column[line] for column in columns.values()]
        rows.append([label, *("" if v is None else f"{v:.{digits}f}" for v in values)])
    return number_table(["the model is", *columns], rows)


def show_comparison(out: Path, seeds: int, workers: int | None, output: Output) -> Any:
    """Run the block of the protocol and print its table."""
    from expunge.bench._protocol_file import load_protocol
    from expunge.bench._publish import publish
    from expunge.bench._run import collect, run_planned
    from expunge.bench._stages import plan
    from expunge.bench.tables import make_table
    from expunge.dispatch import Display
    from expunge.evaluation import DIRECTIONS, METRICS
    from expunge.store import Store

    protocol = load_protocol("demo").only((BLOCK,)).with_seeds(seeds)
    planned, store = plan(protocol, device="cpu"), Store(out / "store")
    with Display("demo", console=output.messages, log=True) as report:
        run_planned(planned, store, workers=workers, report=report).check()
    results = collect(planned, store)
    publish(protocol, results, out)
    (summary,) = make_table("table2", results)
    output.show(summary.terminal(), highlight=True)
    for name in summary.metrics:
        metric = METRICS[name]
        better = DIRECTIONS[metric.direction]
        output.show(f"  {metric.label:<11} {metric.definition} ({metric.unit}); {better}")
    output.show(f"\n[bold]{what_focus_did(summary)}[/]", highlight=True)
    output.show(f"Tables, figures and claims: {out}/; begin with README.md.")
    return summary.data()


def what_focus_did(summary: Summary) -> str:
    """One line: rUA of each method alone and with FOCUS, and whether it came nearer to zero."""
    remaining = {row.label: row.mean("rua") for row in summary.rows}
    changes: dict[str, list[str]] = {"Nearer to it": [], "Not nearer": []}
    for label, rua in remaining.items():
        if (later := remaining.get(f"{label}-FOCUS")) is not None:
            kind = "Nearer to it" if abs(later) < abs(rua) else "Not nearer"
            changes[kind].append(f"{label} from {rua:+.1f} to {later:+.1f}")
    parts = [f"{kind}: {', '.join(found)}." for kind, found in changes.items() if found]
    return " ".join(["What FOCUS did to rUA, which is 0 for a retrained model.", *parts])
