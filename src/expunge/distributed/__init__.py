"""Several processes, one unlearning: every global batch divided, both gradients reduced."""

from expunge.distributed.group import SINGLE as SINGLE
from expunge.distributed.group import Group as Group
from expunge.distributed.group import as_group as as_group
