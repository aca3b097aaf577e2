"""The work folder: what a request needs to resume after it was killed, until it is finished."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expunge._errors import ExpungeError, InvalidInput
from expunge._files import write_text

WORK = ".work"
"""Beside the bundles."""


class WorkFolder:
    """A mark that says which request is at work, and the checkpoint of its run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / WORK
        self.checkpoint = self.path / "run.checkpoint"
        self._mark = self.path / "request.sha256"

    @property
    def request(self) -> str | None:
        """The digest of the request that is at work here, or was when it was killed."""
        return self._mark.read_text(encoding="utf-8") if self._mark.is_file() else None

    def claim(self, request: str, *, discard: bool) -> None:
        """Mark the folder as that of ``request``, unless it is another's.

        With ``discard``, what another one has done is dropped.
        """
        if discard:
            self.remove()
        if self.request not in (None, request):
            raise InvalidInput(
                f"Another request in {self.root} is not finished. Repeat its command to finish "
                "it, or drop what it has done with --discard."
            )
        write_text(self._mark, request, private=True)

    @contextmanager
    def kept_only_if_started(self) -> Iterator[None]:
        """Remove the folder if the run was refused before there was anything to resume."""
        try:
            yield
        except ExpungeError:
            if not self.checkpoint.exists():
                self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with all that is in it, if it is there."""
        shutil.rmtree(self.path, ignore_errors=True)
