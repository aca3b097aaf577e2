"""What tests put in the place of work that takes long and is not what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from expunge._files import write_text
from expunge.dispatch import InlineEngine
from expunge.report import save_figure
from expunge.store import Store


def compute_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Run stages without workers, each of which takes seconds to import torch."""

    def inline(store: Store, *_: Any, **__: Any) -> InlineEngine:
        return InlineEngine(store)

    patch.setattr("expunge.dispatch._run._engine", inline)


def leave_out_figures(patch: pytest.MonkeyPatch, module: str, but: Sequence[str] = ()) -> None:
    """Files without content stand in for the figures that ``module`` saves, ``but`` for some."""

    def save(figure: Figure, path: Path, formats: Sequence[str] = ("png", "pdf")) -> None:
        if path.stem in but:
            save_figure(figure, path, formats)
        else:
            for kind in formats:
                write_text(path.with_suffix(f".{kind}"), "")

    patch.setattr(f"{module}.save_figure", save)
