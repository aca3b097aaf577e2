"""The claims by name, in the order of the ledger. Adding one is its own file and a line here."""

from __future__ import annotations

from expunge._registry import Registry
from expunge.bench.claims._addon_order import ORDER
from expunge.bench.claims._agreement import QUARTERS
from expunge.bench.claims._base import Claim
from expunge.bench.claims._cost import FAST, OVERHEAD, SALUN_OVERHEAD
from expunge.bench.claims._faster_clock import CLOCK
from expunge.bench.claims._gradients import PRODUCT_SHRINKS, PRODUCT_ZERO
from expunge.bench.claims._metric_shift import (
    AND_RUA,
    FOCUS_MIA,
    FOCUS_RUA,
    PROB_RUA,
    SALUN_LITTLE,
    TA_COST,
)
from expunge.bench.claims._unstable_runs import AND_UNSTABLE, EARLY_TA

CLAIMS: Registry[Claim] = Registry("claim")
for _claim in (
    FOCUS_RUA,
    PROB_RUA,
    AND_RUA,
    FOCUS_MIA,
    TA_COST,
    SALUN_LITTLE,
    AND_UNSTABLE,
    EARLY_TA,
    OVERHEAD,
    SALUN_OVERHEAD,
    PRODUCT_ZERO,
    PRODUCT_SHRINKS,
    QUARTERS,
    ORDER,
    FAST,
    CLOCK,
):
    CLAIMS.add(_claim.name, _claim)
