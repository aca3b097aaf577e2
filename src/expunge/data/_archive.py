"""Read the files of a folder, a zip or a tar without unpacking it.

Archives come from strangers. Members are read into memory and nothing is written, so a path
cannot escape; a member that tries (``..``, an absolute path, a link, a device) shows that the
archive was tampered with, and all of it is refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from expunge._errors import DataError
from expunge._files import kind_of, require_file, storage_errors

MAX_MEMBER = 64 << 20
MAX_TOTAL = 4 << 30
ALWAYS_FINE = 256 << 20
"""Bytes that may be unpacked from a file of any size."""
MAX_RATIO = 100
"""Beyond that, bytes unpacked per byte of the file; images and labels shrink by a tenth of it."""

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
        return _list_folder(path, wanted)
    if not path.exists():
        raise DataError(f"There is no file or folder {path}. Check the path.")
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
            place = _safe(path, name)
            total += size
            check_unpacked_size(path, name, total, UNPACK)
            if not wanted(place):
                continue
            if size > MAX_MEMBER:
                raise _too_large(path, name, UNPACK)
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


UNPACK = "If you trust it, unpack it and pass the folder."


def check_unpacked_size(path: Path, name: str, total: int, remedy: str) -> None:
    """Refuse a bomb: a file that, up to its member ``name``, unpacks to ``total`` bytes."""
    if total > MAX_TOTAL or total > max(ALWAYS_FINE, MAX_RATIO * path.stat().st_size):
        raise _too_large(path, name, remedy)


def _too_large(path: Path, name: str, remedy: str) -> DataError:
    return DataError(
        f"{path}: with {name}, the archive exceeds the limits ({MAX_MEMBER >> 20} MiB per file, "
        f"{MAX_TOTAL >> 20} MiB in total, and beyond {ALWAYS_FINE >> 20} MiB {MAX_RATIO} times its "
        f"own size). {remedy}"
    )


Member = tuple[str, int, Callable[[], IO[bytes]]]


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _tampered(path, info.filename, "a link")
            if not info.is_dir():
                yield info.filename, info.file_size, lambda info=info: archive.open(info)  # type: ignore[misc]


def _tar_members(path: Path) -> Iterator[Member]:
    with _tar_stream(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                raise _tampered(path, member.name, "a link or a device")
            yield member.name, member.size, lambda file=file: file  # type: ignore[misc]


def _tar_stream(path: Path) -> IO[bytes]:
    """The bytes of a tar, decompressed as they are read, within the limits."""
    with path.open("rb") as file:
        start = file.read(6)
    openers: dict[bytes, Callable[[Path], Any]] = {
        b"\x1f\x8b": gzip.open,
        b"BZh": bz2.open,
        b"\xfd7zXZ\0": lzma.open,
    }
    open_tar = next((openers[magic] for magic in openers if start.startswith(magic)), None)
    opened = path.open("rb") if open_tar is None else open_tar(path)
    return cast(IO[bytes], _Limited(path, opened))


class _Limited(io.BufferedIOBase):
    """A stream that stops at the limits, whatever the headers in it say about sizes."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path, self._stream = path, stream

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = MAX_TOTAL if size is None or size < 0 else size
        if wanted > MAX_MEMBER + 1:  # a header of extended attributes is held in memory
            raise _too_large(self._path, "one of its headers", UNPACK)
        self._check(self._stream.tell())
        return self._stream.read(wanted)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        assert whence == 0
        self._check(offset)
        return self._stream.seek(offset)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check(self, position: int) -> None:
        check_unpacked_size(self._path, f"byte {position}", position, UNPACK)


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
