"""For each kind of case: make the input that its line describes, and give it to the package."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

from expunge import _tensors as tensors
from expunge._errors import ExpungeError, InvalidInput
from expunge.cli import main
from expunge.cli._output import ExitCode, printable
from expunge.data import load
from expunge.data._id_file import read_ids
from tests.fuzz.api_names import names
from tests.fuzz.runner import unescape
from tests.fuzz.world import World

LONG = "x" * 300


def run_ids(text: str, folder: Path, world: World) -> Any:
    """``FILE CONTENT``, or ``pipe:FILE`` and the like."""
    name, _, content = text.partition(" ")
    special, _, plain = name.rpartition(":")
    path = folder / (LONG if special == "long" else plain)
    if special == "pipe":
        os.mkfifo(path)
    elif special == "folder":
        path.mkdir()
    elif special == "link":
        path.symlink_to(folder / "nowhere")
    elif special == "bytes":
        path.write_bytes(bytes.fromhex(content))
    elif not special:
        path.write_bytes(unescape(content).encode("utf-8", "surrogatepass"))
    return read_ids(path)


def run_files(text: str, folder: Path, world: World) -> Any:
    """``npz KEY=ARRAY …``, ``bytes NAME HEX``, or ``dir MEMBER …``, a folder of images.

    ``NAME->TARGET`` is a link, ``NAME|pipe`` a pipe.
    """
    kind, *words = text.split()
    if kind == "bytes":
        path = folder / words[0]
        path.write_bytes(bytes.fromhex("".join(words[1:])))
    elif kind == "npz":
        path = folder / "a.npz"
        arrays = {word.split("=")[0]: _array(word.split("=")[1]) for word in words}
        np.savez_compressed(path, allow_pickle=True, **arrays)
    else:
        path = _write_folder(folder / "images", words)
    return load(f"npz:{path}" if path.suffix == ".npz" else f"folder:{path}")


def _write_folder(root: Path, words: list[str]) -> Path:
    for word in words:
        name, _, special = word.replace("|pipe", "->|pipe").partition("->")
        path = root / unescape(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if special == "|pipe":
            os.mkfifo(path)
        elif special:
            path.symlink_to(special)
        else:
            Image.new("L", (4, 4), len(name)).save(path, format="PNG")
    return root


def run_tables(text: str, folder: Path, world: World) -> Any:
    """``csv OPTIONS [COLUMN=EXPRESSION; …]``, or parquet: a column's cells in row ``k`` of 40."""
    kind, options, *rest = text.split(" ", 2)
    columns: dict[str, Any] = {
        "id": [f"person {k}" for k in range(40)],
        "text": [f"review {k} of a film" for k in range(40)],
        "tokens": ["1 2 3"] * 40,
        "number": [k % 7 for k in range(40)],
        "label": ["good", "bad"] * 20,
    }
    for change in rest[0].split("; ") if rest else ():
        name, _, cell = change.partition("=")
        columns[unescape(name)] = [eval(cell, {"k": k, "math": math}) for k in range(40)]
    path = folder / f"table.{kind}"
    if kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    options = "" if options == "-" else f",{options}"
    return load(f"{kind}:{path}{options}")


def _array(spec: str) -> Any:
    kind, sizes = re.fullmatch(r"(\w+)\((.*)\)", spec).groups()  # type: ignore[union-attr]
    shape = tuple(int(size) for size in sizes.split(","))
    makers: dict[str, Callable[[], Any]] = {
        "zeros": lambda: np.zeros(shape, np.uint8),
        "labels": lambda: np.arange(shape[0]) % 2,
        "floats": lambda: np.zeros(shape),
        "huge": lambda: np.full(shape, 2**40),
        "negative": lambda: np.full(shape, -1),
        "nan": lambda: np.full(shape, np.nan),
        "texts": lambda: np.full(shape, "a"),
        "objects": lambda: np.array([object] * shape[0], dtype=object),
    }
    return makers[kind]()


def run_weights(text: str, folder: Path, world: World) -> Any:
    """``card PATH=JSON``, ``tensor NAME=VALUE``, ``bytes cut:N``, ``named FILE``, ``torch …``."""
    from expunge.engine._artifact import load_artifact

    kind, _, rest = text.partition(" ")
    if kind == "torch":
        return _read_torch(rest, folder)
    if kind == "named":
        shutil.copy(world.initial, folder / rest)
        return load_artifact(folder / rest)
    path = folder / "model.safetensors"
    if kind == "bytes":
        path.write_bytes(_damaged(world.initial.read_bytes(), rest))
        return load_artifact(path)
    state, card = tensors.load(world.initial)
    name, _, value = rest.partition("=")
    if kind == "card":
        *above, last = name.split(".")
        inner = card
        for word in above:
            inner = inner[word]
        inner[last] = json.loads(value)
    elif value == "drop":
        del state[name]
    elif value == "reshape":
        state[name] = state[name][:-1]
    else:
        state[name] = torch.full_like(state.get(name, torch.zeros(1)), float(value))
    tensors.save(path, state, card)
    return load_artifact(path)


def _damaged(content: bytes, how: str) -> bytes:
    kind, _, number = how.partition(":")
    at = int(number or 0)
    if kind == "cut":
        return content[:at]
    if kind == "add":
        return content + bytes(at)
    if kind == "flip":
        changed = bytearray(content)
        changed[at] ^= 0x40
        return bytes(changed)
    return b"cposix\nsystem\n(S'touch executed'\ntR."  # a pickle that runs a command


class _Attack:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch executed",)


def _read_torch(kind: str, folder: Path) -> Any:
    from expunge.engine._artifact import read_weights

    path = folder / "model.pt"
    net = torch.nn.Linear(2, 2)
    content: dict[str, Any] = {
        "state": net.state_dict(),
        "module": net,
        "system": _Attack(),
        "list": [1, 2],
        "nothing": {},
        "ema": {"model": net.state_dict(), "ema": net.state_dict(), "epoch": 3},
        "timm": {"state_dict": net.state_dict(), "state_dict_ema": net.state_dict()},
        "averaged": {"model": net.state_dict(), "ema": {"module": net.state_dict()}},
        "optimizer": {
            "model": net.state_dict(),
            "optimizer": torch.optim.SGD([net.weight]).state_dict(),
        },
        "sparse": {"weight": net.weight.detach().to_sparse()},
        "csr": {"weight": net.weight.detach().to_sparse_csr()},
        "quantized": {
            "weight": torch.quantize_per_tensor(net.weight.detach(), 0.1, 0, torch.qint8)
        },
        "meta": {"weight": net.weight.detach().to("meta")},
        "float8": {"weight": net.weight.detach().to(torch.float8_e4m3fn)},
        "half": {"weight": net.weight.detach().half()},
        "numbers": {1: net.weight.detach()},
    }
    if kind == "script":
        torch.jit.script(net).save(str(path))
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        torch.save(content.get(kind, net.state_dict()), path)
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    try:
        return read_weights(path)
    finally:
        assert not Path("executed").exists(), "code of a weights file ran"


JOB = 'weights = "model.safetensors"\nout = "requests"\n'
PROTOCOL = """
[[block]]
name = "tiny"
data = "digits"
model = "small-cnn"
scenarios = ["random:0.3"]
methods = ["SRL"]
addons = ["none"]
"""


def run_toml(text: str, folder: Path, world: World) -> Any:
    """``job TEXT`` or ``protocol TEXT``: below, or above, what every such file has."""
    from expunge.bench._protocol_file import load_protocol
    from expunge.request._job_file import load_job

    kind, _, rest = text.partition(" ")
    path = folder / f"{kind}.toml"
    added = unescape(rest) + "\n"
    path.write_text(JOB + added if kind == "job" else added + PROTOCOL, encoding="utf-8")
    return load_job(path) if kind == "job" else load_protocol(path)


def run_api(text: str, folder: Path, world: World) -> Any:
    """A Python expression."""
    return eval(text, names())


HOSTILE = """
class Stop(BaseException): pass
def stop(**_): raise Stop("no further")
def leave(**_): raise SystemExit(0)
def close(**_): raise GeneratorExit
def escape(**_): raise ValueError("\\x1b[2J")
def text(**_): return "a model"
def nothing(**_): pass
"""


def run_cli(text: str, folder: Path, world: World) -> Any:
    """A command line: ok with its output, or ``exit N: OUTPUT`` if that is an answer (1, 3, 4).

    One that is refused exits with 2, explains that without a traceback and leaves nothing behind.
    """
    places = {name: str(folder / name) for name in ("pipe", "link", "folder")}
    places |= {"out": str(folder / "out.safetensors"), "esc": "\x1b[2J"}
    os.mkfifo(places["pipe"])
    Path("hostile.py").write_text(HOSTILE)
    sys.modules.pop("hostile", None)
    Path(places["link"]).symlink_to(folder / "nowhere")
    Path(places["folder"]).mkdir()
    words = [word.format(**world.files, **places, long=folder / LONG) for word in shlex.split(text)]
    code, shown = _call(words)
    if shown != printable(shown):
        return f"prints control characters: {shown!a}"
    if code != ExitCode.ERROR:
        return f"exit {code}: {shown}" if code else shown
    if "Traceback" in shown:
        return f"a traceback: {shown[-400:]}"
    left = {path.name for path in folder.iterdir()} - {"pipe", "link", "folder"}
    if left:
        return f"refused, but left {sorted(left)} behind"
    raise InvalidInput(shown)


def _call(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed, on one line."""
    printed = io.StringIO()
    before, terminal = sys.argv, dict(os.environ)
    sys.argv = ["expunge", *words]
    os.environ |= {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"}
    code: Any = 0
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            main()
    except SystemExit as ending:
        code = ending.code
    except ExpungeError as error:  # main() should have reported it
        raise AssertionError(f"{error} was not reported") from error
    finally:  # other tests look at terminals
        sys.argv = before
        for name in ("COLUMNS", "NO_COLOR", "TERM"):
            os.environ.pop(name, None)
        os.environ |= terminal
    return int(code or 0), " ".join(printed.getvalue().split())
