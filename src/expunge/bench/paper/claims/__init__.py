"""The paper's claims, and ours about it, each tested on the results at hand.

Adding a claim is its rule in one of these modules, and a line here.
"""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench.paper.claims._base import Claim as Claim
    from expunge.bench.paper.claims._base import ClaimFinding as ClaimFinding
    from expunge.bench.paper.claims._ledger import ClaimLedger as ClaimLedger
    from expunge.bench.paper.claims._ledger import claim_ledger as claim_ledger
    from expunge.bench.paper.claims._ledger import judge_claims as judge_claims
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

CLAIMS: "Registry[Claim]" = Registry("claim")
for _name, _place in {
    "focus-rua": "_metric_shift:FOCUS_RUA",
    "prob-rua": "_metric_shift:PROB_RUA",
    "and-rua": "_metric_shift:AND_RUA",
    "focus-mia": "_metric_shift:FOCUS_MIA",
    "all-mia": "_metric_shift:ALL_MIA",
    "ta-cost": "_metric_shift:TA_COST",
    "salun-little": "_metric_shift:SALUN_LITTLE",
    "and-unstable": "_metric_shift:AND_UNSTABLE",
    "early-ta": "_metric_shift:EARLY_TA",
    "overhead": "_cost:OVERHEAD",
    "salun-overhead": "_cost:SALUN_OVERHEAD",
    "product-zero": "_gradients:PRODUCT_ZERO",
    "product-shrinks": "_gradients:PRODUCT_SHRINKS",
    "quarters": "_gradients:QUARTERS",
    "and-shrinks": "_gradients:AND_SHRINKS",
    "order": "_addon_order:ORDER",
    "fast": "_cost:FAST",
    "twice": "_cost:TWICE",
    "clock": "_frontier:CLOCK",
    "clock-masks": "_frontier:CLOCK_MASKS",
    "clock-rmia": "_frontier:CLOCK_RMIA",
    "clock-unseen": "_frontier:CLOCK_UNSEEN",
    "ngplus-dominated": "_frontier:NGPLUS_DOMINATED",
    "text-focus-utility": "_texts:FOCUS_UTILITY",
    "text-prob-utility": "_texts:PROB_UTILITY",
    "text-focus-privacy": "_texts:FOCUS_PRIVACY",
    "text-prob-privacy": "_texts:PROB_PRIVACY",
    "text-focus-quality": "_texts:FOCUS_QUALITY",
    "text-prob-quality": "_texts:PROB_QUALITY",
}.items():
    CLAIMS.declare(_name, f"{__name__}.{_place}")
