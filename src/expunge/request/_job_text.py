"""A job written down, so that a request can be repeated from its bundle."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expunge._workflows import absolute_spec
from expunge.request._job import Job
from expunge.request.subject._factory import is_factory

IDS, JOB = "ids.json", "job.toml"
NEVER = {"model", "weights", "data", "ids", "out"}
"""What the Python entrance takes beside the settings."""
CARD = {"data_limit", "data_seed", "val_fraction"}
"""What a card may say otherwise than the defaults."""


def as_toml(job: Job) -> str:
    """A job file with every setting; paths are absolute, but for the ids, which lie beside it."""
    unsaid = {name for name in CARD if name not in job.model_fields_set}
    values = job.model_dump(exclude_none=True, exclude=unsaid) | {"ids": IDS}
    for name in ("weights", "records", "out"):
        if name in values:
            values[name] = str(Path(values[name]).expanduser().resolve())
    if values["data"] and not is_factory(values["data"]):
        values["data"] = absolute_spec(values["data"])
    options = values.pop("model_options")
    lines = ["# The settings of this request. To repeat it:  expunge forget --job FILE --out NEW"]
    lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
    if options:
        lines += ["", "[model_options]", *(f"{_key(k)} = {_toml(v)}" for k, v in options.items())]
    return "\n".join(lines) + "\n"


def commands_of(job: Job, number: int, *, in_memory: bool) -> list[str]:
    """What repeats the requests up to this one in a new folder, and what checks them."""
    root = shlex.quote(str(job.out))
    check = f"expunge verify {root}"
    if not in_memory:
        jobs = (f"{root}/{k:04d}/{JOB}" for k in range(1, number + 1))
        return [*(f"expunge forget --job {path} --out again" for path in jobs), check]
    given = job.model_dump(mode="json", exclude_defaults=True, exclude=NEVER)
    settings = "".join(f", {name}={value!r}" for name, value in given.items())
    listed = f"json.load(open({f'{job.out}/{number:04d}/{IDS}'!r}))"
    return [f'expunge.forget(model=model, data=data, ids={listed}, out="again"{settings})', check]


def digest_config(config: Mapping[str, Any], *words: str) -> str:
    """A hash of plain values and of what goes with them."""
    text = json.dumps(config, sort_keys=True, default=str) + "/".join(words)
    return hashlib.sha256(text.encode()).hexdigest()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    if isinstance(value, float | int):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: Any) -> str:
    return json.dumps(str(name), ensure_ascii=False)
