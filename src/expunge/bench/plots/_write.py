"""Figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from expunge.bench._results import Result
from expunge.bench.plots import FIGURES, OF_TEXTS
from expunge.bench.plots._style import MissingResults, styled
from expunge.report import save_figure

FORMATS = ("pdf", "png")


@dataclass(frozen=True)
class WrittenFigures:
    """The files that were written, and the figures that were not, each with the reason."""

    paths: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


@styled
def write_figures(
    results: Sequence[Result], folder: str | Path, names: Sequence[str] | None = None
) -> WrittenFigures:
    """Write figures as PDF and PNG, ``NAME.pdf`` or ``NAME-GROUP.pdf``.

    ``names`` are those of :data:`FIGURES` or the paper's labels, such as ``fig:addonsSRL``. A
    figure that is named and cannot be drawn is an error; without ``names``, everything is drawn for
    which there are results, and the rest of that kind, images or texts, is in ``left_out``.
    """
    kinds = {result.task.is_text for result in results} or {False}
    every = [name for name in FIGURES if (name in OF_TEXTS) in kinds]
    chosen = every if names is None else [FIGURES.name(name) for name in names]
    written = WrittenFigures()
    for name in dict.fromkeys(chosen):
        mine = [result for result in results if result.task.is_text == (name in OF_TEXTS)]
        try:
            drawn = FIGURES[name](mine)
        except MissingResults as reason:
            if names is not None:
                raise MissingResults(f"The figure {name} cannot be drawn: {reason}") from reason
            written.left_out[name] = str(reason)
            continue
        for suffix, figure in drawn:
            stem = f"{name}-{suffix}" if suffix else name
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once, for all formats
            save_figure(figure, Path(folder) / f"{stem}.png", FORMATS)
            written.paths.extend(Path(folder) / f"{stem}.{kind}" for kind in FORMATS)
    return written
