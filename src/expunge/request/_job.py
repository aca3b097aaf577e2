"""A deletion request as plain values, in a TOML file or in Python."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from expunge._errors import DataError, InvalidInput
from expunge._toml_lines import line_of
from expunge.data import DATASETS
from expunge.methods import METHODS, BatchNormPolicy
from expunge.request._job_template import TEMPLATE as TEMPLATE
from expunge.request._job_template import job_template as job_template
from expunge.request.subject._factory import is_factory
from expunge.update import ADDONS, MOMENTS, Addon

Count = Annotated[int, pydantic.Field(ge=1, strict=True)]
Seed = Annotated[int, pydantic.Field(ge=0, strict=True)]
Positive = Annotated[float, pydantic.Field(gt=0, strict=True, allow_inf_nan=False)]
Share = Annotated[float, pydantic.Field(gt=0, lt=1, strict=True)]
Switch = Annotated[bool, pydantic.Field(strict=True)]
Include = Literal["none", "exact", "near"]
"""Which copies of forgotten records are forgotten along; ``near`` takes the exact ones too."""


class Job(pydantic.BaseModel):
    """What should be forgotten from which model, and how.

    Args:
        model: a built-in name or ``package.module:factory``; empty if the weights have a card.
        model_options: keyword arguments of the model or of its factory.
        weights: ``.safetensors``, or a ``.pt`` state dict.
        data: a built-in data set (``npz:FILE``, ``folder:PATH``, …) or ``package.module:factory``;
            empty if the weights have a card that names them.
        val_fraction: size of val against train, where the data have no val of their own.
        val_from: what that val is taken out of. ``test`` leaves the training records, and so their
            indices, as they are; ``train`` is for models that were trained without it.
        ids: what to forget: indices, names, or values of ``id_column`` of ``records``.
        include_duplicates: which copies in the training data are forgotten along: ``none``, the
            ``exact`` ones, or the ``near`` ones too, some of which chance may have found.
        floor: points of val accuracy that may be lost.
        level: confidence level of intervals.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str = ""
    model_options: dict[str, Any] = {}
    weights: Path
    data: str = ""
    data_limit: Count | None = None
    data_seed: Seed = 0
    val_fraction: Share = 0.1
    val_from: Literal["test", "train"] = "test"
    ids: Path | None = None
    id_column: str | None = None
    records: Path | None = None
    out: Path
    method: str = "SRL"
    addon: str = "FOCUS"
    moments: str | None = None
    alpha: Positive = 0.05
    lr: Positive = 1e-4
    batch_size: Count = 256
    max_epochs: Count = 30
    floor: Annotated[float, pydantic.Field(ge=0, le=100, strict=True)] = 2.0
    level: Share = 0.95
    include_duplicates: Include = "none"
    augment: Switch = False
    batchnorm: BatchNormPolicy = "published"
    seed: Seed = 0
    device: str = "auto"

    @pydantic.field_validator("include_duplicates", mode="before")
    @classmethod
    def _yes_or_no(cls, value: object) -> object:
        return {True: "exact", False: "none"}.get(value, value) if type(value) is bool else value

    @pydantic.field_validator("method")
    @classmethod
    def _known_method(cls, name: str) -> str:
        if METHODS.name(name) == "retrain":
            raise InvalidInput("to train anew without the data, use `expunge retrain`")
        return name

    @pydantic.field_validator("addon")
    @classmethod
    def _known_addon(cls, name: str) -> str:
        ADDONS.name(name)
        return name

    @pydantic.field_validator("moments")
    @classmethod
    def _known_moments(cls, name: str | None) -> str | None:
        if name is not None:
            MOMENTS.name(name)
        return name

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Job:
        if self.moments is not None and ADDONS.resolve(self.addon).statistics is None:
            raise InvalidInput(f"`moments` has no use with the add-on {self.addon}")
        if self.id_column is not None and self.records is None:
            raise InvalidInput("`id_column` is a column of `records`, which should be given too")
        return self

    def addon_part(self) -> Addon:
        """The add-on, with its moments."""
        kind: Any = ADDONS[self.addon]
        addon: Addon = kind() if self.moments is None else kind(moments=self.moments)
        return addon


def make_job(**values: Any) -> Job:
    """A job; a value that cannot be used is an :class:`InvalidInput` that names it."""
    try:
        return Job(**values)
    except pydantic.ValidationError as error:
        raise InvalidInput(_message(error)[1]) from error


def load_job(path: str | Path) -> Job:
    """The job in a TOML file. Relative paths in it are relative to the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        given = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The job file {path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}.") from error
    try:
        return Job.model_validate(_placed(given, path.parent))
    except pydantic.ValidationError as error:
        where, words = _message(error)
        raise InvalidInput(f"{path}, line {line_of(text, where)}: {words}") from error


def _message(error: pydantic.ValidationError) -> tuple[list[str | int], str]:
    """Where the first violation is, and what it is."""
    first = error.errors()[0]
    where = list(first["loc"])
    name = ".".join(str(part) for part in where)
    if first["type"] == "extra_forbidden":
        return where, f"there is no key {name!r}."
    if first["type"] == "missing":
        return where, f"`{name}` should be given."
    words = first["msg"].removeprefix("Value error, ").rstrip(".")
    if not where:
        return where, f"{words[0].upper()}{words[1:]}."
    return where, f"{name}: {words}. (got {first['input']!r})"


def _placed(given: dict[str, Any], base: Path) -> dict[str, Any]:
    """``given`` with its paths taken from ``base``."""
    placed = dict(given)
    for name in ("weights", "ids", "records", "out"):
        if isinstance(value := given.get(name), str):
            placed[name] = base / Path(value).expanduser()
    data = given.get("data")
    if isinstance(data, str) and data and not is_factory(data):
        kind, colon, inner = data.partition(":")
        if kind in DATASETS:
            placed["data"] = f"{kind}:{base / Path(inner).expanduser()}" if inner else data
        elif not colon and ("/" in data or data.endswith(".npz") or (base / data).exists()):
            placed["data"] = str(base / Path(data).expanduser())
    return placed
