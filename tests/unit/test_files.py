"""Files appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from pathlib import Path

import pytest

from expunge import _tensors as tensors
from expunge._errors import StorageError
from expunge._files import (
    atomic,
    file_digest,
    read_regular,
    refuse_existing,
    refuse_no_folder,
    write_text,
)


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"
    write_text(path, "grüße")
    assert path.read_text(encoding="utf-8") == "grüße"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_private_file_is_for_its_owner_alone_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "public")
    with atomic(path, private=True) as scratch:
        assert scratch.stat().st_mode & 0o077 == 0
        scratch.write_text("private")
    assert path.stat().st_mode & 0o777 == 0o600
    tensors.save(tmp_path / "weights", {}, {})
    assert (tmp_path / "weights").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="needs file locks")
def test_what_a_killed_writer_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "[1].png"
    abandoned, other = tmp_path / ".[1].png.abc.tmp", tmp_path / ".other.png.abc.tmp"
    abandoned.write_text("half")
    other.write_text("half")
    with atomic(path) as scratch:
        scratch.write_text("mine")
        write_text(path, "of another process")
        assert scratch.read_text() == "mine"
    assert path.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


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
    with pytest.raises(StorageError, match=r"Only regular files .*folder is a folder\)"):
        write_text(tmp_path / "folder", "x")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]  # noqa: PTH208


def test_existing_files_are_refused_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    refuse_existing(path, force=False)
    path.write_text("")
    with pytest.raises(StorageError, match=r"exists. Choose another path, or .* --force"):
        refuse_existing(path, force=False)
    refuse_existing(path, force=True)


def make_target(path: Path, kind: str) -> None:
    """Put something that is not a regular file at ``path``."""
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        if kind == "a link to a file":
            path.with_name("target").write_text("old")
        path.symlink_to("target")


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "kind", ["a folder", "a pipe", "a socket", "a link to a file", "a link to nothing"]
)
def test_only_regular_files_are_replaced_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, force: bool
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    path = Path("file")
    make_target(path, kind)
    before = path.lstat()
    with pytest.raises(StorageError, match=r"Only regular files are overwritten\. \(file is a "):
        refuse_existing(path, force=force)
    with pytest.raises(StorageError, match="Only regular files are overwritten"):
        write_text(path, "new")
    assert path.lstat() == before
    assert not Path("target").exists() or Path("target").read_text() == "old"


def test_a_name_that_is_too_long_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        refuse_existing(tmp_path / ("x" * 300), force=True)
    with pytest.raises(StorageError, match="File name too long"):
        write_text(tmp_path / ("x" * 250), "")


def test_the_digest_is_that_of_the_file(tmp_path):
    path = tmp_path / "w.pt"
    path.write_bytes(b"abc")
    assert file_digest(path) == hashlib.sha256(b"abc").hexdigest()


def test_only_folders_are_written_into(tmp_path: Path) -> None:
    refuse_no_folder(tmp_path)
    refuse_no_folder(tmp_path / "nowhere")
    write_text(tmp_path / "file", "")
    for path in (tmp_path / "file", tmp_path / "file" / "below" / "further"):
        with pytest.raises(StorageError, match=r"/file should be a folder. \(got a file\)"):
            refuse_no_folder(path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=r"should be a folder. \(got a link to"):
        refuse_no_folder(tmp_path / "link")
    with pytest.raises(StorageError, match="File name too long"):
        refuse_no_folder(tmp_path / ("a" * 300))


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")
def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        for read in (read_regular, file_digest):
            with pytest.raises(OSError, match="not a regular file"):
                read(path)
    write_text(tmp_path / "file", "text")
    assert read_regular(tmp_path / "file") == b"text"
