"""Several processes, one unlearning: every global batch divided, both gradients reduced."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.distributed._group import SINGLE as SINGLE
    from expunge.distributed._group import Group as Group
    from expunge.distributed._group import as_group as as_group
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.distributed._batch_shares import (
        UNDIVIDED,
        BatchDivision,
        BatchShare,
        draw_share,
        share_weight,
    )
    from expunge.distributed._batchnorm import synchronised
    from expunge.distributed._group import (
        check_same_bits,
        inference_group,
        interleave,
        shared_inference,
    )
    from expunge.distributed._launch import (
        check_timeout,
        launched_group,
        launched_rank,
        launched_size,
    )
    from expunge.distributed._loader import (
        DividedBatches,
        batch_count,
        divide_loader,
        has_distributed_sampler,
        loader_options,
        sampler_of,
    )
    from expunge.distributed._reduction import start_reduction
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
