"""The paper's claims, each tested on the records at hand."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.bench.claims._base import STATUSES as STATUSES
    from expunge.bench.claims._base import Claim as Claim
    from expunge.bench.claims._base import ClaimFinding as ClaimFinding
    from expunge.bench.claims._base import ClaimStatus as ClaimStatus
    from expunge.bench.claims._judge import claim_ledger as claim_ledger
    from expunge.bench.claims._judge import judge_claims as judge_claims
    from expunge.bench.claims._ledger import ClaimLedger as ClaimLedger
    from expunge.bench.claims._registry import CLAIMS as CLAIMS
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
