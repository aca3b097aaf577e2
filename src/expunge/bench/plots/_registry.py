"""The figures by name, and how they are written. Adding one is its own file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from expunge._registry import Registry
from expunge.bench._records import Record
from expunge.bench.plots._curves import (
    addons_ngplus,
    addons_srl,
    baselines_ngplus,
    baselines_srl,
    focus_methods,
)
from expunge.bench.plots._density import agreement
from expunge.bench.plots._frontier import frontier
from expunge.bench.plots._masking import masking
from expunge.bench.plots._prob_masking import heatmap, noisy_masking
from expunge.bench.plots._style import Drawn, MissingRecords, styled
from expunge.plotting import save_figure

FORMATS = ("pdf", "svg", "png")

FIGURES: Registry[Callable[[Sequence[Record]], Drawn]] = Registry("figure")
FIGURES.add("masking", masking, alias="fig:masking")
FIGURES.add("noisy-masking", noisy_masking, alias="fig:maskingSalUn")
FIGURES.add("agreement", agreement, alias="fig:distrprob")
FIGURES.add("heatmap", heatmap, alias="fig:heatmap")
FIGURES.add("addons-srl", addons_srl, alias="fig:addonsSRL")
FIGURES.add("focus-methods", focus_methods, alias="fig:addon-methods")
FIGURES.add("addons-ngplus", addons_ngplus, alias="fig:addonsngplus")
FIGURES.add("baselines-srl", baselines_srl, alias="fig:bestimage")
FIGURES.add("baselines-ngplus", baselines_ngplus, alias="fig:bestimagengplus")
FIGURES.add("frontier", frontier)


@dataclass(frozen=True)
class WrittenFigures:
    """The files that were written, and the figures that were not, each with the reason."""

    paths: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


@styled
def write_figures(
    records: Sequence[Record], folder: str | Path, names: Sequence[str] | None = None
) -> WrittenFigures:
    """Write figures as PDF, SVG and PNG, ``NAME.pdf`` or ``NAME-GROUP.pdf``.

    ``names`` are those of :data:`FIGURES` or the paper's labels, such as ``fig:addonsSRL``. A
    figure that is named and cannot be drawn is an error; without ``names``, everything is drawn for
    which there are records, and the rest is in ``left_out``.
    """
    chosen = list(FIGURES) if names is None else [FIGURES.name(name) for name in names]
    written = WrittenFigures()
    for name in dict.fromkeys(chosen):
        try:
            drawn = FIGURES[name](records)
        except MissingRecords as reason:
            if names is not None:
                raise MissingRecords(f"The figure {name} cannot be drawn: {reason}") from reason
            written.left_out[name] = str(reason)
            continue
        for suffix, figure in drawn:
            stem = f"{name}-{suffix}" if suffix else name
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once, for all formats
            save_figure(figure, Path(folder) / f"{stem}.png", FORMATS)
            written.paths.extend(Path(folder) / f"{stem}.{kind}" for kind in FORMATS)
    return written
