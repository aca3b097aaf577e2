"""What is in the store is whole; what is not whole is not used."""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError, InvalidInput, StorageError
from expunge.store import Locked, Stage, Store
from expunge.store import _store as locks
from tests.unit.dispatch.forks import Fork

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork, 3.12
STAGE = Stage("train", {"lr": 0.5}, (Stage("data", {}, run="a:b"),), run="a:b", title="a model")


def fill(store: Store, stage: Stage = STAGE, **files: str) -> None:
    """A result as a worker makes it."""
    with store.lock(stage):
        folder = store.work(stage)
        for name, text in (files or {"weights": "1 2 3"}).items():
            (folder / name).write_text(text)
        (folder / ".checkpoint").write_text("scratch")
        store.commit(stage, {"seconds": 1.5})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_a_result_has_its_files_and_notes(store: Store) -> None:
    assert not store.has(STAGE)
    fill(store)
    entry = store.open(STAGE)
    assert entry.folder == store.root / "train" / STAGE.key
    assert entry.files == ("weights",)
    assert entry.path("weights").read_text() == "1 2 3"
    assert entry.config == {"lr": 0.5}
    assert entry.notes["title"] == "a model"
    assert entry.seconds == 1.5
    assert entry.notes["parents"] == [{"kind": "data", "key": STAGE.parents[0].key}]
    names = {path.name for path in entry.folder.iterdir()}
    assert names == {"weights", "config.json", "environment.json", "manifest.json"}
    assert list((store.root / ".work").iterdir()) == []
    assert list((store.root / ".locks").iterdir()) == []


def test_a_file_that_was_not_stored_is_named(store: Store) -> None:
    fill(store)
    with pytest.raises(DataError, match=r"no file 'biases'.*weights"):
        store.open(STAGE).path("biases")


def test_an_absent_result_is_an_error(store: Store) -> None:
    with pytest.raises(DataError, match="no result train/"):
        store.open(STAGE)


def test_looking_creates_nothing(store: Store) -> None:
    assert not store.has(STAGE)
    assert not store.intact(STAGE)
    assert not store.root.exists()


@pytest.mark.parametrize("name", ["weights", "config.json", "environment.json", "manifest.json"])
@pytest.mark.parametrize("how", ["flipped", "truncated", "emptied", "removed", "grown"])
def test_damage_is_noticed_and_the_file_named(store: Store, name: str, how: str) -> None:
    fill(store)
    path = store.root / "train" / STAGE.key / name
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    changed = {"flipped": flipped, "truncated": data[:-1], "emptied": b"", "grown": data + b"}"}
    path.write_bytes(changed.get(how, b""))
    if how == "removed":
        path.unlink()
    with pytest.raises(DataError, match=name):
        store.open(STAGE)
    assert store.has(STAGE)
    assert not store.intact(STAGE)


def test_every_flipped_bit_of_the_manifest_is_noticed(store: Store) -> None:
    fill(store)
    path = store.root / "train" / STAGE.key / "manifest.json"
    data = path.read_bytes()
    for index in range(0, len(data), 7):
        path.write_bytes(data[:index] + bytes([data[index] ^ 2]) + data[index + 1 :])
        if data[index : index + 1].isspace():
            continue
        assert not store.intact(STAGE), index
    path.write_bytes(data)
    assert store.intact(STAGE)


def test_a_folder_under_another_name_is_noticed(store: Store) -> None:
    fill(store)
    other = Stage("train", {"lr": 0.7}, run="a:b")
    (store.root / "train" / STAGE.key).rename(store.root / "train" / other.key)
    with pytest.raises(DataError, match=r"config\.json describes a different stage"):
        store.open(other)


def test_a_damaged_result_is_set_aside_not_lost(store: Store) -> None:
    for number in (1, 2):
        fill(store)
        with store.lock(STAGE):
            place = store.set_aside(STAGE)
        assert place.name == f"train-{STAGE.key}.{number}"
        assert (place / "weights").read_text() == "1 2 3"
        assert not store.has(STAGE)


def test_one_stage_has_one_holder(store: Store) -> None:
    other = Stage("train", {}, run="a:b")
    with store.lock(STAGE):
        with store.lock(other), pytest.raises(Locked), store.lock(STAGE):
            pass
        with pytest.raises(Locked), Store(store.root).lock(STAGE):
            pass
    with store.lock(STAGE):
        pass


@pytest.mark.parametrize("name", ["config.json", "environment.json", "manifest.json"])
def test_reserved_names_are_refused(store: Store, name: str) -> None:
    with store.lock(STAGE):
        (store.work(STAGE) / name).write_text("{}")
        with pytest.raises(InvalidInput, match=name):
            store.commit(STAGE, {})
    assert not store.has(STAGE)


def test_a_link_is_refused(store: Store) -> None:
    with store.lock(STAGE):
        (store.work(STAGE) / "link").symlink_to("/etc/passwd")
        with pytest.raises(InvalidInput, match="link"):
            store.commit(STAGE, {})
    assert not store.has(STAGE)


def test_failures_are_kept_and_forgotten(store: Store) -> None:
    assert store.failure(STAGE) is None
    store.prepare()
    store.record_failure(STAGE, {"message": "no"})
    assert store.failure(STAGE) == {"message": "no"}
    store.forget_failure(STAGE)
    store.forget_failure(STAGE)
    assert store.failure(STAGE) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"format": 2}', "newer version of expunge.*Upgrade"),
        ('{"format": "x"}', "newer version"),
        ("{}", r"store\.json is damaged"),
        ("", r"store\.json is damaged"),
        ("[]", r"store\.json is damaged"),
    ],
)
def test_a_store_of_another_format_is_refused(store: Store, text: str, complaint: str) -> None:
    fill(store)
    (store.root / "store.json").write_text(text)
    with pytest.raises(StorageError, match=complaint):
        Store(store.root)


def test_a_directory_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(StorageError, match=r"holiday\.jpg"):
        Store(tmp_path)
    with pytest.raises(StorageError, match="is a file"):
        Store(tmp_path / "holiday.jpg")


def test_a_read_only_disk_is_a_storage_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with pytest.raises(StorageError, match="Read-only"):
            store.prepare()
    fill(store)
    other = Stage("train", {}, run="a:b")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(StorageError, match="Read-only"), store.lock(other):
            pass
    assert store.intact(STAGE)


@pytest.mark.parametrize("broken", ["write_text", "rename", "fsync"])
def test_a_disk_that_fills_up_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with store.lock(STAGE):
        folder = store.work(STAGE)
        (folder / "weights").write_bytes(b"123")
        (folder / ".checkpoint").write_bytes(b"45")
        with monkeypatch.context() as patch:
            patch.setattr(os if broken == "fsync" else Path, broken, refuse)
            with pytest.raises(StorageError, match=r"a model.*No space left.*"):
                store.commit(STAGE, {})
        assert not store.has(STAGE)
        assert (folder / "weights").read_bytes() == b"123"
        assert (folder / ".checkpoint").read_bytes() == b"45"
        store.work(STAGE)  # as the next attempt would
        store.commit(STAGE, {})
    assert store.intact(STAGE)


def test_a_killed_process_leaves_its_lock_to_others(store: Store) -> None:
    def hold() -> None:
        with store.lock(STAGE):
            (store.root / "held").touch()
            time.sleep(600)

    store.prepare()
    child = Fork(hold)
    while not (store.root / "held").exists():
        time.sleep(0.005)
    with pytest.raises(Locked, match=f"process {child.pid} on"), store.lock(STAGE):
        pass
    assert child.kill_after(0)
    with store.lock(STAGE):
        pass


def test_a_lock_on_a_removed_file_is_no_lock(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.prepare()
    take, rivals = locks._lock, ExitStack()

    def be_late(handle: int) -> None:
        """Between opening and locking, the holder goes and a rival comes."""
        monkeypatch.setattr(locks, "_lock", take)
        (store.root / ".locks" / f"{STAGE.key}.lock").unlink()
        rivals.enter_context(store.lock(STAGE))
        take(handle)

    monkeypatch.setattr(locks, "_lock", be_late)
    with rivals, pytest.raises(Locked), store.lock(STAGE):
        pass


def test_a_lock_is_exclusive_among_many_processes(store: Store) -> None:
    store.prepare()
    inside = store.root / ".inside"

    def compete() -> int:
        held = 0
        while held < 25:
            try:
                with store.lock(STAGE):
                    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if two are inside
                    inside.unlink()
                    held += 1
            except Locked:
                pass
        return held

    answers = [child.answer() for child in [Fork(compete) for _ in range(4)]]
    assert all(isinstance(answer, int) for answer in answers), answers
    assert sum(answers) == 100


def test_the_notes_are_plain_json(store: Store) -> None:
    fill(store)
    for name in ("config", "environment", "manifest"):
        assert json.loads((store.root / "train" / STAGE.key / f"{name}.json").read_text())
