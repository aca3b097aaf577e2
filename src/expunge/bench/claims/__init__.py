"""The paper's claims, each tested on the records at hand."""

from expunge.bench.claims.claim import STATUSES as STATUSES
from expunge.bench.claims.claim import Claim as Claim
from expunge.bench.claims.claim import Finding as Finding
from expunge.bench.claims.claim import Status as Status
from expunge.bench.claims.known import CLAIMS as CLAIMS
from expunge.bench.claims.ledger import Ledger as Ledger
from expunge.bench.claims.ledger import judge_claims as judge_claims
