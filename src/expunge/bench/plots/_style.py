"""How things look: one colour, marker and dash for each method and add-on in all figures."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from expunge.plotting._curves import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

Drawn = list[tuple[str, "Figure"]]
"""Figures with the suffix of each one's file name; empty where there is but one."""

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
class Look:
    """How a line is drawn; markers of base methods are hollow, those of add-ons filled."""

    colour: str
    marker: str
    dash: Any
    filled: bool = False

    def line(self) -> dict[str, Any]:
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


METHOD_LOOKS = {
    "random-label": Look(BLUE, "s", (0, (5, 1.5))),
    "neg-grad-plus": Look(GREEN, "^", (0, (3.5, 1.2))),
    "scrub": Look(PINK, "D", (0, (5, 1.2, 1, 1.2))),
    "fine-tune": Look(GREY, "v", (0, (2, 1))),
    "mask-small-gradients": Look(ORANGE, "P", (0, (3, 1, 1, 1, 1, 1))),
    "conv-transpose": Look(SKY, "<", (0, (6, 1, 1, 1))),
    "gradient-ascent": Look(ORANGE, ">", (0, (1, 0.8))),
    "l1-sparse": Look(SKY, "h", (0, (7, 2))),
}
ADDON_LOOKS = {
    "saliency": Look(BLACK, "X", (0, (4, 1, 1, 1)), filled=True),
    "and": Look(ORANGE, "d", (0, (2, 0.8)), filled=True),
    "prob": Look(SKY, "p", (0, (6, 1, 1, 1, 1, 1)), filled=True),
    "bernoulli": Look(GREY, "*", (0, (1, 0.8)), filled=True),
    "focus": Look(VERMILLION, "o", "-", filled=True),
}
UNKNOWN = Look(BLACK, ".", "-")


def look_of(method: str, addon: str, *, by_method: bool = False) -> Look:
    """The look of an arm: its add-on's, or its method's where there is none.

    With ``by_method``, where several methods share an add-on, the method gives colour and marker
    and the add-on dash and filling.
    """
    base = METHOD_LOOKS.get(method, UNKNOWN)
    if addon in ("", "none"):
        return base
    own = ADDON_LOOKS.get(addon, replace(UNKNOWN, filled=True))
    return replace(base, dash=own.dash, filled=own.filled) if by_method else own


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Have a function draw with :data:`STYLE`, and leave matplotlib's settings as they were."""

    @functools.wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        import matplotlib as mpl

        settings: Any = STYLE
        with mpl.rc_context(settings):
            return draw(*args, **kwargs)

    return wrapped


LETTERS_AN_INCH = 18
"""How many letters of the small print fit beside each other, roughly."""


def add_note(figure: Figure, lines: Sequence[str]) -> None:
    """Small print below a figure, in lines that fit it: where its numbers come from."""
    letters = int(LETTERS_AN_INCH * figure.get_figwidth())
    fitting = [part for line in lines if line for part in textwrap.wrap(line, letters)]
    if fitting:
        figure.supxlabel("\n".join(fitting), fontsize=6.5, color=QUIET)
