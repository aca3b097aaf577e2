"""The claims by name, in the order of the ledger. Adding one is its own file and a line here."""

from __future__ import annotations

from expunge.bench.claims.agreement import QUARTERS
from expunge.bench.claims.claim import Claim
from expunge.bench.claims.clock import CLOCK
from expunge.bench.claims.cost import FAST, OVERHEAD, SALUN_OVERHEAD
from expunge.bench.claims.gradients import PRODUCT_SHRINKS, PRODUCT_ZERO
from expunge.bench.claims.order import ORDER
from expunge.bench.claims.shift import (
    AND_RUA,
    FOCUS_MIA,
    FOCUS_RUA,
    PROB_RUA,
    SALUN_LITTLE,
    TA_COST,
)
from expunge.bench.claims.stability import AND_UNSTABLE, EARLY_TA
from expunge.registry import Registry

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
