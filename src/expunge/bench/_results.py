"""Results: what every finished run of a protocol measured, as plain values to keep and to share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge._files import write_text
from expunge.bench._runs import Run
from expunge.bench._stage_functions import DEFINITIONS, HISTOGRAMS, STEPS, read_rows
from expunge.bench._stages import PlannedRun
from expunge.store import Entry, Store

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Result(Run):
    """A finished run of one seed, and what was measured.

    ``epochs`` holds a dict per epoch: ``epoch``, ``seconds`` (RTE so far), ``processor_seconds``,
    losses and diagnostics of the epoch, and at evaluated epochs the metrics. An unlearning run
    begins with epoch 0, the initial model. ``steps`` holds, for constrained methods, a list per
    diagnostic; ``agreement`` a histogram of f over the parameters in 50 bins of [0, 1], by epoch;
    ``definitions``, for texts, the versions of the definitions of its metrics.
    """

    key: str
    epochs: list[dict[str, Any]]
    diverged: str = ""
    steps: dict[str, list[float | None]] = field(default_factory=dict)
    agreement: dict[str, list[float]] = field(default_factory=dict)
    definitions: dict[str, int] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    def at(self, epoch: int) -> dict[str, Any]:
        """The row of an epoch; empty where there is none."""
        return next((row for row in self.epochs if row["epoch"] == epoch), {})

    @property
    def evaluated(self) -> list[dict[str, Any]]:
        """The rows that hold metrics."""
        return [row for row in self.epochs if "ua" in row or "exact_memorisation" in row]

    @property
    def final(self) -> dict[str, Any]:
        """The last row that holds metrics."""
        rows = self.evaluated
        return rows[-1] if rows else {}

    def value(self, metric: str, epoch: int | None = None) -> float | None:
        """A metric at an epoch (default: the last evaluated one); None where there is none.

        ``rte`` is the time of the steps alone, and ``abs_rua`` the distance of rUA from zero.
        """
        row = self.final if epoch is None else self.at(epoch)
        if metric == "rte":
            value = row.get("seconds")
        elif metric == "abs_rua":
            value = None if row.get("rua") is None else abs(row["rua"])
        else:
            value = row.get(metric)
        return None if value is None else float(value)

    def as_plain(self) -> dict[str, Any]:
        """The result as values of JSON; what is empty is left out."""
        own = ("diverged", "epochs", "steps", "agreement", "definitions", "environment")
        plain = {
            "key": self.key,
            "label": self.label,
            "baseline": self.baseline,
            "settings": self.settings,
            **{name: getattr(self, name) for name in own},
        }
        return {"format": FORMAT} | {name: value for name, value in plain.items() if value}

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(self.as_plain())


def collect(planned: Sequence[PlannedRun], store: Store) -> list[Result]:
    """The results of all runs that are in the store, references first."""
    results: dict[str, Result] = {}
    for run in planned:
        if store.has(run.reference):
            for result in _references(run, store.open(run.reference)):
                results.setdefault(result.key, result)
    for run in planned:
        if store.has(run.unlearn) and store.has(run.reference):
            result = _unlearned(run, store.open(run.unlearn), store.open(run.reference))
            results.setdefault(result.key, result)
    return list(results.values())


def save_results(path: Path, results: Iterable[Result]) -> None:
    """Write results as JSON lines, atomically."""
    write_text(path, "".join(result.dump() + "\n" for result in results))


def load_results(path: str | Path) -> list[Result]:
    """The results of a JSON-lines file; a damaged line is named."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            version = plain.pop("format", 0)
            if version > FORMAT:
                raise DataError(
                    f"{path}, line {number}: written by a newer version of expunge (format "
                    f"{version}, this one reads {FORMAT}). Update expunge to read it."
                )
            plain.pop("label", None)
            results.append(Result.from_settings(plain.pop("settings"), **plain))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path}, line {number}: this is not a result. ({error!r})") from error
    return results


def _references(run: PlannedRun, entry: Entry) -> Iterable[Result]:
    for row in read_rows(entry):
        name = row.pop("model")
        yield Result(
            task=run.task,
            seed=run.seed,
            block=run.block,
            model=name,
            key=f"{entry.key}-{name}",
            epochs=[_rounded(row)],
            definitions=_json(entry, DEFINITIONS),
            environment=_environment(entry),
        )


def _unlearned(run: PlannedRun, entry: Entry, reference: Entry) -> Result:
    start = next(row for row in read_rows(reference) if row["model"] == "initial")
    start = {k: v for k, v in start.items() if k != "model"}
    rows = [start | {"seconds": 0.0, "processor_seconds": 0.0}, *read_rows(entry)]
    return Result.from_settings(
        run.settings,
        baseline=run.baseline,
        key=entry.key,
        epochs=[_rounded(row) for row in rows if "diverged" not in row],
        diverged=str(rows[-1].get("diverged", "")),
        steps=_json(entry, STEPS),
        agreement=_json(entry, HISTOGRAMS),
        definitions=_json(entry, DEFINITIONS),
        environment=_environment(entry),
    )


def _json(entry: Entry, name: str) -> dict[str, Any]:
    if name not in entry.files:
        return {}
    content: dict[str, Any] = json.loads(entry.path(name).read_text(encoding="utf-8"))
    return content


def _environment(entry: Entry) -> dict[str, Any]:
    notes = entry.environment
    hardware, versions = notes.get("hardware", {}), notes.get("versions", {})
    kept = {name: hardware.get(name) for name in ("processor", "cores", "gpus")}
    kept |= {name: versions.get(name) for name in ("expunge", "torch", "machine")}
    return {name: value for name, value in kept.items() if value}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Seven digits are enough, and keep files small; what is read back is what was collected."""
    return {k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in row.items()}
