"""Evidence that somebody has changed, hashes redone: verified or refused, never a crash."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from expunge._errors import ExpungeError
from expunge._files import file_digest
from expunge.evidence import read_evidence
from expunge.ledger._ledger import Ledger
from expunge.ledger._purge import find_remnants, remnants_elsewhere
from expunge.ledger._seal import write_ledger_head, write_seal
from expunge.report import render_letter, render_request
from expunge.request import forget, verify
from tests.unit.request.worlds import fitted, floats

GONE = "gone"
"""In place of a value: its key is removed."""


class Forgery(NamedTuple):
    """One value of ``evidence.json`` or ``forgotten.json`` in another's place."""

    file: str
    where: float | str
    """Which value: a fraction of all there are, or the keys that lead to it, with dots."""
    value: Any


def forgeries() -> st.SearchStrategy[Forgery]:
    """Any value, in place of any other."""
    values = [GONE, None, "", "x", "../..", -1, 0, 1e308, 2**70, True, [], {}, [[]], "9" * 5000]
    return st.builds(
        Forgery,
        st.sampled_from(["evidence.json"] * 4 + ["forgotten.json"]),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(values),
    )


@functools.cache
def world() -> tuple[Any, Any, Path]:
    """A model, its data, and the folder of a request that was made of them."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = (floats(48, 1), floats(32, 2), floats(32, 3))
    model = fitted(data[0])
    options: dict[str, Any] = {"lr": 3e-3, "batch_size": 16, "max_epochs": 1, "method": "SRL"}
    out = folder / "requests"
    forget(model=model, data=data, ids=[0, 2, 4], out=out, progress=False, force=True, **options)
    return model, data, out


def check_forgery(forgery: Forgery, *, numbers: bool = True) -> None:
    """Verify the forged request (with ``numbers``), show it, look for what remains of it."""
    model, data, original = world()
    with tempfile.TemporaryDirectory() as folder:
        root = shutil.copytree(original, Path(folder) / "requests")
        _forge(root / "0001", forgery)
        write_ledger_head(Ledger.read(root))
        loaded = {"model": model, "data": data} if numbers else {}
        try:
            verify(root, **loaded)
            find_remnants(Ledger.read(root))
            remnants_elsewhere(Ledger.read(root))
            evidence = read_evidence(root / "0001" / "evidence.json")
        except ExpungeError:
            return
        render_letter(evidence, "0" * 64)
        render_request(evidence)


def _forge(bundle: Path, forgery: Forgery) -> None:
    path = bundle / forgery.file
    content = json.loads(path.read_text())
    places = list(_places(content))
    if isinstance(forgery.where, str):
        *above, key = forgery.where.split(".")
        container = functools.reduce(lambda tree, name: tree[name], above, content)
    else:
        container, key = places[int(forgery.where * len(places))]
    if forgery.value != GONE:
        container[key] = forgery.value
    elif isinstance(container, dict):
        del container[key]
    path.write_text(json.dumps(content))
    if forgery.file != "evidence.json":
        evidence = json.loads((bundle / "evidence.json").read_text())
        evidence["files"][forgery.file] = file_digest(path)
        (bundle / "evidence.json").write_text(json.dumps(evidence))
    write_seal(bundle)


def _places(content: Any) -> Any:
    """Every container and key in a tree, of long lists the first item alone."""
    items = content.items() if isinstance(content, dict) else list(enumerate(content))[:1]
    for key, value in items:
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)
