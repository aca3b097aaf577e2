"""Ways to forge the evidence of two requests, as ``forgeries.toml`` lists them.

``EXPUNGE_WRITE_DOCS=1 python -m pytest -m thorough -k page_of_forgeries`` writes the table of
``docs/reference/forgeries.md`` again.
"""

from __future__ import annotations

import functools
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from expunge import _tensors as tensors
from expunge._errors import DataError
from expunge._files import file_digest
from expunge.evidence._schema import read_evidence
from expunge.ledger._id_key import digest_requested
from expunge.ledger._ledger import Ledger, digest_config
from expunge.ledger._seal import write_ledger_head, write_seal
from expunge.request._bundle import shown_files
from expunge.request._verify import verify

TABLE = Path(__file__).with_name("forgeries.toml")
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "forgeries.md"
MODES = ("--quick", "full", "--expect", "--head", "--key")
BEFORE = ".head-of-one.dsse.json"
"""The signed head after the first request, where requests are signed."""


@dataclass(frozen=True)
class Forgery:
    """What somebody does to two requests; ``usual`` ones are verified in full with every run."""

    name: str
    steps: tuple[tuple[Any, ...], ...]
    usual: bool = False

    def apply(self, root: Path) -> None:
        """Forge the requests in ``root``; what changes nothing is not a forgery."""
        before = contents(root)
        for step, *arguments in self.steps:
            STEPS[step](root, *arguments)
        assert contents(root) != before, self.name


def contents(root: Path) -> dict[str, bytes]:
    """All files below ``root``."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


@functools.cache
def forgeries() -> dict[str, Forgery]:
    """All forgeries by name."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["forgery"]
    made = [Forgery(row["name"], row["steps"], row.get("usual", False)) for row in rows]
    return {forgery.name: forgery for forgery in made}


def outcome(root: Path, **options: Any) -> tuple[str, str]:
    """What ``verify`` makes of requests, and the first thing that it says about it."""
    try:
        found = verify(root, **options)
    except DataError as error:
        return "caught", str(error).replace(str(root), "requests")
    wrong = (line for each in found for line in each.lines if line.startswith("DOES NOT HOLD"))
    if not all(each.ok for each in found):
        return "caught", next(wrong).partition(": ")[2]
    if not options.get("quick") and not all(each.verified for each in found):
        return "not verified", next(each.not_verified for each in found if each.not_verified)
    return "passes", ""


def documented() -> dict[str, list[str]]:
    """The rows of the page: what comes of each forgery in every mode, and what is said."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return {name: cells for name, *cells in rows}


def write_page(rows: dict[str, list[str]]) -> None:
    """Put the table into the page, in place of the one there."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition("| forgery |")
    _, _, after = rest.partition("\n\n")
    head = ["forgery", *(f"`{mode}`" if mode != "full" else mode for mode in MODES), "what it says"]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head))]
    lines += [f"| {' | '.join([name, *cells])} |" for name, cells in rows.items()]
    PAGE.write_text(before + "\n".join(lines) + "\n\n" + after, encoding="utf-8")


# --- steps ------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def change_evidence(bundle: Path, change: Callable[[Any], None]) -> None:
    """Change ``evidence.json`` in place."""
    evidence = read_json(bundle / "evidence.json")
    change(evidence)
    (bundle / "evidence.json").write_text(json.dumps(evidence, indent=1))


def redo_hashes(bundle: Path, *, show: bool = False) -> None:
    """Make all hashes of a bundle those of its present files, and the head that of the last.

    With ``show``, the page and all else that shows the evidence is written again before.
    """

    def redo(evidence: Any) -> None:
        for name in evidence["files"]:
            evidence["files"][name] = file_digest(bundle / name)
        evidence["hashes"]["config"] = digest_config(evidence["config"])
        state, _ = tensors.load(bundle / "weights.safetensors")
        evidence["hashes"]["weights_after"] = tensors.state_digest(state)
        entry = next(e for e in Ledger.read(bundle.parent).entries if e.folder == bundle)
        evidence["hashes"]["ids"] = digest_requested(entry.forgotten.ids, entry.forgotten.asked)

    change_evidence(bundle, redo)
    if show:
        path = bundle / "evidence.json"
        for name, content in shown_files(read_evidence(path), file_digest(path)).items():
            (bundle / name).write_text(content)
    seal(bundle.parent, bundle.name)


def seal(root: Path, bundle: str) -> None:
    write_seal(root / bundle)
    write_ledger_head(Ledger.read(root))


def rechain(root: Path) -> None:
    previous: str | None = None
    for entry in Ledger.read(root).entries:
        change_evidence(
            entry.folder, lambda evidence, seal=previous: evidence["request"].update(previous=seal)
        )
        redo_hashes(entry.folder, show=True)
        previous = file_digest(entry.folder / "evidence.sha256")


def places(tree: Any, path: str) -> Iterator[tuple[Any, Any]]:
    """Containers and keys that a dotted path leads to; ``*`` is any key, ``~`` a dot in one."""
    first, _, rest = path.partition(".")
    keys = [int(first) if isinstance(tree, list) and first != "*" else first.replace("~", ".")]
    if first == "*":
        keys = list(range(len(tree))) if isinstance(tree, list) else list(tree)
    for key in keys:
        if rest:
            yield from places(tree[key], rest)
        else:
            yield tree, key


def set_value(root: Path, bundle: str, path: str, value: Any) -> None:
    def change(evidence: Any) -> None:
        for place, key in list(places(evidence, path)):
            place[key] = value

    change_evidence(root / bundle, change)


def add_value(root: Path, bundle: str, path: str, value: float) -> None:
    def change(evidence: Any) -> None:
        for place, key in list(places(evidence, path)):
            place[key] += value

    change_evidence(root / bundle, change)


def replace_text(root: Path, file: str, old: str, new: str) -> None:
    text = (root / file).read_text()
    assert old in text, old
    (root / file).write_text(text.replace(old, new, 1))


def drop_line(root: Path, file: str, end: str) -> None:
    lines = (root / file).read_text().splitlines(keepends=True)
    (root / file).write_text("".join(line for line in lines if not line.endswith(f"{end}\n")))


def delete(root: Path, path: str) -> None:
    target = root / path
    shutil.rmtree(target) if target.is_dir() else target.unlink()


def copy(root: Path, source: str, target: str) -> None:
    if (root / source).is_dir():
        shutil.copytree(root / source, root / target)
        return
    (root / target).unlink(missing_ok=True)
    shutil.copy(root / source, root / target)


def append(root: Path, file: str, text: str) -> None:
    (root / file).write_text((root / file).read_text() + text)


def zero(root: Path, file: str) -> None:
    state, card = tensors.load(root / file)
    tensors.save(root / file, {name: torch.zeros_like(x) for name, x in state.items()}, card)


def change_card(root: Path, file: str, path: str, value: Any) -> None:
    state, card = tensors.load(root / file)
    for place, key in list(places(card, path)):
        place[key] = value
    tensors.save(root / file, state, card)


def shorten(root: Path, file: str, name: str) -> None:
    content = read_json(root / file)
    content[name] = content[name][1:]
    (root / file).write_text(json.dumps(content))


def change_job(root: Path, bundle: str, name: str, value: Any) -> None:
    """Change a setting in ``job.toml``; settings of model and data in the evidence as well."""
    path = root / bundle / "job.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name} =")]
    path.write_text("\n".join([f"{name} = {json.dumps(value)}", *lines]) + "\n")
    if name in ("model", "data"):
        set_value(root, bundle, f"config.{name}", value)


def excuse(root: Path, file: str) -> None:
    entry = {"file": file, "sha256": file_digest(root / file), "size": 1, "why": "", "when": "2026"}
    (root / "purged.json").write_text(json.dumps({"files": [entry]}))
    delete(root, file)


def flip_verdict(root: Path, bundle: str) -> None:
    """Achieved where it was inconclusive, and the other way round."""
    stated = read_json(root / bundle / "evidence.json")["verdict"]["status"]
    flipped = "inconclusive" if stated == "achieved" else "achieved"
    set_value(root, bundle, "verdict.status", flipped)


def put_back_signed_head(root: Path) -> None:
    if (root / BEFORE).exists():
        copy(root, BEFORE, "head.dsse.json")


STEPS: dict[str, Callable[..., None]] = {
    "write": lambda root, file, text: (root / file).write_text(text) and None,
    "append": append,
    "replace": replace_text,
    "drop": drop_line,
    "delete": delete,
    "move": lambda root, source, target: (root / source).rename(root / target) and None,
    "copy": copy,
    "link": lambda root, source, target: (root / target).symlink_to(root / source),
    "set": set_value,
    "flip": flip_verdict,
    "add": add_value,
    "zero": zero,
    "card": change_card,
    "shorten": shorten,
    "job": change_job,
    "excuse": excuse,
    "seal": seal,
    "head": lambda root: write_ledger_head(Ledger.read(root)),
    "redo": lambda root, bundle: redo_hashes(root / bundle),
    "restate": lambda root, bundle: redo_hashes(root / bundle, show=True),
    "rechain": rechain,
    "put-back-signed-head": put_back_signed_head,
}
