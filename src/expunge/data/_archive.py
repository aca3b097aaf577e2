"""Read the files of a folder, a zip or a tar without unpacking it.

Archives come from strangers. Members are read into memory and nothing is written, so a path
cannot escape; a member that tries (``..``, an absolute path, a link, a device) shows that the
archive was tampered with, and all of it is refused.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from expunge._errors import DataError
from expunge._files import kind_of, require_file, storage_errors

MAX_MEMBER = 256 << 20
MAX_TOTAL = 4 << 30
"""Bytes of one file, and of all files together."""

Read = Callable[[], bytes]
Wanted = Callable[[PurePosixPath], bool]


def list_files(path: Path, wanted: Wanted) -> dict[str, Read]:
    """The wanted files under ``path``: relative names, sorted, each with a function to read it."""
    if path.is_dir():
        return _list_folder(path, wanted)
    require_file(path)
    members = dict(sorted(read_archive(path, wanted).items()))
    return {name: (lambda data=data: data) for name, data in members.items()}  # type: ignore[misc]


def _list_folder(root: Path, wanted: Wanted) -> dict[str, Read]:
    """The wanted files of a folder; what is named like one and cannot be read is refused."""
    files: dict[str, Read] = {}
    lost: list[Path] = []
    with storage_errors(f"list {root}"):
        for folder, folders, names in os.walk(root, onerror=_raise):
            lost += [path for name in folders if (path := Path(folder, name)).is_symlink()]
            for path in (Path(folder, name) for name in names):
                place = path.relative_to(root)
                if wanted(PurePosixPath(place)):
                    files[place.as_posix()] = path.read_bytes
                    lost += [] if path.is_file() else [path]
    if lost:
        raise DataError(
            f"{root} should hold regular files, or links to them. (got {min(lost)}, "
            f"{kind_of(min(lost))}, and {len(lost) - 1} more such) Put the files there, or remove "
            "what stands for them."
        )
    return dict(sorted(files.items()))


def _raise(error: OSError) -> None:
    raise error


def read_archive(path: Path, wanted: Wanted) -> dict[str, bytes]:
    """The wanted members of a zip or a tar (plain, gz, bz2, xz), by name.

    All members count towards the limits: a tar is unpacked as it is skipped through.
    """
    members = _zip_members if zipfile.is_zipfile(path) else _tar_members
    files: dict[str, bytes] = {}
    total = 0
    try:
        for name, size, stream in members(path):
            place = PurePosixPath(name.replace("\\", "/"))
            if place.is_absolute() or ".." in place.parts or re.match("[A-Za-z]:", name):
                raise _tampered(path, name, "outside the archive")
            total += size
            if size > MAX_MEMBER or total > MAX_TOTAL:
                raise DataError(
                    f"{path}: with {name}, the archive exceeds the limits ({MAX_MEMBER >> 20} MiB "
                    f"per file, {MAX_TOTAL >> 20} MiB in total). If you trust it, unpack it and "
                    "pass the folder."
                )
            if wanted(place):
                with stream() as file:
                    files[str(place)] = file.read()
    except DataError:
        raise
    except Exception as error:  # damaged and encrypted archives fail in too many ways to list
        raise DataError(
            f"{path} cannot be read as a zip or tar archive: {error}. Get a fresh copy of it."
        ) from error
    return files


Member = tuple[str, int, Callable[[], IO[bytes]]]
"""Name, size, and a function that opens it."""


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _tampered(path, info.filename, "a link")
            if not info.is_dir():
                yield info.filename, info.file_size, lambda info=info: archive.open(info)  # type: ignore[misc]


def _tar_members(path: Path) -> Iterator[Member]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                raise _tampered(path, member.name, "a link or a device")
            yield member.name, member.size, lambda file=file: file  # type: ignore[misc]


def _tampered(path: Path, name: str, what: str) -> DataError:
    return DataError(
        f"{path}: the member {name!r} is {what}, which a dataset has no use for. "
        "Nothing was read; get the archive from a source you trust."
    )
