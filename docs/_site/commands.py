"""The reference page of the command line, from the table of commands and their signatures."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, ParameterInfo

from docstrings import in_table
from expunge.cli._main import BENCH_COMMANDS, COMMANDS
from expunge.cli._output import ExitCode

MEANINGS = {
    ExitCode.DONE: "Done. `forget`: achieved. `verify`: everything was checked, and holds; with "
    "`--quick`: all hashes and signatures hold.",
    ExitCode.NO: "Done, and the answer is no. `forget`: not achieved. `verify`: something does "
    "not hold. `ledger --find`: no request names the id.",
    ExitCode.ERROR: "An error, whatever it is: wrong usage, data that cannot be used, a full disk, "
    "a fault in expunge or in code that it was told to call.",
    ExitCode.INCONCLUSIVE: "`forget`: there are too few examples to tell.",
    ExitCode.NOT_VERIFIED: "`verify`: nothing is wrong, but numbers were not recomputed.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C; the same command resumes.",
}
"""Of every exit code."""
TYPES = {int: "whole number", float: "number", str: "text", Path: "path", bool: ""}


def command_table() -> dict[str, Callable[..., None]]:
    """Every command with its function."""
    bench = {f"bench {name}": path for name, path in BENCH_COMMANDS.items()}
    return {name: resolve_name(path) for name, path in (COMMANDS | bench).items()}


def command_page() -> str:
    """One section per command: what it does, its arguments and options, an example."""
    table = command_table()
    lines = [
        "# Commands",
        "",
        "Every command of `expunge`, as the command itself describes it with `--help`. Every long "
        "command can be killed: running it again resumes it.",
        "",
        "| exit code | what it means |",
        "| ---: | --- |",
        *(f"| {code:d} | {meaning} |" for code, meaning in MEANINGS.items()),
        "",
        "| command | what it does |",
        "| --- | --- |",
        *(
            f"| [`expunge {name}`](#{anchor(name)}) | {in_table(_summary(function))} |"
            for name, function in table.items()
        ),
        "",
    ]
    for name, function in table.items():
        lines += [*_section(name, function), ""]
    return "\n".join(lines) + "\n"


def anchor(name: str) -> str:
    """The anchor of a command's section."""
    return f"expunge-{name.replace(' ', '-')}"


def _summary(function: Callable[..., None]) -> str:
    return (inspect.getdoc(function) or "").split("\n\n")[0]


def _section(name: str, function: Callable[..., None]) -> list[str]:
    text = inspect.getdoc(function) or ""
    lines = [f"## expunge {name} {{ #{anchor(name)} }}", ""]
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("Example:"):
            example = " ".join(paragraph.removeprefix("Example:").split())
            lines += ["```sh", example, "```", ""]
        else:
            lines += [re.sub(r"^(.*?):  (\S.*)$", r"\1: `\2`", " ".join(paragraph.split(" ")))]
            lines += [""]
    arguments, options = [], []
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind, info = _annotated(hints.get(parameter.name, parameter.annotation))
        if info is None or getattr(info, "hidden", False):
            continue
        rows = arguments if isinstance(info, ArgumentInfo) else options
        rows.append(_row(parameter, kind, info))
    for head, rows in (("argument", arguments), ("option", options)):
        if rows:
            lines += [f"| {head} | value | default | what it is |", "| --- | --- | --- | --- |"]
            lines += [*rows, ""]
    return lines


def _annotated(hint: Any) -> tuple[Any, ParameterInfo | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *notes = get_args(hint)
    return kind, next((note for note in notes if isinstance(note, ParameterInfo)), None)


def _row(parameter: inspect.Parameter, kind: Any, info: ParameterInfo) -> str:
    # Of `typer.Option("--out", "-o")` the first word is kept as a default.
    words = (info.default, *(info.param_decls or ()))
    flags = [each for each in words if isinstance(each, str) and each.startswith("-")]
    name = f"--{parameter.name.replace('_', '-')}"
    shown = parameter.name.upper() if isinstance(info, ArgumentInfo) else ", ".join(flags or [name])
    default = parameter.default
    if default is inspect.Parameter.empty:
        text = "required"
    elif default is None or default is False:
        text = ""
    else:
        text = f"`{default}`"
    cells = (f"`{shown}`", _type_name(kind, info), text, in_table(str(info.help or "")))
    return f"| {' | '.join(cells)} |"


def _type_name(kind: Any, info: ParameterInfo) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is list:
        return f"{_type_name(get_args(kind)[0], info)}, repeatable"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{each}`" for each in get_args(kind))
    name = TYPES.get(kind, getattr(kind, "__name__", str(kind)))
    low, high = getattr(info, "min", None), getattr(info, "max", None)
    if low is not None and (high is None or high >= 2**31):
        name += f", at least {low:g}"
    elif low is not None:
        name += f", {low:g} to {high:g}"
    return name
