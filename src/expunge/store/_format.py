"""What makes a directory a store, and which ones this version can read."""

from __future__ import annotations

import json
from pathlib import Path

from expunge._errors import StorageError
from expunge._files import write_text

FORMAT = 1
NAME = "store.json"


def create_store(root: Path) -> None:
    """Make ``root`` a store unless it is one; :class:`StorageError` if that cannot be."""
    if not (root / NAME).exists():
        from expunge import __version__

        notes = {"format": FORMAT, "written by": f"expunge {__version__}"}
        write_text(root / NAME, json.dumps(notes))


def check_format(root: Path) -> None:
    """Raise unless ``root`` is a store this version reads, or may become one."""
    path = root / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["format"]
    except (FileNotFoundError, NotADirectoryError):
        _refuse_strangers(root)
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is damaged, so its format is unknown: {error!r}.") from error
    if not isinstance(found, int) or found > FORMAT:
        raise StorageError(
            f"The store {root} was written by a newer version of expunge (format {found}; this one "
            f"reads up to {FORMAT}). Upgrade expunge, or use another store."
        )


def _refuse_strangers(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise StorageError(f"{root} is a file. A store is a directory.")
    strangers = [path.name for path in root.glob("[!.]*") if path.name != NAME]
    if strangers and (root / NAME).exists():  # another process has just created it
        check_format(root)
    elif strangers:
        raise StorageError(
            f"{root} holds other things ({strangers[0]}) and is not a store. Choose an empty or a "
            "new directory."
        )
