"""Read the files of a folder, a zip or a tar without unpacking it.

Archives come from strangers. Members are read into memory and nothing is written, so a path
cannot escape; a member that tries (``..``, an absolute path, a link, a device) shows that the
archive was tampered with, and all of it is refused.
"""

from __future__ import annotations

import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from expunge._errors import DataError

MAX_MEMBER = 64 << 20
MAX_TOTAL = 4 << 30

Read = Callable[[], bytes]
Wanted = Callable[[PurePosixPath], bool]

_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted zip
    NotImplementedError,  # a compression zipfile does not know
)


def list_files(path: Path, wanted: Wanted) -> dict[str, Read]:
    """The wanted files under ``path``: relative names, sorted, each with a function to read it."""
    if path.is_dir():
        places = (p.relative_to(path) for p in path.rglob("*") if p.is_file())
        files = {place.as_posix(): (path / place).read_bytes for place in places}
        chosen = {name: read for name, read in files.items() if wanted(PurePosixPath(name))}
        return dict(sorted(chosen.items()))
    if not path.exists():
        raise DataError(f"There is no file or folder {path}. Check the path.")
    members = dict(sorted(read_archive(path, wanted).items()))
    return {name: (lambda data=data: data) for name, data in members.items()}  # type: ignore[misc]


def read_archive(path: Path, wanted: Wanted) -> dict[str, bytes]:
    """The wanted members of a zip or a tar (plain, gz, bz2, xz), by name."""
    members = _zip_members if zipfile.is_zipfile(path) else _tar_members
    files: dict[str, bytes] = {}
    total = 0
    try:
        for name, size, stream in members(path):
            place = _safe(path, name)
            if not wanted(place):
                continue
            total += size
            if size > MAX_MEMBER or total > MAX_TOTAL:
                raise DataError(
                    f"{path}: with {name}, the archive exceeds the limits "
                    f"({MAX_MEMBER >> 20} MiB per file, {MAX_TOTAL >> 20} MiB in total). "
                    "If you trust it, unpack it and pass the folder."
                )
            with stream() as file:
                data = file.read(size + 1)  # one more, to detect a wrong declared size
            if len(data) != size:
                raise DataError(f"{path}: {name} should be {size} bytes. (got {len(data)})")
            files[str(place)] = data
    except _BROKEN as error:
        raise DataError(
            f"{path} cannot be read as a zip or tar archive: {error}. Get a fresh copy of it."
        ) from error
    return files


Member = tuple[str, int, Callable[[], IO[bytes]]]


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


def _safe(path: Path, name: str) -> PurePosixPath:
    place = PurePosixPath(name.replace("\\", "/"))
    if place.is_absolute() or ".." in place.parts or re.match("[A-Za-z]:", name):
        raise _tampered(path, name, "outside the archive")
    return place


def _tampered(path: Path, name: str, what: str) -> DataError:
    return DataError(
        f"{path}: the member {name!r} is {what}, which a dataset has no use for. "
        "Nothing was read; get the archive from a source you trust."
    )
