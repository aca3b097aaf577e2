"""The figures by name. Adding one is its own file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench._records import Record
    from expunge.bench.plots._style import Drawn

FIGURES: Registry[Callable[[Sequence[Record]], Drawn]] = Registry("figure")
FIGURES.declare("masking", "expunge.bench.plots._masking:masking", alias="fig:masking")
FIGURES.declare(
    "noisy-masking", "expunge.bench.plots._prob_masking:noisy_masking", alias="fig:maskingSalUn"
)
FIGURES.declare("agreement", "expunge.bench.plots._density:agreement", alias="fig:distrprob")
FIGURES.declare("heatmap", "expunge.bench.plots._prob_masking:heatmap", alias="fig:heatmap")
FIGURES.declare("addons-srl", "expunge.bench.plots._curves:addons_srl", alias="fig:addonsSRL")
FIGURES.declare(
    "focus-methods", "expunge.bench.plots._curves:focus_methods", alias="fig:addon-methods"
)
FIGURES.declare(
    "addons-ngplus", "expunge.bench.plots._curves:addons_ngplus", alias="fig:addonsngplus"
)
FIGURES.declare("baselines-srl", "expunge.bench.plots._curves:baselines_srl", alias="fig:bestimage")
FIGURES.declare(
    "baselines-ngplus", "expunge.bench.plots._curves:baselines_ngplus", alias="fig:bestimagengplus"
)
FIGURES.declare("frontier", "expunge.bench.plots._frontier:frontier")
FIGURES.declare("clock", "expunge.bench.plots._clock:clock")
FIGURES.declare("rivals", "expunge.bench.plots._rivals:rivals")
FIGURES.declare("forget-quality", "expunge.bench.plots._forget_quality:forget_quality")

OF_TEXTS = ("forget-quality",)
"""The figures of language models; all others are of images."""
