"""Parts of other packages appear by name, and a broken package breaks nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from expunge._errors import InvalidInput, PluginWarning
from expunge._plugins import (
    GROUPS,
    installed_plugins,
    instance_of,
    package_of,
    subclass_of,
    usable_plugins,
)
from expunge._registry import Registry
from expunge.cli._list import KINDS

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "examples" / "plugin"
TABLE = {
    "methods": "shrink-logits",
    "addons": "soft-and",
    "aggregates": "plain-sum",
    "attacks": "top-two",
    "datasets": "blobs",
    "protocols": "blobs-quick",
}
"""What the template adds to each kind of ``expunge list``."""


def install(folder: Path, package: str, entries: dict[str, dict[str, str]]) -> None:
    """The metadata that an installer leaves of a package."""
    info = folder / f"{package.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = [
        line
        for group, parts in entries.items()
        for line in (f"[{group}]", *(f"{name} = {path}" for name, path in parts.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to install into."""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_plugins.cache_clear()
    yield tmp_path
    installed_plugins.cache_clear()


def read(*registry: str) -> list[str]:
    return [
        f"{each.name} of {package_of(each)}" for group in registry for each in usable_plugins(group)
    ]


def test_plugins_are_found_without_importing_anything(packages: Path) -> None:
    (packages / "loud").mkdir()
    (packages / "loud" / "__init__.py").write_text("raise AssertionError('imported')")
    (packages / "loud" / "parts.py").write_text('class Part:\n    """What it is.\n\n    More."""\n')
    install(packages, "loud-parts", {"expunge.methods": {"loud": "loud.parts:Part"}})
    assert read("expunge.methods") == ["loud of loud-parts 1.2"]
    table: Registry[type] = Registry("method", plugins="expunge.methods")
    assert (list(table), table.summary("loud")) == (["loud"], "What it is.")
    assert table.origin("LOUD") == "loud-parts 1.2"


def test_a_part_is_imported_and_checked_on_first_use(packages: Path) -> None:
    (packages / "kind.py").write_text("class Good(dict): pass\nclass Other: pass\nNUMBER = 3\n")
    entries = {
        "good": "kind:Good",
        "other": "kind:Other",
        "gone": "kind:Gone",
        "three": "kind:NUMBER",
    }
    install(packages, "kind", {"expunge.addons": entries})
    table: Registry[type] = Registry(
        "add-on", plugins="expunge.addons", adopt=subclass_of("builtins:dict")
    )
    assert table["good"].__name__ == "Good"
    for name, why in {
        "other": "it should be a subclass of dict",
        "gone": "AttributeError: module 'kind' has no attribute 'Gone'",
        "three": r"it should be a subclass of dict\. \(got 3\)",
    }.items():
        with pytest.raises(InvalidInput, match=f"'{name}' is a plug-in of kind 1.2 .*{why}"):
            table[name]
    with pytest.warns(PluginWarning) as caught:
        assert [name for name, _ in table.items()] == ["good"]
    assert len(caught) == 3


def test_a_class_becomes_an_instance_where_instances_are_registered(packages: Path) -> None:
    (packages / "made.py").write_text("class Made(list): pass\nREADY = Made([1])\n")
    install(packages, "made", {"expunge.attacks": {"fresh": "made:Made", "ready": "made:READY"}})
    table: Registry[list[int]] = Registry(
        "attack", plugins="expunge.attacks", adopt=instance_of("builtins:list")
    )
    assert (table["fresh"], table["ready"]) == ([], [1])


def test_a_missing_module_is_reported_and_the_rest_stays(packages: Path) -> None:
    (packages / "sound.py").write_text("class Part: pass\n")
    install(packages, "broken", {"expunge.methods": {"lost": "no_such_module.parts:Part"}})
    install(packages, "sound", {"expunge.methods": {"here": "sound:Part"}})
    with pytest.warns(PluginWarning, match=r"'lost' \(no_such_module.parts:Part\) of broken 1.2"):
        assert read("expunge.methods") == ["here of sound 1.2"]


def test_a_name_that_is_taken_is_reported_and_stays_what_it_was(packages: Path) -> None:
    (packages / "sound.py").write_text("class Part: pass\n")
    install(packages, "pushy", {"expunge.methods": {"Mine": "sound:Part"}})
    table: Registry[int] = Registry("method", plugins="expunge.methods")
    table.add("mine", 1)
    with pytest.warns(PluginWarning, match="'Mine'.* of pushy 1.2.*is taken already"):
        assert (list(table), table["MINE"]) == (["mine"], 1)


def test_every_group_has_a_registry_that_is_listed() -> None:
    assert {KINDS[kind].group for kind in KINDS} - {None} == set(GROUPS)


SCRIPT = """
import os, sys
from expunge.cli import main

for kind in KINDS:
    sys.argv = ["expunge", "list", kind]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code
assert "torch" not in sys.modules

from expunge.bench._protocol_file import load_protocol
from expunge.bench._run import run_planned
from expunge.bench._stages import plan
from expunge.dispatch import InlineEngine
from expunge.store import Store

store = Store("store")
planned = plan(load_protocol("blobs-quick"), device="cpu")
run_planned(planned, store, engine=InlineEngine(store)).check()

import pytest
os.chdir(ROOT)
CONTRACT = "every_method_runs_with_every_addon"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/contract/test_methods.py",
    "-k", f"({CONTRACT} and shrink-logits and soft-and) or stands_out", "--rootdir", ".",
    "examples/plugin/tests/test_example.py"]))
"""


@pytest.mark.thorough
def test_the_template_is_in_lists_the_benchmark_and_the_contract_tests(tmp_path: Path) -> None:
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    install(tmp_path, project["name"], project["entry-points"])
    (tmp_path / "run.py").write_text(f"ROOT, KINDS = {str(ROOT)!r}, {list(TABLE)!r}\n{SCRIPT}")
    places = [str(tmp_path), str(TEMPLATE / "src"), str(ROOT / "src"), str(ROOT)]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for kind, name in TABLE.items():
        (line,) = [line for line in done.stdout.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 3, f"{name} of {kind} is not described"
    assert "2 passed" in done.stdout  # the method with the add-on, and the attack
