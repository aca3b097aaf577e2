"""Options that several commands share, from declarations too, and names that a shell completes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import typer

from expunge._files import require_file
from expunge._kinds import SEEDS
from expunge._options import Option
from expunge._registry import Registry
from expunge.data import DATASETS, SCENARIOS, find_data, parse_scenario
from expunge.engine import PLAIN_OPTIONS
from expunge.methods import METHODS
from expunge.models import MODELS, read_model_spec
from expunge.update import ADDONS, AGGREGATES, MOMENTS


def complete_names(registry: Registry[Any]) -> Callable[[str], list[tuple[str, str]]]:
    """Complete the names and short names of a registry, each with a line about it."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        spellings = ((word, name) for name in registry for word in (name, registry.label(name)))
        return [
            (word, registry.summary(name))
            for word, name in dict(spellings).items()
            if word.lower().startswith(incomplete.lower())
        ]

    return complete


complete_data = complete_names(DATASETS)
complete_model = complete_names(MODELS)
complete_scenario = complete_names(SCENARIOS)
DATA = "digits, cifar10:PATH, svhn:PATH, folder:PATH, npz:FILE, csv:FILE, parquet:FILE, hf:PATH"
DATA += " or package.module:factory; see `expunge list datasets`."
MODEL = "small-cnn, resnet18, vgg16, mlp, text-bag, hf:PATH or package.module:factory"

Data = Annotated[str, typer.Option(help=DATA, autocompletion=complete_data)]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="File for the weights: .safetensors or .pt.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")]
Initial = Annotated[
    Path, typer.Argument(help="The initial model: from `expunge train`, or .pt or .safetensors.")
]
Scenario = Annotated[
    str,
    typer.Option(
        "--forget",
        "-f",
        help="What to forget: random:0.1, class:3:0.4 (40 % of class 3) or ids:FILE.",
        autocompletion=complete_scenario,
    ),
]
KnownScenario = Annotated[
    str | None,
    typer.Option(
        "--forget",
        "-f",
        help="What was to be forgotten, if the weights do not say: random:0.1, ids:FILE, …",
        autocompletion=complete_scenario,
    ),
]


def seed_option(text: str) -> Any:
    """An option for a seed; its range is checked here, as in help it would fill the column."""

    def check(value: int | None) -> int | None:
        if value is not None and value not in SEEDS:
            raise typer.BadParameter("It should be a whole number in 0..2**63-1.")
        return value

    return typer.Option(help=text, callback=check)


ScenarioSeed = Annotated[int, seed_option("Seed of the examples that a scenario draws.")]
MovedData = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Where the data are, if the weights do not say, or if they have moved.",
        autocompletion=complete_data,
    ),
]
ForeignModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help=f"What the weights are of, if they do not say: {MODEL}.",
        autocompletion=complete_model,
    ),
]


def check_inputs(
    *files: Path | None,
    forget: str | None = None,
    model: str | None = None,
    data: str | None = None,
) -> None:
    """Refuse what cannot be meant, before anything heavy is imported; None is what is not given."""
    for path in files:
        if path is not None:
            require_file(path)
    if forget is not None:
        parse_scenario(forget)
    if model is not None:
        read_model_spec(model)
    if data is not None:
        find_data(data)


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


def expand_options(
    parameter: str,
    *,
    options: Sequence[Option] = PLAIN_OPTIONS,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each of ``options``, in place of its ``parameter``.

    The command gets them in ``parameter``: a dict of the plain values, by name; None is what was
    not given, for the method or a file to decide. ``defaults`` are what the help says where the
    command has other defaults. The help lists them in panels: their sections, or ``parameter``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for given in inspect.signature(command).parameters.values():
            if given.name == parameter:
                panel = parameter.capitalize()
                parameters += [_as_parameter(each, defaults, panel) for each in options]
            else:
                parameters.append(
                    given.replace(annotation=hints[given.name], kind=given.KEYWORD_ONLY)
                )

        @functools.wraps(command)
        def call(**arguments: Any) -> None:
            values = {each.name: arguments.pop(each.name) for each in options}
            command(**arguments, **{parameter: values})

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        del call.__wrapped__  # typer would read the signature of the command itself
        return call

    return decorate


def _as_parameter(option: Option, defaults: Mapping[str, str], panel: str) -> inspect.Parameter:
    text = option.text
    if option.default is not None and option.type is not bool:
        text = f"{text.rstrip('.')} (default: {defaults.get(option.name, option.default)})."
    name = f"--{option.name.replace('_', '-')}"
    flag = option.flag or FLAGS.get(option.name)
    flags = (name, flag) if flag else (name,)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            option.plain_type | None,
            typer.Option(
                *flags,
                help=text,
                metavar="NAME" if option.choices else None,  # all of them would fill the column
                autocompletion=COMPLETE.get(option.name),
                rich_help_panel=option.section or panel,
            ),
        ],
    )
