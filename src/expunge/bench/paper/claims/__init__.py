"""The paper's claims, and ours about it, each tested on the results at hand.

Adding a claim is its rule in one of these modules, and its name here.
"""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench.paper.claims._base import Claim as Claim
    from expunge.bench.paper.claims._base import ClaimFinding as ClaimFinding
    from expunge.bench.paper.claims._ledger import ClaimLedger as ClaimLedger
    from expunge.bench.paper.claims._ledger import claim_ledger as claim_ledger
    from expunge.bench.paper.claims._ledger import counts_of as counts_of
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

CLAIMS: "Registry[Claim]" = Registry("claim")
for _module, _names in {
    "_metric_shift": "focus-rua prob-rua and-rua focus-mia all-mia ta-cost salun-little "
    "and-unstable early-ta msg-threshold",
    "_cost": "overhead salun-overhead fast twice",
    "_gradients": "product-zero product-shrinks quarters and-shrinks flat-constraint",
    "_addon_order": "order",
    "_frontier": "clock clock-masks clock-rmia clock-unseen ngplus-dominated",
}.items():
    for _name in _names.split():
        CLAIMS.declare(_name, f"{__name__}.{_module}:{_name.upper().replace('-', '_')}")
