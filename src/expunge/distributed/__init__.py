"""Several processes, one unlearning: every global batch divided, both gradients reduced."""

from expunge.distributed._group import SINGLE as SINGLE
from expunge.distributed._group import Group as Group
from expunge.distributed._group import as_group as as_group
