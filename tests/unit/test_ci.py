"""The workflows fit the host's schema and run what the repository has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(name: str) -> dict[str, list[dict[str, Any]]]:
    return {job: body["steps"] for job, body in read(WORKFLOWS / name)["jobs"].items()}


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name("check-jsonschema")
    schema = ["--builtin-schema", "vendor.github-workflows"]
    return subprocess.run([tool, *schema, *paths], capture_output=True, text=True, timeout=600)


def test_the_workflows_fit_the_schema_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    found = check(*WORKFLOWS.glob("*.yml"))
    assert found.returncode == 0, found.stdout
    wrong = tmp_path / "ci.yml"
    wrong.write_text((WORKFLOWS / "ci.yml").read_text().replace("runs-on:", "runs-in:"))
    assert check(wrong).returncode == 1


def test_ci_runs_what_a_contributor_runs() -> None:
    commands = [step["run"] for step in steps("ci.yml")["run"] if "run" in step]
    assert commands == ["bash .ci/run"]
    assert (ROOT / ".ci" / "run").is_file()


def test_a_tag_is_published_without_a_password_and_only_if_it_is_the_version() -> None:
    workflow, jobs = read(WORKFLOWS / "publish.yml"), steps("publish.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as a truth value
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert workflow["jobs"]["publish"]["needs"] == "build"
    assert "secrets." not in (WORKFLOWS / "publish.yml").read_text()
    assert "make package" in [step.get("run") for step in jobs["build"]]
    test = next(step["run"] for step in jobs["build"] if "GITHUB_REF_NAME" in step.get("run", ""))
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/expunge/__init__.py").read_text())
    assert version is not None
    for tag, code in ((f"v{version[1]}", 0), ("v9.9", 1)):
        done = subprocess.run(["bash", "-ec", test], cwd=ROOT, env={"GITHUB_REF_NAME": tag})
        assert done.returncode == code


def test_hooks_run_tools_of_the_environment() -> None:
    (repo,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    needed = (ROOT / "pyproject.toml").read_text()
    for hook in repo["hooks"]:
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f'"{tool}>=' in needed
        assert hook["language"] == "system"
