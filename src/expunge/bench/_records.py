"""Records: the results of every run of a protocol, as plain values to keep and to share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge._files import write_text
from expunge._registry import Registry
from expunge.bench._stage_functions import HISTOGRAMS, STEPS, read_rows
from expunge.bench._stages import PlannedRun
from expunge.bench._text_stage_functions import DEFINITIONS
from expunge.data import CORPORA
from expunge.methods import METHODS
from expunge.store import Entry, Store
from expunge.update import ADDONS, WeightedSum

FORMAT = 1
SETTINGS = (
    "block",
    "dataset",
    "arch",
    "width",
    "limit",
    "scenario",
    "seed",
    "model",
    "method",
    "addon",
    "moments",
    "aggregate",
    "alpha",
    "beta",
    "lr",
    "batch_size",
    "budget",
)
"""What tells one record from another; ``model`` is initial, ideal or unlearned, ``budget`` the
number of unlearning epochs."""


@dataclass(frozen=True)
class Record:
    """One run of one seed.

    ``settings`` has a value for each name of :data:`SETTINGS`. ``epochs`` holds a dict per epoch:
    ``epoch``, ``seconds`` (RTE so far), ``processor_seconds``, losses and diagnostics of the epoch,
    and at evaluated epochs the metrics. An unlearning run begins with epoch 0, the initial model.
    ``steps`` holds, for constrained methods, a list per diagnostic; ``agreement`` a histogram of f
    over the parameters in 50 bins of [0, 1], by epoch; ``definitions``, for texts, the versions of
    the definitions of its metrics.
    """

    key: str
    settings: dict[str, Any]
    epochs: list[dict[str, Any]]
    label: str = ""
    baseline: bool = False
    diverged: str = ""
    steps: dict[str, list[float | None]] = field(default_factory=dict)
    agreement: dict[str, list[float]] = field(default_factory=dict)
    definitions: dict[str, int] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """A setting by name."""
        return self.settings[name]

    def at(self, epoch: int) -> dict[str, Any]:
        """The row of an epoch; empty where there is none."""
        return next((row for row in self.epochs if row["epoch"] == epoch), {})

    @property
    def is_reference(self) -> bool:
        """Whether it is an initial or ideal model, which has no epochs of unlearning."""
        return bool(self.settings["model"] != "unlearned")

    @property
    def is_text(self) -> bool:
        """Whether it is a run of a language model."""
        return self.settings["dataset"] in CORPORA

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

    def dump(self) -> str:
        """One line of JSON."""
        plain = {
            "key": self.key,
            "label": self.label,
            "baseline": self.baseline,
            "settings": self.settings,
            "diverged": self.diverged,
            "epochs": self.epochs,
            "steps": self.steps,
            "agreement": self.agreement,
            "definitions": self.definitions,
            "environment": self.environment,
        }
        return json.dumps({"format": FORMAT} | {k: v for k, v in plain.items() if v})


def collect(planned: Sequence[PlannedRun], store: Store) -> list[Record]:
    """The records of all runs that are in the store, references first."""
    records: dict[str, Record] = {}
    for run in planned:
        if not store.has(run.reference):
            continue
        reference = store.open(run.reference)
        for record in _references(run, reference):
            records.setdefault(record.key, record)
    for run in planned:
        if store.has(run.unlearn) and store.has(run.reference):
            record = _unlearned(run, store.open(run.unlearn), store.open(run.reference))
            records.setdefault(record.key, record)
    return list(records.values())


def save_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines, atomically."""
    write_text(path, "".join(record.dump() + "\n" for record in records))


def load_records(path: str | Path) -> list[Record]:
    """The records of a JSON-lines file; a damaged line is named."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            version = plain.pop("format", 0)
            if version > FORMAT:
                raise DataError(
                    f"{path}, line {number}: written by a newer version of expunge (format "
                    f"{version}, this one reads {FORMAT}). Update expunge to read it."
                )
            record = Record(**plain)
            if missing := [name for name in SETTINGS if name not in record.settings]:
                raise KeyError(missing[0])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path}, line {number}: this is not a record. ({error!r})") from error
        records.append(record)
    return records


def select_records(records: Iterable[Record], conditions: Sequence[str]) -> list[Record]:
    """The records that meet all ``name=value`` conditions; ``name=a,b`` accepts either.

    Methods and add-ons go by any of their names, ``label`` by the paper's.
    """
    tests = [_condition(text) for text in conditions]
    return [record for record in records if all(test(record) for test in tests)]


def _condition(text: str) -> Callable[[Record], bool]:
    name, equals, wanted = (part.strip() for part in text.partition("="))
    if not equals or (name not in SETTINGS and name != "label"):
        known = ", ".join(("label", *SETTINGS))
        raise InvalidInput(f"A condition is name=value, with a name of: {known}. (got {text!r})")
    values = [value.strip() for value in wanted.split(",")]
    registries: dict[str, Registry[Any]] = {"method": METHODS, "addon": ADDONS}
    registry = registries.get(name)
    if registry is not None:
        values = [registry.name(value) if value in registry else value for value in values]

    def fits(record: Record) -> bool:
        setting = record.label if name == "label" else record.settings[name]
        return any(_same(setting, value) for value in values)

    return fits


def _same(setting: Any, value: str) -> bool:
    if isinstance(setting, (int, float)) and not isinstance(setting, bool):
        try:
            return float(setting) == float(value)
        except ValueError:
            return False
    return str(setting if setting is not None else "").lower() == value.lower()


def _settings(run: PlannedRun) -> dict[str, Any]:
    configuration = run.configuration
    block, procedure = configuration.block, configuration.procedure
    aggregate = procedure.aggregate
    return {
        "block": block.name,
        "dataset": block.data.partition(":")[0],
        "arch": block.model,
        "width": block.width,
        "limit": block.limit,
        "scenario": run.scenario,
        "seed": run.seed,
        "model": "unlearned",
        "method": configuration.method,
        "addon": configuration.addon,
        "moments": configuration.moments,
        "aggregate": configuration.aggregate,
        "alpha": aggregate.alpha if isinstance(aggregate, WeightedSum) else None,
        "beta": aggregate.beta if isinstance(aggregate, WeightedSum) else None,
        "lr": procedure.lr,
        "batch_size": procedure.batch_size,
        "budget": procedure.epochs,
    }


def _references(run: PlannedRun, entry: Entry) -> Iterable[Record]:
    nothing = dict.fromkeys(SETTINGS[SETTINGS.index("method") :])
    nothing |= {"method": "", "addon": "", "moments": "", "aggregate": ""}
    for row in read_rows(entry):
        name = row.pop("model")
        settings = _settings(run) | nothing | {"model": name}
        yield Record(
            f"{entry.key}-{name}",
            settings,
            [_rounded(row)],
            label=name,
            definitions=_json(entry, DEFINITIONS),
            environment=_environment(entry),
        )


def _unlearned(run: PlannedRun, entry: Entry, reference: Entry) -> Record:
    start = next(row for row in read_rows(reference) if row["model"] == "initial")
    start = {k: v for k, v in start.items() if k != "model"}
    rows = [start | {"seconds": 0.0, "processor_seconds": 0.0}, *read_rows(entry)]
    diverged = str(rows[-1].get("diverged", ""))
    return Record(
        entry.key,
        _settings(run),
        [_rounded(row) for row in rows if "diverged" not in row],
        label=run.configuration.label,
        baseline=run.configuration.baseline,
        diverged=diverged,
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
