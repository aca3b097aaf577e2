"""Several processes, one unlearning: every global batch divided, both gradients reduced."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.distributed._group import SINGLE as SINGLE
    from expunge.distributed._group import Group as Group
    from expunge.distributed._group import as_group as as_group
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
