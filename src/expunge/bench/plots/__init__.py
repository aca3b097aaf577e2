"""The figures by name: the paper's nine and ours. Nothing here loads matplotlib."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench._results import Result as _Result
    from expunge.bench.plots._style import Drawn as _Drawn
    from expunge.bench.plots._style import WrittenFigures as WrittenFigures
    from expunge.bench.plots._style import write_figures as write_figures
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

FIGURES: "Registry[Callable[[Sequence[_Result]], _Drawn]]" = Registry("figure")
for _name, _place, _alias in (
    ("masking", "paper._masking:masking", "fig:masking"),
    ("noisy-masking", "paper._masking:noisy_masking", "fig:maskingSalUn"),
    ("agreement", "paper._density:agreement", "fig:distrprob"),
    ("heatmap", "paper._masking:heatmap", "fig:heatmap"),
    ("addons-srl", "paper._curves:addons_srl", "fig:addonsSRL"),
    ("focus-methods", "paper._curves:focus_methods", "fig:addon-methods"),
    ("addons-ngplus", "paper._curves:addons_ngplus", "fig:addonsngplus"),
    ("baselines-srl", "paper._curves:baselines_srl", "fig:bestimage"),
    ("baselines-ngplus", "paper._curves:baselines_ngplus", "fig:bestimagengplus"),
    ("focus-versus-rate", "plots._frontier:focus_versus_rate", ""),
):
    FIGURES.declare(_name, f"expunge.bench.{_place}", alias=_alias)
