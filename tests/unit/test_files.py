"""Files appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from expunge._errors import StorageError
from expunge._files import atomic, file_digest, refuse_existing, write_text


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"
    write_text(path, "grüße")
    assert path.read_text(encoding="utf-8") == "grüße"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyError("x"), KeyboardInterrupt()]
)
def test_a_failure_keeps_what_stood_there_and_leaves_nothing_behind(
    error: BaseException, tmp_path: Path
) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    expected = StorageError if isinstance(error, OSError) else type(error)

    def write_half() -> None:
        with atomic(path) as scratch:
            scratch.write_text("half")
            raise error

    with pytest.raises(expected):
        write_half()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_visible_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with atomic(path) as scratch:
        scratch.write_text("half")
        assert not path.exists()
        assert scratch.parent == tmp_path
    assert path.read_text() == "half"


def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write in"):
        write_text(tmp_path / "file" / "below", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"Could not write .*folder: Is a directory"):
        write_text(tmp_path / "folder", "x")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]  # noqa: PTH208


def test_existing_files_are_refused_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    refuse_existing(path, force=False)
    path.write_text("")
    with pytest.raises(StorageError, match=r"exists. Choose another path, or .* --force"):
        refuse_existing(path, force=False)
    refuse_existing(path, force=True)


def test_the_digest_is_that_of_the_file(tmp_path):
    path = tmp_path / "w.pt"
    path.write_bytes(b"abc")
    assert file_digest(path) == hashlib.sha256(b"abc").hexdigest()
