"""The add-ons, aggregations and moments by name. Nothing is imported before a part is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expunge._plugins import subclass_of
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.update._addons import Addon
    from expunge.update._aggregate import Aggregate
    from expunge.update._moments import Moments

ADDONS: Registry[type[Addon]] = Registry(
    "add-on", plugins="expunge.addons", adopt=subclass_of("expunge.update._addons:Addon")
)
ADDONS.declare("none", "expunge.update._addons:NoAddon")
ADDONS.declare("saliency", "expunge.update._addons:Saliency", alias="SalUn")
ADDONS.declare("and", "expunge.update._addons:And", alias="AND")
ADDONS.declare("prob", "expunge.update._addons:Prob", alias="PROB")
ADDONS.declare("bernoulli", "expunge.update._addons:Bernoulli", alias="BER")
ADDONS.declare("focus", "expunge.update._addons:Focus", alias="FOCUS")
ADDONS.declare("optimal", "expunge.update._optimal_mask:Optimal", alias="OPT")

AGGREGATES: Registry[type[Aggregate]] = Registry(
    "aggregation",
    plugins="expunge.aggregates",
    adopt=subclass_of("expunge.update._aggregate:Aggregate"),
    others=("torchjd:NAME",),
)
AGGREGATES.declare("linear", "expunge.update._aggregate:WeightedSum")
AGGREGATES.declare("min-abs", "expunge.update._aggregate:MinAbs")
AGGREGATES.declare("sign-gated", "expunge.update._aggregate:SignGated", alias="SAGO")
AGGREGATES.declare("rectified", "expunge.update._adaptive:Rectified", alias="GRU")
AGGREGATES.declare("primal-dual", "expunge.update._adaptive:PrimalDual", alias="PDU")

MOMENTS: Registry[type[Moments]] = Registry("moments")
MOMENTS.declare("adam", "expunge.update._moments:AdamMoments")
MOMENTS.declare("published", "expunge.update._moments:PublishedMoments")
MOMENTS.declare("sample", "expunge.update._moments:SampleMoments")
