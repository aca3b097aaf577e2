"""The options of an unlearning procedure as options of a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import typer

from expunge._options import Option
from expunge.cli._options import complete_data, complete_model, complete_names
from expunge.engine import PLAIN_OPTIONS
from expunge.methods import METHODS
from expunge.update import ADDONS, AGGREGATES, MOMENTS

COMPLETE: dict[str, Callable[..., Any]] = {
    "method": complete_names(METHODS),
    "addon": complete_names(ADDONS),
    "aggregate": complete_names(AGGREGATES),
    "moments": complete_names(MOMENTS),
    "model": complete_model,
    "data": complete_data,
}
"""What a shell completes the values of some options with."""
FLAGS = {"out": "-o"}


def takes_procedure_options(
    parameter: str,
    *,
    options: Sequence[Option] = PLAIN_OPTIONS,
    without: Sequence[str] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each of a procedure's ``options``, in place of ``parameter``.

    The command gets them in ``parameter``: a dict of the plain values, by name; None is what was
    not given, for the method or a file to decide. ``without`` names options that the command does
    not offer, or declares itself. ``defaults`` are what the help says where the command has other
    defaults.
    """
    offered = [each for each in options if each.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for given in inspect.signature(command).parameters.values():
            if given.name == parameter:
                parameters += [_as_parameter(each, defaults) for each in offered]
            else:
                parameters.append(
                    given.replace(annotation=hints[given.name], kind=given.KEYWORD_ONLY)
                )

        @functools.wraps(command)
        def call(**arguments: Any) -> None:
            values = {each.name: arguments.pop(each.name) for each in offered}
            command(**arguments, **{parameter: values})

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        del call.__wrapped__  # typer would read the signature of the command itself
        return call

    return decorate


def _as_parameter(option: Option, defaults: Mapping[str, str]) -> inspect.Parameter:
    text = option.help
    if option.default is not None and option.type is not bool:
        text = f"{text.rstrip('.')} (default: {defaults.get(option.name, option.default)})."
    name = f"--{option.name.replace('_', '-')}"
    flag = option.flag or FLAGS.get(option.name)
    flags = (name, flag) if flag else (name,)
    kind = option.plain_type | None
    complete = COMPLETE.get(option.name)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind, typer.Option(*flags, help=text, autocompletion=complete)],
    )
