"""The audit of an unlearned model: every rung of the ladder that the budget allows."""

from expunge.audit.audit import Audit as Audit
from expunge.audit.audit import Subject as Subject
from expunge.audit.audit import audit as audit
from expunge.audit.budget import Rung as Rung
from expunge.audit.budget import choose_rung as choose_rung
from expunge.audit.ulira import ULiRA as ULiRA
from expunge.audit.ulira import ulira as ulira
