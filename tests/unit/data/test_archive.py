from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from expunge._errors import DataError
from expunge.data import _archive as archive
from expunge.data._archive import list_files, read_archive


def everything(place):
    return True


def tar_of(path, *members):
    with tarfile.open(path, "w:gz") as file:
        for member, data in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def special(name, kind, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def zip_of(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_only_wanted_members_are_read(tmp_path, pack):
    path = pack(tmp_path / "a", ("x/b.txt", b"b"), ("x/a.txt", b"a"), ("y/c.txt", b"c"))
    files = list_files(path, lambda place: place.parts[0] == "x")
    assert {name: read() for name, read in files.items()} == {"x/a.txt": b"a", "x/b.txt": b"b"}
    assert list(files) == ["x/a.txt", "x/b.txt"]


@pytest.mark.parametrize("pack", [tar_of, zip_of])
@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "..\\evil", "C:/evil"])
def test_a_path_that_leaves_the_archive_is_refused(tmp_path, pack, name):
    path = pack(tmp_path / "a", ("fine", b""), (name, b"x"))
    with pytest.raises(DataError, match="outside the archive"):
        read_archive(path, everything)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_or_device_in_a_tar_is_refused(tmp_path, kind):
    path = tar_of(tmp_path / "a", (special("door", kind), b""))
    with pytest.raises(DataError, match="'door' is a link or a device"):
        read_archive(path, everything)


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("door")
    info.external_attr = 0o120777 << 16
    with pytest.raises(DataError, match="'door' is a link"):
        read_archive(zip_of(tmp_path / "a", (info, "/etc/passwd")), everything)


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(archive, "MAX_MEMBER", 1 << 20)
    monkeypatch.setattr(archive, "MAX_TOTAL", 2 << 20)
    with pytest.raises(DataError, match="1 MiB per file, 2 MiB in total"):
        read_archive(pack(tmp_path / "a", ("big", bytes((1 << 20) + 1))), everything)
    many = [(f"{i}", bytes(1 << 20)) for i in range(3)]
    with pytest.raises(DataError, match="1 MiB per file, 2 MiB in total"):
        read_archive(pack(tmp_path / "b", *many), everything)


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_skipped_members_count(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(archive, "MAX_TOTAL", 2 << 20)
    path = pack(tmp_path / "a", *[(f"{i}", bytes(1 << 20)) for i in range(3)], ("x", b"x"))
    with pytest.raises(DataError, match="with 2, the archive exceeds the limits"):
        read_archive(path, lambda place: place.name == "x")


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:bz2", "w:xz"])
def test_every_compression_of_a_tar_is_read(tmp_path, kind):
    with tarfile.open(tmp_path / "a", kind) as file:
        info = tarfile.TarInfo("x")
        info.size = 5
        file.addfile(info, io.BytesIO(b"hello"))
    assert read_archive(tmp_path / "a", everything) == {"x": b"hello"}


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_damage_is_told_from_content(tmp_path, pack):
    noise = bytes(i * i % 251 for i in range(5000))
    path = pack(tmp_path / "a", ("x", noise))
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"neither zip nor tar"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cannot be read as a zip or tar"):
            read_archive(path, everything)


def test_a_flipped_bit_in_a_zip_is_damage(tmp_path):
    path = tmp_path / "a"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", b"hello hello")
    path.write_bytes(path.read_bytes().replace(b"hello hello", b"hello jello"))
    with pytest.raises(DataError, match="CRC"):
        read_archive(path, everything)
