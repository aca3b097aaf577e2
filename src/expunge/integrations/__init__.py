"""Training loops of other libraries; each needs its own package, imported on first use."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.integrations._hf_trainer import UnlearningTrainer as UnlearningTrainer
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
