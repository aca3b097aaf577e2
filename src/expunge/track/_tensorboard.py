"""Runs as TensorBoard event files, one folder per run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expunge._errors import InvalidInput, StorageError
from expunge.track._tracker import RunStatus, Value, WrittenValues, import_optional, key_of

SUFFIX = ".expunge"  # of our files, which a later run replaces


class TensorBoardTracker:
    """Scalars in ``folder``/name, with parameters, tags and status as text.

    A folder shows the last run logged under its name; our earlier files are replaced.
    """

    def __init__(self, folder: str | Path = "runs") -> None:
        import_optional("tensorboard", extra="tensorboard")
        self._torch = import_optional("torch.utils.tensorboard", extra="tensorboard")
        self.folder = Path(folder)
        self._values = WrittenValues()
        self._writer: Any = None

    @property
    def left_out(self) -> int:
        """Values of the current run that are not finite."""
        return self._values.left_out

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the folder of this name, without what an earlier run left in it."""
        self._close()
        self._values = WrittenValues()
        folder = self.folder / run_folder(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in folder.glob(f"events.out.tfevents.*{SUFFIX}"):
                file.unlink()
            self._writer = self._torch.SummaryWriter(str(folder), filename_suffix=SUFFIX)
        except OSError as error:
            raise StorageError(f"Cannot write in {folder}: {error.strerror}.") from error
        for title, table in (("params", params), ("tags", tags)):
            if table:
                self._writer.add_text(title, as_table(table))
        self._writer.flush()

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step."""
        if self._writer is None:
            raise InvalidInput("Start a run before you log to it.")
        for name, value in self._values.new_values(values, step).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self, status: RunStatus) -> None:
        """Write the status, and close the files."""
        if self._writer is not None:
            self._writer.add_text("status", status)
            self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def run_folder(name: str) -> Path:
    """A relative folder for ``name`` without ``..``; different names get different folders.

    >>> run_folder("digits/SRL-FOCUS/seed 0").as_posix()
    'digits/SRL-FOCUS/seed 0'
    >>> run_folder("../lr=1").as_posix()
    'lr_1-79ec639b'
    """
    parts = [re.sub(r"[^\w.\- ]", "_", part) for part in name.split("/")]
    folder = "/".join(part for part in parts if part not in ("", ".", ".."))
    return Path(folder) if folder == name else Path(f"{folder or 'run'}-{key_of(name)[:8]}")


def as_table(values: Mapping[str, Any]) -> str:
    """A Markdown table of two columns."""
    rows = [f"| {name} | {value} |" for name, value in values.items()]
    return "\n".join(["| name | value |", "| --- | --- |", *rows])
