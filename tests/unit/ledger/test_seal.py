"""The list of a bundle's files: complete, and without strangers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge.evidence import Evidence, read_evidence
from expunge.ledger._seal import OUTSIDE, files_in, read_seal, seal_problems, write_seal


@pytest.fixture
def bundle(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of a request, to change at will."""
    return shutil.copytree(two_requests / "0001", tmp_path / "0001")


@pytest.fixture(scope="module")
def evidence(two_requests: Path) -> Evidence:
    return read_evidence(two_requests / "0001" / "evidence.json")


def test_a_seal_lists_every_file(bundle: Path, evidence: Evidence) -> None:
    sealed = read_seal(bundle)
    assert sealed.keys() == files_in(bundle) - OUTSIDE
    assert "figures/accuracy.png" in sealed
    assert seal_problems(bundle, evidence, sealed) == []
    before = (bundle / "evidence.sha256").read_bytes()
    write_seal(bundle)
    assert (bundle / "evidence.sha256").read_bytes() == before


def test_gaps_contradictions_and_strangers_are_problems(bundle: Path, evidence: Evidence) -> None:
    sealed = read_seal(bundle)
    assert len(seal_problems(bundle, evidence, {})) >= len(evidence.files) + 2
    (gap,) = seal_problems(bundle, evidence, {k: v for k, v in sealed.items() if "json" not in k})[
        :1
    ]
    assert gap.startswith("evidence.sha256 does not list evidence.json")
    (contradiction,) = seal_problems(bundle, evidence, sealed | {"weights.safetensors": "0" * 64})
    assert "different hashes of weights.safetensors" in contradiction
    (bundle / "figures" / ".hidden").write_text("")
    (bundle / "link").symlink_to(bundle / "figures", target_is_directory=True)
    assert seal_problems(bundle, evidence, sealed) == [
        "figures/.hidden is not part of the bundle: evidence.json does not list it.",
        "link is not part of the bundle: evidence.json does not list it.",
    ]


@pytest.mark.parametrize(
    "line", ["", "0" * 64, "0" * 64 + "  /etc/passwd", "0" * 64 + "  a/../../b", "x" * 64 + "  a"]
)
def test_lines_that_are_no_hash_and_name_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "evidence.sha256").write_text(f"{'0' * 64}  a\n{line}\n")
    with pytest.raises(DataError, match="line 2"):
        read_seal(tmp_path)


def test_a_name_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence.sha256").write_text(f"{'0' * 64}  a\n{'1' * 64}  a\n")
    with pytest.raises(DataError, match="line 2"):
        read_seal(tmp_path)
