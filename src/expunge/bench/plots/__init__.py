"""The figures by name: the paper's nine and ours. Nothing here loads matplotlib."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench._results import BenchResult as _Result
    from expunge.bench.plots._style import Drawn as _Drawn
    from expunge.bench.plots._style import WrittenFigures as WrittenFigures
    from expunge.bench.plots._style import write_figures as write_figures
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

FIGURES: "Registry[Callable[[Sequence[_Result]], _Drawn]]" = Registry("figure")
SHOWN_IN_PAPER: dict[str, tuple[str, ...]] = {}
"""Of the paper's figures, in its order: data, model and scenario that it shows; empty without."""
for _name, _place, _alias, *_task in (
    ("masking", "paper._masking:masking", "fig:masking"),
    ("noisy-masking", "paper._masking:noisy_masking", "fig:maskingSalUn"),
    ("agreement", "paper._density:agreement", "fig:distrprob", "cifar10", "vgg16", "random:0.1"),
    ("heatmap", "paper._masking:heatmap", "fig:heatmap"),
    ("addons-srl", "paper._curves:addons_srl", "fig:addonsSRL", "cifar10", "vgg16", "random:0.5"),
    ("focus-methods", "paper._curves:focus_methods", "fig:addon-methods",
     "cifar10", "vgg16", "class:*:0.1"),
    ("addons-ngplus", "paper._curves:addons_ngplus", "fig:addonsngplus",
     "svhn", "resnet18", "class:*:0.1"),
    ("baselines-srl", "paper._curves:baselines_srl", "fig:bestimage",
     "cifar10", "vgg16", "random:0.1"),
    ("baselines-ngplus", "paper._curves:baselines_ngplus", "fig:bestimagengplus",
     "svhn", "resnet18", "random:0.1"),
    ("focus-versus-rate", "paper._frontier:focus_versus_rate", ""),
):  # fmt: skip
    FIGURES.declare(_name, f"expunge.bench.{_place}", alias=_alias)
    if _alias:
        SHOWN_IN_PAPER[_name] = tuple(_task)
