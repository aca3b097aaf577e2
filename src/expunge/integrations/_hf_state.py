"""The state of an update in the folder of a ``Trainer``'s checkpoint."""

from __future__ import annotations

from pathlib import Path

from expunge._errors import DataError
from expunge.data._batches import Stream
from expunge.engine._checkpoint import load_checkpoint, save_checkpoint
from expunge.methods import Problem
from expunge.update import Update

NAME = "expunge.safetensors"


def find_checkpoint(given: str | bool | None, output_dir: str) -> Path | None:
    """The folder to resume from; ``True`` is the last one in ``output_dir``."""
    from transformers.trainer_utils import get_last_checkpoint

    if given is None or given is False:
        return None
    found = get_last_checkpoint(output_dir) if given is True else given
    if found is None:
        raise DataError(f"There is no checkpoint to resume from in {output_dir}.")
    return Path(found)


def save_state(
    folder: Path, fingerprint: dict[str, str], update: Update, problem: Problem, retain: Stream
) -> None:
    """Write what the Trainer does not know of: moments, random streams, the place in retain."""
    tree = {
        "update": update.state_dict(),
        "problem": problem.state_dict(),
        "retain": retain.position,
    }
    save_checkpoint(folder / NAME, fingerprint, tree)


def load_state(
    folder: Path, fingerprint: dict[str, str], update: Update, problem: Problem, retain: Stream
) -> None:
    """Go on where :func:`save_state` was; refused where the ``fingerprint`` is another."""
    tree = load_checkpoint(folder / NAME, fingerprint)
    update.load_state_dict(tree["update"])
    problem.load_state_dict(tree["problem"])
    retain.seek(tree["retain"])
