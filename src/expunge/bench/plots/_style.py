"""What all figures share: line styles of methods and add-ons, fonts, notes, and their files."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._specs import split_part
from expunge.bench._results import BenchResult
from expunge.bench._tasks import TaskResults, group_results
from expunge.bench.plots import FIGURES, SHOWN_IN_PAPER
from expunge.report import COLOURS, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = list[tuple[str, "Figure"]]
"""Figures, each with the suffix of its file name; empty where there is only one figure."""


class MissingResults(InvalidInput):
    """The results do not hold what a figure needs."""


BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
GREY = "#8C8C8C"
QUIET = "#555555"
"""The colour of notes and reference lines."""

STYLE = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class LineStyle:
    """How a variant is drawn; markers of base methods are hollow, those of add-ons filled."""

    colour: str
    marker: str
    dash: Any
    filled: bool = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of ``plot``."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dash,
            "markerfacecolor": self.colour if self.filled else "white",
            "markeredgewidth": 0.9,
            "markersize": 3.8,
            "linewidth": 1.3,
        }


METHOD_STYLES = {
    "random-label": LineStyle(BLUE, "s", (0, (5, 1.5))),
    "neg-grad-plus": LineStyle(GREEN, "^", (0, (3.5, 1.2))),
    "scrub": LineStyle(PINK, "D", (0, (5, 1.2, 1, 1.2))),
    "fine-tune": LineStyle(GREY, "v", (0, (2, 1))),
    "mask-small-gradients": LineStyle(ORANGE, "P", (0, (3, 1, 1, 1, 1, 1))),
    "conv-transpose": LineStyle(SKY, "<", (0, (6, 1, 1, 1))),
    "gradient-ascent": LineStyle(ORANGE, ">", (0, (1, 0.8))),
    "l1-sparse": LineStyle(SKY, "h", (0, (7, 2))),
    "match-unseen": LineStyle(VERMILLION, "o", (0, (4, 1))),
    "refresh": LineStyle("#7B3FA0", "*", (0, (4, 1, 1, 1))),
}
ADDON_STYLES = {
    "saliency": LineStyle(BLACK, "X", (0, (4, 1, 1, 1)), filled=True),
    "and": LineStyle(ORANGE, "d", (0, (2, 0.8)), filled=True),
    "prob": LineStyle(SKY, "p", (0, (6, 1, 1, 1, 1, 1)), filled=True),
    "bernoulli": LineStyle(GREY, "*", (0, (1, 0.8)), filled=True),
    "focus": LineStyle(VERMILLION, "o", "-", filled=True),
}
UNKNOWN_STYLE = LineStyle(BLACK, ".", "-")


def line_style(method: str, addon: str, *, by_method: bool = False) -> LineStyle:
    """The add-on's style; ``by_method``, the method's colour and marker with the add-on's dash."""
    base = METHOD_STYLES.get(split_part(method)[0], UNKNOWN_STYLE)
    if addon in ("", "none"):
        return base
    style = ADDON_STYLES.get(addon, replace(UNKNOWN_STYLE, filled=True))
    return replace(base, dash=style.dash, filled=style.filled) if by_method else style


LETTERS_PER_INCH = 18
"""How many letters of the small print fit on an inch of a line, roughly."""


def add_note(figure: Figure, lines: Sequence[str]) -> None:
    """Small print below a figure, in lines that fit it: where its numbers come from."""
    letters = int(LETTERS_PER_INCH * figure.get_figwidth())
    fitting = [part for line in lines if line for part in textwrap.wrap(line, letters)]
    if fitting:
        figure.supxlabel("\n".join(fitting), fontsize=6.5, color=QUIET)


def draw_grid(ax: Any) -> None:
    """A grid that stays behind the data."""
    ax.grid(alpha=0.25, linewidth=0.4)


def draw_each_task(
    results: Iterable[BenchResult], draw: Callable[[TaskResults], Figure | None], needed: str
) -> Drawn:
    """A figure for each task that ``draw`` can draw; where there is none, an error says why."""
    drawn: Drawn = []
    reasons: list[str] = []
    for runs in group_results(results):
        try:
            figure = draw(runs)
        except MissingResults as reason:
            reasons.append(f"{runs.file_name}: {reason}")
            continue
        drawn += [] if figure is None else [(runs.file_name, figure)]
    if not drawn:
        raise MissingResults("; ".join(reasons) or needed)
    return drawn


FORMATS = ("pdf", "png")


@dataclass(frozen=True)
class WrittenFigures:
    """The files that were written, and the figures that were not, each with the reason."""

    paths: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def write_figures(
    results: Sequence[BenchResult], folder: str | Path, names: Sequence[str] | None = None
) -> WrittenFigures:
    """Write figures as PDF and PNG, ``NAME.pdf`` or ``NAME-TASK.pdf``.

    A figure of the paper has its number before that: ``figure5-addons-srl-TASK.pdf``.

    ``names`` are those of :data:`FIGURES` or the paper's labels, such as ``fig:addonsSRL``. A
    figure that is named is drawn for every task, and is an error if it cannot be drawn. Without
    ``names``, everything is drawn for which there are results of images, for the task that the
    paper shows alone if it is among them; the rest is in ``left_out``.
    """
    import matplotlib as mpl

    chosen = FIGURES if names is None else [FIGURES.name(name) for name in names]
    images = [result for result in results if not result.is_text]
    written = WrittenFigures()
    settings: Any = STYLE
    with mpl.rc_context(settings):
        for name in dict.fromkeys(chosen):
            try:
                drawn = FIGURES[name](_shown_in_paper(name, images) if names is None else images)
            except MissingResults as reason:
                if names is not None:
                    raise MissingResults(f"The figure {name} cannot be drawn: {reason}") from reason
                written.left_out[name] = str(reason)
                continue
            number = f"figure{[*SHOWN_IN_PAPER].index(name) + 1}" if name in SHOWN_IN_PAPER else ""
            for suffix, figure in drawn:
                stem = "-".join(part for part in (number, name, suffix) if part)
                figure.draw_without_rendering()
                figure.set_layout_engine("none")  # laid out once, for all formats
                save_figure(figure, Path(folder) / f"{stem}.png", FORMATS)
                written.paths.extend(Path(folder) / f"{stem}.{kind}" for kind in FORMATS)
    return written


def _shown_in_paper(name: str, results: Sequence[BenchResult]) -> Sequence[BenchResult]:
    """The results of the task that the paper shows in a figure; all, if there are none of it."""
    if not (wanted := SHOWN_IN_PAPER.get(name)):
        return results
    own = [
        result
        for result in results
        if (result.dataset, result.arch) == wanted[:2] and fnmatch(result.scenario, wanted[2])
    ]
    return own if any(not result.is_reference for result in own) else results
