"""What still remembers forgotten records is found, removed, and known to have been there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge.dispatch._execute import Context
from expunge.ledger._ledger import PURGED, Ledger, digest_of
from expunge.ledger._purge import find_remnants, purge, read_purged, remnants_elsewhere
from expunge.request._verify import verify


@pytest.fixture
def folder(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of two requests, to change at will."""
    return shutil.copytree(two_requests, tmp_path / "requests")


def paths(folder: Path) -> set[str]:
    return {
        remnant.path.relative_to(folder).as_posix()
        for remnant in find_remnants(Ledger.read(folder))
    }


def test_old_weights_attempts_and_checkpoints_are_removed_and_their_hashes_kept(
    folder: Path,
) -> None:
    (folder / ".work").mkdir()
    (folder / ".work" / "run.checkpoint").write_text("weights")
    (folder / ".0003.new").mkdir()
    (folder / ".0003.new" / "evidence.json").write_text("{}")
    discarded = {path.relative_to(folder).as_posix() for path in folder.rglob("discarded.*")}
    expected = {"0001/weights.safetensors", ".work", ".0003.new", *discarded}
    assert paths(folder) == expected
    before = digest_of(folder / "0001" / "weights.safetensors")
    found = {line for checked in verify(folder, quick=True) for line in checked.lines}
    remains = "remains: 0001/weights.safetensors, weights from before a later request"
    assert remains in found

    removed = purge(Ledger.read(folder), find_remnants(Ledger.read(folder)))
    assert read_purged(folder) == removed
    assert {"0001/weights.safetensors": before}.items() <= {
        each.file: each.sha256 for each in removed
    }.items()
    assert (folder / PURGED).stat().st_mode & 0o777 == 0o600
    assert find_remnants(Ledger.read(folder)) == []
    assert sorted(path.name for path in folder.iterdir()) == ["0001", "0002", "head.json", PURGED]
    assert (folder / "0002" / "weights.safetensors").is_file()

    verifications = verify(folder, quick=True)
    assert all(verification.ok for verification in verifications)
    lines = {line for checked in verifications for line in checked.lines}
    assert any(line.startswith("purged: weights.safetensors, on ") for line in lines)
    assert remains not in lines
    assert any("the weights from before the first request" in line for line in lines)
    assert purge(Ledger.read(folder), []) == []
    assert read_purged(folder) == removed, "a second purge forgets nothing of the first"


def test_what_is_missing_without_having_been_purged_is_noticed(folder: Path) -> None:
    purge(Ledger.read(folder), find_remnants(Ledger.read(folder)))
    content = json.loads((folder / PURGED).read_text())
    weights = next(e for e in content["files"] if e["file"] == "0001/weights.safetensors")

    def problems() -> list[str]:
        return [problem for checked in verify(folder, quick=True) for problem in checked.problems]

    # Neither a hash that differs, nor a file that is never purged, is excused.
    (folder / PURGED).write_text(json.dumps({"files": [weights | {"sha256": "0" * 64}]}))
    assert "weights.safetensors is missing." in problems()
    for name in ("0001/letter.md", "0002/weights.safetensors"):
        forged = weights | {"file": name, "sha256": digest_of(folder / name)}
        (folder / name).unlink()
        (folder / PURGED).write_text(json.dumps({"files": [weights, forged]}))
        assert f"{Path(name).name} is missing." in problems()
    (folder / PURGED).write_text("{")
    with pytest.raises(DataError, match="is not valid JSON"):
        read_purged(folder)
    assert any("purged.json" in problem for problem in problems())


def test_what_audits_keep_is_named_and_not_removed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.ledger._purge.cache_dir", lambda: tmp_path)
    assert not any("expunge audit" in words for words in remnants_elsewhere(Ledger.read(folder)))
    (tmp_path / "store").mkdir()
    words = f"{tmp_path / 'store'}, where `expunge audit` keeps data and shadow models."
    assert words in remnants_elsewhere(Ledger.read(folder))


def test_the_latest_weights_stay_and_it_is_said_if_they_remember(folder: Path) -> None:
    ledger = Ledger.read(folder)
    words = " ".join(remnants_elsewhere(ledger))
    assert ("the last request was not achieved" in words) == (
        not ledger.entries[-1].evidence.unlearned
    )


def test_the_model_of_a_request_from_python_is_not_reached_either(folder: Path) -> None:
    path = folder / "0001" / "evidence.json"
    evidence = json.loads(path.read_text())
    evidence["config"]["in_memory"] = True
    path.write_text(json.dumps(evidence))
    assert "which was given in Python" in remnants_elsewhere(Ledger.read(folder))[0]


def nothing(context: Context) -> None:
    """A stage that is never run."""
