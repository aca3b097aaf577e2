"""Job files: the template, how they are read, and how a job is written beside its evidence."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import pydantic
from pydantic_core import PydanticUndefined

from expunge._errors import InvalidInput
from expunge._files import is_there, read_text
from expunge._options import Option
from expunge.data import DATASETS, absolute_spec, is_data_factory, looks_like_path
from expunge.request._job import (
    DEFAULT_METHOD,
    PROCEDURE_OPTIONS,
    Job,
    explain_violation,
    preferred_settings,
)

CARD_FIELDS = {"data_limit", "data_seed", "val_fraction"}
"""Fields for which a card may have other values than the defaults: written only if given."""

SECTIONS = {
    "weights": "The model",
    "data": "The data it was trained on",
    "ids": "What to forget",
    "out": "Where the result goes",
    "method": "Method",
    "margin_auc": "Margins of the verdict",
    "seed": "Machine",
    "moments": "Steps, in detail",
    "precision": "Machine",
}
"""The headings of help and job files, each by the first of the settings below it."""
TEMPLATE_HEADER = """\
# A deletion request. Run it with:  expunge forget --job FILE
# Paths are relative to this file. A line that starts with # is a default or an alternative.
"""
FILLED_IN = ("weights", "data", "ids", "out")
TABLES = """
# [model_options]
# width = 1.0

# Models that were made from this one and may know the records, too: each stays an open item until
# a later request lists it as closed.
# [[derived]]
# name = "support-bot"
# kind = "fine-tuned"            # or "distilled", "deployed"
# status = "open"                # or "closed": replaced, made again or withdrawn

# How the model was trained, for weights that do not know it: the fields of expunge.Recipe.
# refresh and exact follow it, except in what is set above: an `lr` there replaces this one.
# [recipe]
# epochs = 100
# batch_size = 256
# lr = 0.1
# algorithm = "sgd"              # or "adam", "adamw"
# momentum = 0.9                 # of SGD
# weight_decay = 5e-4
# schedule = "step"              # or "constant", "linear", "one-cycle"
"""


def job_options() -> tuple[Option, ...]:
    """The settings of a job that a command line can take, in their order."""
    procedure = {each.name: each for each in PROCEDURE_OPTIONS}
    section, options = "", []
    for name, field in Job.model_fields.items():
        section = SECTIONS.get(name, section)
        if name in procedure or get_origin(field.annotation) not in (dict, list):
            option = procedure.get(name) or _as_option(name, field)
            options.append(replace(option, section=section))
    order = list(dict.fromkeys(SECTIONS.values()))
    return tuple(sorted(options, key=lambda each: order.index(each.section)))


def _as_option(name: str, field: pydantic.fields.FieldInfo) -> Option:
    """A field as an option; that it was not given is known, so no default is stated."""
    kinds = [each for each in get_args(field.annotation) if each is not NoneType]
    optional = NoneType in get_args(field.annotation)
    kind = kinds[0] if optional else field.annotation
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    example = (field.examples or [field.default])[0]
    return Option(name, kind, None, field.description or "", example=example)


def job_template() -> str:
    """A commented job file: put the paths in, and it runs."""
    lines = [TEMPLATE_HEADER.rstrip()]
    preferred = preferred_settings(DEFAULT_METHOD)
    section = ""
    for each in job_options():
        if each.section != section:
            section = each.section
            lines += ["", f"# --- {section.lower()} ".ljust(91, "-")]
        default = preferred.get(each.name, Job.model_fields[each.name].default)
        known = default not in (None, "", PydanticUndefined)
        value = _to_toml(default if known else each.example)
        mark = "" if each.name in FILLED_IN else "# "
        first, *rest = textwrap.wrap(each.text, 66)
        lines.append(f"{mark}{each.name} = {value}".ljust(32) + f" # {first}")
        lines += [" " * 33 + f"# {line}" for line in rest]
    return "\n".join(lines) + "\n" + TABLES


def load_job(path: str | Path) -> Job:
    """Load the job in a TOML file. Relative paths in it are relative to the file."""
    path = Path(path)
    values = read_toml(path)
    try:
        return Job.model_validate(_resolve_paths(values, path.parent))
    except pydantic.ValidationError as error:
        raise InvalidInput(f"{path}: {explain_violation(error)}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The values in a TOML file."""
    try:
        return tomllib.loads(read_text(path, "UTF-8 TOML"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}.") from error


def _resolve_paths(values: dict[str, Any], base: Path) -> dict[str, Any]:
    """``values`` with their relative paths taken from ``base``."""
    resolved = dict(values)
    for name in ("weights", "base", "ids", "records", "out", "id_key"):
        if isinstance(value := values.get(name), str):
            resolved[name] = base / Path(value).expanduser()
    data = values.get("data")
    if isinstance(data, str) and data and not is_data_factory(data):
        kind, colon, inner = data.partition(":")
        if kind in DATASETS:
            place = base / Path(inner).expanduser()
            is_path = inner and (not DATASETS[kind].takes_names or is_there(place))
            resolved["data"] = f"{kind}:{place}" if is_path else data
        elif not colon and (looks_like_path(data) or is_there(base / data)):
            resolved["data"] = str(base / Path(data).expanduser())
    return resolved


def job_values(job: Job) -> dict[str, Any]:
    """Every setting of a job but the file of ids, as plain values; paths are absolute.

    Files of ids are often named after people.
    """
    omitted = {"ids", *(name for name in CARD_FIELDS if name not in job.model_fields_set)}
    values = job.model_dump(mode="json", exclude=omitted)
    for name in ("weights", "base", "records", "out", "id_key"):
        if name in values:
            values[name] = str(Path(values[name]).expanduser().resolve())
    if values["data"] and not is_data_factory(values["data"]):
        values["data"] = absolute_spec(values["data"])
    return values


def job_to_toml(job: Job) -> str:
    """A job file with :func:`job_values`."""
    lines = [
        "# The settings of this request; the file of ids is not among them. To repeat it:",
        "# expunge forget --job FILE --ids IDS --out NEW",
        *(f"{name} = {_to_toml(value)}" for name, value in job_values(job).items()),
    ]
    return "\n".join(lines) + "\n"


def _to_toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = (f"{_to_toml(str(name))} = {_to_toml(inner)}" for name, inner in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_to_toml(item) for item in value) + "]"
    if isinstance(value, float | int):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
