"""Check a block without running it: Python is compiled, commands are parsed by the real parser."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from blocks import Block, commands

ROOT = Path(__file__).resolve().parents[2]
OTHER_PROGRAMS = (
    *("cat", "cd", "docker", "export", "git", "head", "ls", "mlflow", "openssl", "printf"),
    *("sbatch", "seq", "source", "tensorboard"),
)
"""Commands that are not ours to check."""


def problems(block: Block) -> list[str]:
    """What is wrong with a block; empty where nothing is."""
    if block.language == "python":
        return [*_python_problems(block.setup), *_python_problems(block.code)]
    if block.language == "sh":
        return [problem for line in commands(block.code) for problem in command_problems(line)]
    if not block.language:  # no language is given: commands may be among the lines
        lines = [line for line in commands(block.code) if line.startswith("expunge ")]
        return [problem for line in lines for problem in command_problems(line)]
    if block.language == "toml":
        try:
            tomllib.loads(block.code)
        except tomllib.TOMLDecodeError as error:
            return [str(error)]
    return []


def command_problems(line: str) -> list[str]:
    """What is wrong with one command line."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return [f"{line!r}: {error}"]
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # settings of the environment
        words = words[1:]
    for stop in ("&&", "||", "|", ">", ";"):
        if stop in words:
            cut = words.index(stop)
            rest = words[cut + 1 :] if stop in ("&&", "||", ";") else []
            return [
                *command_problems(shlex.join(words[:cut])),
                *(command_problems(shlex.join(rest)) if rest else []),
            ]
    if not words:
        return []
    program, *rest = words
    program = program.removeprefix(".venv/bin/")
    if program in ("python", "torchrun", "python3.11") and "-m" in rest:
        module = rest.index("-m") + 1
        program, rest = rest[module], rest[module + 1 :]
    match program:
        case "expunge":
            return _expunge_problems(rest)
        case "make":
            missing = [word for word in rest if "=" not in word and word not in _targets()]
            return [f"there is no target {word!r} in the Makefile" for word in missing]
        case "pip":
            wanted = re.findall(r"(?:expunge|\.)\[([\w,]+)\]", line)
            extras = [name for found in wanted for name in found.split(",")]
            return [f"there is no extra {name!r}" for name in extras if name not in _extras()]
        case "python" | "bash" | "python3.11":
            script = next((word for word in rest if not word.startswith("-")), "")
            return [] if (ROOT / script).exists() else [f"there is no file {script!r}"]
        case "venv" | "pytest" | "build":
            return []
    return [] if program in OTHER_PROGRAMS else [f"unknown program {program!r}"]


def inline_problems(text: str) -> list[str]:
    """What is wrong with commands in the running text: their names and options have to exist."""
    found = []
    for code in re.findall(r"(?<!`)`(expunge [^`\n]+)`(?!`)", text):
        words = code.replace("…", "").replace("...", "").split()[1:]
        command: Any = _app()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words[0]]
            words = words[1:]
        if command is _app() and words[:1] == ["COMMAND"]:
            continue
        if command is _app() and words and not words[0].startswith("-"):
            found.append(f"`{code}`: there is no command {words[0]!r}")
            continue
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        known |= {"--help", "-h"}
        used = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
        found += [f"`{code}`: there is no option {each}" for each in used if each not in known]
    return found


def _python_problems(code: str) -> list[str]:
    """Syntax errors, and names of the package that do not exist."""
    import expunge

    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return [f"not Python: {error}"]
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "expunge"
    }
    return [f"there is no expunge.{name}" for name in sorted(used) if not hasattr(expunge, name)]


def _expunge_problems(words: list[str]) -> list[str]:
    """What the command line itself says about its arguments."""
    command, path = _app(), ["expunge"]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        path.append(words[0])
        words = words[1:]
    if hasattr(command, "commands"):
        options = {"--help", "-h", "--version"}
        return [] if words and words[0] in options else [f"`{' '.join(path)}` has no {words[:1]}"]
    if {"--help", "-h"} & {*words}:
        return []
    try:
        command.make_context(" ".join(path), list(words))
    except Exception as error:
        return [f"`{' '.join((*path, *words))}`: {error}"]
    return []


@cache
def _app() -> Any:
    from typer.main import get_command

    from expunge.cli._main import build_app

    return get_command(build_app(None))


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@cache
def _extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])
