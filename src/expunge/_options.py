"""Options that are declared once: for Python, the command line and TOML files alike.

A dataclass declares its options with :func:`option`; whatever offers them to a user (a command, a
job file, a protocol) asks :func:`options_of` for their types, defaults, ranges and help.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from expunge._kinds import NUMBERS, check_kind

if TYPE_CHECKING:
    import pydantic

    Model = TypeVar("Model", bound=pydantic.BaseModel)

BatchNormPolicy = Literal["published", "retain-only", "frozen"]
"""``published``: every batch moves the running statistics; ``retain-only``: retain batches do;
``frozen``: none does."""
Precision = Literal["fp32", "bf16"]
"""``bf16``: autocast around the model. Weights, losses and gradients are float32."""
Schedule = Literal["step", "constant", "linear", "one-cycle"]
"""``step``: a tenth of the rate after 91 % of the run. ``linear``: it falls to 0 over the run.
``one-cycle``: it rises first, for 30 % of it."""
AugmentSplits = Literal["both", "retain", "none"]
"""Which batches an augmentation changes: those of forget and retain, or of retain alone."""
RetainOrder = Literal["continued", "released"]
"""``released``: what the paper's released code does. Retain data are shuffled anew at every epoch,
instead of going on where they were, and the augmentation of images ends with the first epoch."""


@dataclass(frozen=True)
class Option:
    """One option, in the plain values that a command line or a TOML file can hold.

    Args:
        type: ``str``, ``bool``, a ``Literal`` of strings, or a number with its range, such as
            :data:`~expunge._kinds.Count`.
        default: its default; None where it depends on another option.
        help: one line for ``--help`` and job files.
        flag: a short spelling on the command line, such as ``-m``.
        example: a value to show where there is no default.
        stored: another name that a protocol may have it under.
        section: the heading that help and job files list it under.
    """

    name: str
    type: Any
    default: Any
    help: str
    flag: str = ""
    example: Any = None
    stored: str = ""
    section: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a ``Literal``; empty for other types."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def text(self) -> str:
        """The help, with the values of a ``Literal``."""
        return f"{self.help} One of {', '.join(self.choices)}." if self.choices else self.help

    @property
    def plain_type(self) -> Any:
        """The type without its range."""
        return get_args(self.type)[0] if get_origin(self.type) is Annotated else self.type

    def check(self, value: Any) -> None:
        """Raise unless ``value`` is within the range, or one of the choices."""
        if value is not None or self.default is not None:
            check_kind(self.name, self.type, value)

    def read(self, text: str) -> Any:
        """The value that was written as ``text``, checked."""
        is_whole = self.plain_type is int and text.isascii() and text.lstrip("-").isdigit()
        value: Any = int(text) if is_whole else text
        self.check(value)
        return value


def option(
    default: Any,
    kind: Any,
    help: str,
    *,
    later: bool = False,
    resumable: bool = False,
    stored: str = "",
    **rest: Any,
) -> Any:
    """A field of a dataclass that is an option: see :class:`Option` for ``rest``.

    ``later``: the option is newer than files and keys that were written without it, so it is left
    out of them where it has its default. ``resumable``: a checkpoint may be continued with another
    value. ``stored``: the name that stored keys and protocols know it by, if that is another.
    """
    spec = {"type": kind, "help": help, "stored": stored, **rest}
    metadata = {"option": spec, "later": later, "resumable": resumable}
    return dataclasses.field(default=default, metadata=metadata)


def options_of(kind: Any) -> tuple[Option, ...]:
    """The options that a dataclass declares, in their order."""
    return tuple(
        Option(item.name, default=item.default, **item.metadata["option"])
        for item in dataclasses.fields(kind)
        if "option" in item.metadata
    )


def stored_as(field: dataclasses.Field[Any]) -> str:
    """The name of a field in files and keys."""
    return field.metadata.get("option", {}).get("stored") or field.name


def is_implied(field: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a later field has its default, so that files and keys leave it out."""
    return bool(field.metadata.get("later")) and value == field.default


def takes_options(options: Iterable[Option]) -> Callable[[type[Model]], type[Model]]:
    """Decorate a pydantic model: it takes ``options`` besides the fields it has."""

    def extend(model: type[Model]) -> type[Model]:
        import pydantic

        fields = {
            each.name: (_annotation(each), each.default)
            for each in options
            if each.name not in model.model_fields
        }
        made: type[Model] = pydantic.create_model(  # type: ignore[call-overload]
            model.__name__,
            __base__=model,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **fields,
        )
        return made

    return extend


def _annotation(option: Option) -> Any:
    """The type of an option for pydantic, with its range."""
    import pydantic

    kind: Any = option.plain_type
    if kind in NUMBERS:
        rules: dict[str, Any] = {"strict": True}
        for note in get_args(option.type)[1:]:
            spelled = {"[": "ge", "(": "gt", "]": "le", ")": "lt"}
            limits = zip(note.ends, (note.low, note.high), strict=True)
            rules |= {spelled[end]: limit for end, limit in limits if math.isfinite(limit)}
        if kind is float:
            rules["allow_inf_nan"] = False
        kind = Annotated[kind, pydantic.Field(**rules)]
    kind = kind if option.default is not None else kind | None
    if option.stored:
        names = pydantic.AliasChoices(option.name, option.stored)
        kind = Annotated[kind, pydantic.Field(validation_alias=names)]
    return kind
