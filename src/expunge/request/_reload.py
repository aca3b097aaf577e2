"""The model and the data of requests that are here, loaded without trusting their bundles."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import ExpungeError
from expunge._specs import join_spec
from expunge.data import no_downloads
from expunge.engine import (
    OTHER_COMPUTERS,
    describe_imports_of_data,
    describe_imports_of_model,
    read_weights,
)
from expunge.ledger import JOB, Ledger
from expunge.request._job import Job, make_job, text_defaults
from expunge.request._job_file import read_toml
from expunge.request.loading._load import (
    ModelAndData,
    are_texts,
    load_model_and_data,
    model_and_data_of,
)

MODEL_AND_DATA = (
    "model",
    "model_options",
    "weights",
    "data",
    "data_limit",
    "data_seed",
    "val_fraction",
    "inputs",
    "template",
    "device",
)
"""The settings of a job that say which model and which data it is about. No other is read."""


class NotAvailable(ExpungeError):
    """The model or the data of requests are not here, or only their bundle names them."""


def reload_model_and_data(
    ledger: Ledger,
    *,
    model: nn.Module | str | None = None,
    data: Any = None,
    weights: str | Path | None = None,
    trust_job: bool = False,
    on_import: Callable[[str], None] = lambda words: None,
) -> ModelAndData:
    """The model and the data of the requests in ``ledger``, or :class:`NotAvailable`.

    Both are in memory, or ``model`` and ``data`` name them; what is not given is read from the job
    and the card in the latest bundle. Code that only these name is imported if ``trust_job``, and
    ``on_import`` is called with what it is before. ``weights`` are those from before the first
    request, if they have moved; if they are gone, those in the bundle take their place.
    """
    if isinstance(model, nn.Module):
        loaded = model_and_data_of(model, data, _job_in_memory(ledger, data))
        return loaded if weights is None else loaded.with_weights(Path(weights))
    assert ledger.last is not None
    if ledger.last.evidence.in_memory:
        raise NotAvailable(
            "the request was made from Python with a model or data in memory; "
            f"expunge.request.verify({str(ledger.root)!r}, model=model, data=(train, val, test)) "
            "recomputes them"
        )
    try:
        settings, unnamed = _settings(ledger, model, data, weights)
        words = " and ".join(unnamed.values())
        if unnamed and not trust_job:
            raise NotAvailable(
                f"only the bundle names {words}, which is code and was not imported; name it "
                f"yourself if you know it, `{verify_command(ledger)}`, or use --trust-job if you "
                "trust the bundle"
            )
        if unnamed:
            on_import(words)
        with nullcontext() if data is not None or trust_job else no_downloads():
            return load_model_and_data(make_job(**settings))
    except NotAvailable:
        raise
    except ExpungeError as error:
        raise NotAvailable(str(error).rstrip(".")) from error


def verify_command(ledger: Ledger) -> str:
    """What to type to verify the requests: it names code and key that the latest bundle needs."""
    words = ["expunge", "verify", str(ledger.root)]
    if ledger.last is not None:
        values, unnamed = _settings(ledger, None, None, None)
        options = {"model": values.get("model_options") or {}}
        for name in unnamed:
            words += [f"--{name}", join_spec(values[name], options.get(name, {}))]
        if id_key := read_toml(ledger.last.folder / JOB).get("id_key"):
            words += ["--id-key", str(id_key)]
    return shlex.join(words)


def _settings(
    ledger: Ledger, model: str | None, data: str | None, weights: str | Path | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of the latest bundle's job, with those given, and what only it would import."""
    assert ledger.last is not None
    values = read_toml(ledger.last.folder / JOB)
    values = {name: values[name] for name in MODEL_AND_DATA if name in values}
    stated = str(values.pop("weights", ""))
    if Path(stated).is_relative_to(ledger.root.resolve()):  # what an earlier request left
        stated = str(read_toml(ledger.entries[0].folder / JOB).get("weights", ""))
    there = not stated.startswith(OTHER_COMPUTERS) and Path(stated).is_file()
    values["weights"] = str(weights or (stated if there else ledger.weights))
    card = read_weights(Path(values["weights"]))[1]
    named = {"model": str(values.get("model", "")), "data": str(values.get("data", ""))}
    options = values.get("model_options")
    if card is not None:
        named["model"] = named["model"] or join_spec(card.model.name, card.model.options)
        named["data"] = named["data"] or card.data.spec
    options = options if isinstance(options, dict) else {}
    code = {
        "model": describe_imports_of_model(named["model"], options),
        "data": describe_imports_of_data(named["data"]),
    }
    given = {name: value for name, value in (("model", model), ("data", data)) if value is not None}
    unnamed = {name: words for name, words in code.items() if words and name not in given}
    if model is not None:
        values.pop("model_options", None)  # they would go to code that was named without them
    if unnamed:
        values |= {name: spec for name, spec in named.items() if code[name]}
    return values | given | {"out": ledger.root}, unnamed


def _job_in_memory(ledger: Ledger, data: Any) -> Job:
    """How the data in memory were divided, as the evidence says."""
    config = ledger.entries[-1].evidence.config
    division = MODEL_AND_DATA[MODEL_AND_DATA.index("data_limit") :]
    settings = {name: config[name] for name in division if name in config}
    settings |= text_defaults({}) if are_texts(data) else {}
    return make_job(weights=Path("in memory"), out=ledger.root, **settings)
