"""Training loops and tasks of other libraries, which are imported on first use."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.integrations._hf_trainer import UnlearningTrainer as UnlearningTrainer
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.integrations._lm_eval import harness_scores
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
