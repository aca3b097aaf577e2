"""The claims by name, in the order of the ledger. Adding one is its own rule and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench.claims._base import Claim

CLAIMS: Registry[Claim] = Registry("claim")
CLAIMS.declare("focus-rua", "expunge.bench.claims._metric_shift:FOCUS_RUA")
CLAIMS.declare("prob-rua", "expunge.bench.claims._metric_shift:PROB_RUA")
CLAIMS.declare("and-rua", "expunge.bench.claims._metric_shift:AND_RUA")
CLAIMS.declare("focus-mia", "expunge.bench.claims._metric_shift:FOCUS_MIA")
CLAIMS.declare("ta-cost", "expunge.bench.claims._metric_shift:TA_COST")
CLAIMS.declare("salun-little", "expunge.bench.claims._metric_shift:SALUN_LITTLE")
CLAIMS.declare("and-unstable", "expunge.bench.claims._unstable_runs:AND_UNSTABLE")
CLAIMS.declare("early-ta", "expunge.bench.claims._unstable_runs:EARLY_TA")
CLAIMS.declare("overhead", "expunge.bench.claims._cost:OVERHEAD")
CLAIMS.declare("salun-overhead", "expunge.bench.claims._cost:SALUN_OVERHEAD")
CLAIMS.declare("product-zero", "expunge.bench.claims._gradients:PRODUCT_ZERO")
CLAIMS.declare("product-shrinks", "expunge.bench.claims._gradients:PRODUCT_SHRINKS")
CLAIMS.declare("quarters", "expunge.bench.claims._gradients:QUARTERS")
CLAIMS.declare("order", "expunge.bench.claims._addon_order:ORDER")
CLAIMS.declare("fast", "expunge.bench.claims._cost:FAST")
CLAIMS.declare("clock", "expunge.bench.claims._frontier:CLOCK")
CLAIMS.declare("clock-masks", "expunge.bench.claims._frontier:CLOCK_MASKS")
CLAIMS.declare("clock-rmia", "expunge.bench.claims._frontier:CLOCK_RMIA")
CLAIMS.declare("clock-unseen", "expunge.bench.claims._frontier:CLOCK_UNSEEN")
CLAIMS.declare("text-focus-utility", "expunge.bench.claims._texts:FOCUS_UTILITY")
CLAIMS.declare("text-prob-utility", "expunge.bench.claims._texts:PROB_UTILITY")
CLAIMS.declare("text-focus-privacy", "expunge.bench.claims._texts:FOCUS_PRIVACY")
CLAIMS.declare("text-prob-privacy", "expunge.bench.claims._texts:PROB_PRIVACY")
CLAIMS.declare("text-focus-quality", "expunge.bench.claims._texts:FOCUS_QUALITY")
CLAIMS.declare("text-prob-quality", "expunge.bench.claims._texts:PROB_QUALITY")
