"""A deletion request: from a list of ids to an unlearned model and its evidence."""

from expunge.request.carry import Outcome as Outcome
from expunge.request.carry import carry_out as carry_out
from expunge.request.carry import forget as forget
from expunge.request.job import Job as Job
from expunge.request.job import load_job as load_job
from expunge.request.ledger import Ledger as Ledger
from expunge.request.verify import verify as verify
