"""What is published: metadata; and, by ``make package``, wheel and sdist in empty environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import expunge

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "expunge"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


# ---- the metadata


def test_the_version_is_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "expunge.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", expunge.__version__)
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.M)


def test_every_file_beside_the_code_is_packaged() -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["expunge"]
    packaged = {path for pattern in patterns for path in SOURCE.glob(pattern)}
    beside = {p for p in SOURCE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert beside - packaged == set()


def test_the_constraints_pin_what_the_extras_ask_for() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    assert all(pins.values())
    known = {name.lower().replace("_", "-") for name in pins}
    extras = PROJECT["optional-dependencies"].values()
    wanted = {re.split(r"[\[><=, ]", each)[0] for part in extras for each in part}
    assert {name.lower() for name in wanted} - known - {"expunge"} == set()


def test_the_dockerfile_copies_what_is_there() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for word in line.split()]
    assert {"src", "pyproject.toml", *PROJECT["license-files"][:1]} <= set(copied)
    kept = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert sorted(kept) == sorted(copied)
    assert all((ROOT / name).exists() for name in copied)
    assert PROJECT["readme"] in copied


def test_the_citation_names_paper_and_licence() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    for words in ("cff-version: 1.2.0", "title: expunge", "license: MIT", "Dine", "year: 2025"):
        assert words in text


# ---- the packages: `make package`


def run(*words: object, cwd: Path, **environment: str) -> str:
    """A command and what it printed; one that fails shows it."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean | {"OMP_NUM_THREADS": "1", "EXPUNGE_CACHE": str(cwd)} | environment,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel and an sdist, as ``python -m build`` makes them."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def python(
    request: pytest.FixtureRequest,
    packages: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The interpreter of an environment with the package and its base dependencies alone."""
    folder = tmp_path_factory.mktemp(request.param)
    run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    interpreter = folder / "env" / "bin" / "python"
    pip = (interpreter, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt")
    run(*pip, "torch", "setuptools", cwd=folder)
    run(*pip, packages[request.param], cwd=folder)
    return interpreter


@pytest.mark.package
def test_the_demo_runs_from_an_empty_environment(python: Path, tmp_path: Path) -> None:
    expunge_command = python.with_name("expunge")
    assert run(expunge_command, "--version", cwd=tmp_path).split() == [
        "expunge",
        expunge.__version__,
    ]
    run(python, "-m", "pip", "check", cwd=tmp_path)
    printed = run(expunge_command, "demo", "--seeds", "1", "--out", "demo", cwd=tmp_path)
    assert "SRL-FOCUS" in printed
    assert (tmp_path / "demo" / "README.md").is_file()
    shown = run(python, "-m", "pip", "show", "-f", "expunge", cwd=tmp_path)
    assert "expunge/py.typed" in shown


USER = """
import expunge

result: expunge.Result = expunge.unlearn
step = expunge.Update(addon="focus", aggregate=expunge.WeightedSum(alpha="much"))
reveal_type(expunge.Focus().eps)
"""


@pytest.mark.package
def test_a_users_type_checker_sees_the_types(python: Path, tmp_path: Path) -> None:
    pip = (python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt")
    run(*pip, "mypy", cwd=tmp_path)
    (tmp_path / "user.py").write_text(USER)
    words = [python, "-m", "mypy", "--strict", "user.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=3000)
    assert "Incompatible types in assignment" in done.stdout
    assert 'Argument "alpha" to "WeightedSum" has incompatible type "str"' in done.stdout
    assert 'Revealed type is "builtins.float"' in done.stdout.replace('"float"', '"builtins.float"')
    assert "import-untyped" not in done.stdout


@pytest.mark.package
def test_the_template_of_a_plugin_installs_and_is_found(python: Path, tmp_path: Path) -> None:
    options = ("-q", "--no-deps", "--no-build-isolation")
    run(python, "-m", "pip", "install", *options, ROOT / "examples" / "plugin", cwd=tmp_path)
    expunge_command = python.with_name("expunge")
    listed = run(expunge_command, "list", "methods", cwd=tmp_path, COLUMNS="200")
    assert "shrink-logits" in listed
    assert "(from expunge-example 0.1.0)" in listed
    run(expunge_command, "bench", "run", "blobs-quick", "--workers", "1", cwd=tmp_path)
    assert "shrink-logits" in (tmp_path / "bench-results/blobs-quick/records.jsonl").read_text()
    # Its own tests, and the contract tests, which find its parts by themselves.
    tools = ("pytest", "pytest-timeout", "hypothesis")
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *tools, cwd=tmp_path)
    pytest_words = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    cache = {"EXPUNGE_CACHE": str(tmp_path)}
    run(*pytest_words, "examples/plugin/tests", cwd=ROOT, **cache)
    parts = "shrink-logits or soft-and or plain-sum or top-two or blobs"
    files = [f"tests/contract/test_{name}.py" for name in ("methods", "addons", "parts")]
    passed = run(*pytest_words, *files, "-k", parts, cwd=ROOT, **cache)
    assert re.search(r"[1-9]\d* passed", passed)
