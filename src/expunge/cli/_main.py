"""The table of commands, and what happens when one of them fails."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from rich.markup import escape

from expunge import __version__
from expunge._errors import ExpungeError, InvalidInput
from expunge._lazy import read_docstring
from expunge.cli._output import ExitCode, SafeConsole, printable, show_error
from expunge.distributed import launched_rank, launched_size

COMMANDS = {
    "demo": "expunge.cli._demo:demo_command",
    "train": "expunge.cli._train:train_command",
    "retrain": "expunge.cli._train:retrain_command",
    "unlearn": "expunge.cli._unlearn:unlearn_command",
    "evaluate": "expunge.cli._evaluate:evaluate_command",
    "audit": "expunge.cli._audit:audit_command",
    "forget": "expunge.cli._forget:forget_command",
    "verify": "expunge.cli._verify:verify_command",
    "ledger": "expunge.cli._verify:ledger_command",
    "purge": "expunge.cli._verify:purge_command",
    "list": "expunge.cli._list:list_command",
}
BENCH_COMMANDS = {
    "plan": "expunge.cli._bench:plan_command",
    "run": "expunge.cli._bench:run_command",
    "status": "expunge.cli._bench:status_command",
    "table": "expunge.cli._bench_read:table_command",
    "figure": "expunge.cli._bench_read:figure_command",
    "claims": "expunge.cli._bench_read:claims_command",
    "show": "expunge.cli._bench_read:show_command",
}
"""Of ``expunge bench``."""

COMPLETION = "_EXPUNGE_COMPLETE"
"""Set by the shell that asks for completions."""
HELP = {"help_option_names": ["-h", "--help"]}
_SAID_BY_TYPER = (typer.BadParameter.__mro__[1], typer.Abort, BrokenPipeError)
"""Wrong usage, a question without an answer, a reader that is gone."""


def build_app(words: Sequence[str] | None = None) -> typer.Typer:
    """The command line; given its ``words``, only as much of it as they need, which is faster."""
    first, second, *_ = [*(words or ()), "", ""]
    app = typer.Typer(
        name="expunge",
        help="Take the influence of chosen training data out of a trained model, and show how well "
        "it worked.",
        epilog="Start with:  expunge demo",
        no_args_is_help=True,
        add_completion=not first or first.startswith("-"),
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings=HELP,
    )
    app.callback()(_root)
    if first != "bench":
        _register(app, COMMANDS, None if words is None else first)
    if first not in COMMANDS:
        app.add_typer(_build_bench(None if words is None else second))
    return app


def _build_bench(word: str | None) -> typer.Typer:
    """``expunge bench``, with as much of it as ``word`` needs."""
    from expunge.bench.protocols import BUILT_IN

    bench = typer.Typer(
        name="bench",
        help="Run a whole protocol of experiments, and read its results.\n\n"
        f"A protocol is a small TOML file; {', '.join(BUILT_IN[:-1])} and {BUILT_IN[-1]} come "
        "with the package. Every trained model and every run is a stage in a store and is "
        "computed only once.",
        epilog="Start with:  expunge bench run demo",
        no_args_is_help=True,
        context_settings=HELP,
    )
    _register(bench, BENCH_COMMANDS, word)
    return bench


def _register(app: typer.Typer, commands: Mapping[str, str], word: str | None) -> None:
    """Add the command that ``word`` names; if none, the summaries of all; if None, all."""
    if word is not None and word in commands:
        commands = {word: commands[word]}
        word = None
    for name, path in commands.items():
        text = rewrap(read_docstring(path))
        app.command(name, help=text)(_summary if word is not None else resolve_name(path))


def _summary() -> None:
    """Stand in for a command of which only the help is shown: it is not imported."""
    raise AssertionError("the command should have been built")


def rewrap(text: str) -> str:
    """A docstring with its paragraphs on one line each, for the terminal to wrap.

    >>> rewrap("First\\nparagraph.\\n\\nSecond.")
    'First paragraph.\\n\\nSecond.'
    """
    return "\n\n".join(" ".join(part.split("\n")) for part in text.split("\n\n"))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"expunge {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if launched_size() > 1 and context.invoked_subcommand != "unlearn":
        raise InvalidInput(
            "Under torchrun, only `unlearn` divides its work among processes; start this command "
            f"without it. (got {context.invoked_subcommand})"
        )


def main() -> None:
    """Entry point: every ending, wanted or not, becomes one of :class:`ExitCode`."""
    if COMPLETION in os.environ:
        build_app()()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal lacks is not an error
            stream.reconfigure(errors="replace")
    show, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        for word in sys.argv[1:]:
            if word != printable(word):
                raise InvalidInput(
                    f"Arguments should hold no control characters. (got {word!a}) If a file "
                    "is named so, rename it."
                )
        build_app(sys.argv[1:])()
    except BaseException as error:
        sys.exit(_report(error))
    finally:
        warnings.showwarning = show


def _report(error: BaseException) -> int:
    """The exit code for what ended a command; says what it was, unless that has been said."""
    if isinstance(error, ExpungeError):
        show_error(("Wrong usage" if isinstance(error, InvalidInput) else "Failed") + _who(), error)
        return ExitCode.ERROR
    ending = error.__context__ if isinstance(error, SystemExit) else error
    if isinstance(ending, KeyboardInterrupt) or (
        isinstance(ending, typer.Exit) and ending.exit_code == ExitCode.INTERRUPTED
    ):
        SafeConsole(stderr=True).print("Interrupted. Run the same command again to resume.")
        return ExitCode.INTERRUPTED
    if isinstance(ending, typer.Exit):
        return ending.exit_code
    if isinstance(ending, _SAID_BY_TYPER) and isinstance(error, SystemExit):
        return ExitCode.ERROR
    # Not on purpose, or by code of the user: a SystemExit(0) of theirs says nothing of success.
    SafeConsole(stderr=True).print(
        "".join(traceback.format_exception(error)), markup=False, highlight=False, soft_wrap=True
    )
    show_error(
        f"Failed{_who()}",
        f"{type(error).__name__}: {error}\nThis is a fault in expunge, or in code that it was told "
        "to call: the end of the traceback shows which.",
    )
    return ExitCode.ERROR


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Say what a warning says, without the line of code that it comes from."""
    SafeConsole(stderr=True).print(f"[yellow]Warning:[/] {escape(str(message))}", highlight=False)


def _who() -> str:
    """Which process speaks, where it is not the first of several."""
    return f" (process {launched_rank()})" if launched_rank() else ""
