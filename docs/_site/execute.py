"""Run the blocks of the pages, as ``make docs`` does, and keep what they print for the site.

    python docs/_site/execute.py [PAGE ...]

Each page runs in a process and an empty folder of its own. Without names, pages run whose text, or
the package, has changed since they last ran. An error ends with exit code 1, and names the page and
the line.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from blocks import RUN, Block, commands, read_blocks
from notebooks import notebook_of, read_code
from pages import CHECKED_ONLY, ROOT, name_of, pages

OUTPUTS = ROOT / "build" / "docs-output"
"""What the blocks printed and drew, for the site."""
SHELL = ("cat", "head", "ls", "printf", "seq")
"""Programs that blocks may use besides ``expunge``."""
VERDICTS = (1, 3)
"""Exit codes of ``expunge forget`` that are not errors."""
WIDTH = "78"
IMPORTS = ("expunge.cli._main", "matplotlib.pyplot", "scipy.stats", "sklearn.svm", "torch._dynamo")
"""What most pages need, and takes long to import."""


def runnable(page: Path) -> list[Block]:
    """The blocks of a page that are run."""
    if name_of(page) in CHECKED_ONLY:
        return []
    return [each for each in read_blocks(page) if each.language in RUN and not each.reason]


def kept_output(page: Path) -> Path:
    """Where the output of a page is kept."""
    return OUTPUTS / name_of(page).replace("/", "--").removesuffix(".md")


def digest(page: Path) -> str:
    """What outputs belong to: the text of the page, and of its notebook."""
    notebook = notebook_of(page)
    beside = b"" if notebook is None else notebook.read_bytes()
    return hashlib.sha256(page.read_bytes() + beside).hexdigest()


def as_in_notebook(page: Path, found: list[Block]) -> list[Block]:
    """The blocks with the code of the page's notebook, if there is one."""
    if (notebook := notebook_of(page)) is None:
        return found
    cells = read_code(notebook)
    if [block.language for block in found] != [language for language, _ in cells]:
        raise ValueError(f"{notebook} is not up to date: run docs/_site/notebooks.py.")
    return [replace(b, code=code) for b, (_, code) in zip(found, cells, strict=True)]


def run_page(page: Path) -> None:
    """Run the blocks of a page here, in the current folder, and keep their output.

    Of a page with a notebook, the cells of the notebook are run.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    kept = kept_output(page)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    rows = []
    for block in as_in_notebook(page, runnable(page)):
        before = set(Path.cwd().glob("*.*g"))
        printed, html = io.StringIO(), ""
        try:
            exec(compile(block.setup, f"setup of {block.place}", "exec"), namespace)
            with contextlib.redirect_stdout(printed):
                if block.language == "python":
                    html = _run_python(block, namespace)
                else:
                    for line in commands(block.code):
                        run_command(line)
        except BaseException:
            print(f"{block.place}:\n{printed.getvalue()}", file=sys.stderr)
            raise
        drawn = sorted({*Path.cwd().glob("*.*g")} - before)
        for picture in drawn:
            shutil.copy(picture, kept / picture.name)
        names = [picture.name for picture in drawn]
        row = {"line": block.line, "text": printed.getvalue(), "html": html, "images": names}
        rows.append(row)
    (kept / "output.json").write_text(
        json.dumps({"digest": digest(page), "source": source_digest(), "blocks": rows})
    )


def _run_python(block: Block, namespace: dict[str, Any]) -> str:
    """Run a block; where it ends in an expression, print its value, as a prompt would.

    What a notebook would show of it as HTML is returned instead.
    """
    tree = ast.parse(block.code, filename=block.place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    ast.increment_lineno(tree, block.line - 1)
    exec(compile(tree, str(block.page), "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), str(block.page), "eval"), namespace)
        if hasattr(value, "_repr_html_"):
            return str(value._repr_html_())
        if value is not None:
            print(value)
    return ""


def run_command(line: str) -> None:
    """Run a command: one of this package in this process, a few of the shell's."""
    from expunge.cli import main

    words = shlex.split(line)
    if words[0] in SHELL:
        print(subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout)
        return
    if words[0] != "expunge":
        raise ValueError(f"{words[0]} is not run here; mark the block as not run. (got {line!r})")
    arguments = sys.argv
    sys.argv = words
    try:
        main()
    except SystemExit as ending:
        accepted = (0, None, *(VERDICTS if words[1] == "forget" else ()))
        if ending.code not in accepted:
            raise RuntimeError(f"`{line}` exited with {ending.code}") from ending
    finally:
        sys.argv = arguments


def _in_a_folder(page: Path, log: Path) -> None:
    """Run a page in an empty folder; what it writes to standard error goes to ``log``."""
    with tempfile.TemporaryDirectory() as folder, log.open("w") as file:
        os.chdir(folder)
        os.environ |= {"COLUMNS": WIDTH, "NO_COLOR": "1", "EXPUNGE_CACHE": f"{folder}/.cache"}
        os.environ |= {"MPLBACKEND": "agg"}
        os.dup2(file.fileno(), 2)
        try:
            run_page(page)
        except BaseException:
            traceback.print_exc()
            raise SystemExit(1) from None
        finally:
            os.chdir(ROOT)


def source_digest() -> str:
    """What every output depends on besides its page: the package, and what runs the pages."""
    files = [*(ROOT / "src").rglob("*.*"), *Path(__file__).parent.glob("*.py")]
    sources = sorted(each for each in files if each.suffix in (".py", ".toml", ".html", ".js"))
    return hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()


def is_current(page: Path, source: str) -> bool:
    """Whether the output of a page was made from its text and from this source."""
    kept = kept_output(page) / "output.json"
    if not kept.is_file():
        return False
    output = json.loads(kept.read_text())
    return (output["digest"], output.get("source")) == (digest(page), source)


def execute(chosen: list[Path]) -> bool:
    """Run pages, as many at a time as there are cores; whether all went well."""
    waiting = [page for page in chosen if runnable(page)]
    if not waiting:
        return True
    # Imported once, for all pages; nothing is computed before they fork.
    import torch

    for module in IMPORTS:
        importlib.import_module(module)
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")
    running: dict[int, tuple[Any, Path, Path]] = {}
    well = True
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            page, log = waiting.pop(0), Path(tempfile.mkstemp(suffix=".log")[1])
            process = fork.Process(target=_in_a_folder, args=(page, log))
            process.start()
            running[process.sentinel] = (process, page, log)
        for sentinel in multiprocessing.connection.wait(list(running)):
            well &= _finish(*running.pop(sentinel))  # type: ignore[call-overload]
    return well


def _finish(process: Any, page: Path, log: Path) -> bool:
    """Say how a page went, and how much processor time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    state = "FAILED" if process.exitcode else "ok"
    print(f"{state:>6}  {seconds:5.1f} s  {name_of(page)}", flush=True)
    if process.exitcode:
        print(re.sub(r"^", "        ", log.read_text(), flags=re.MULTILINE))
    log.unlink()
    return not process.exitcode


if __name__ == "__main__":
    named = [Path(word).resolve() for word in sys.argv[1:]]
    source = source_digest()
    changed = [page for page in pages() if not is_current(page, source)]
    sys.exit(0 if execute(named or changed) else 1)
