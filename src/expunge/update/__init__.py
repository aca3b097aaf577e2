"""Gradient algebra: from two batch gradients to one step (Sections 4 and 5 of the paper)."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.update._adaptive import AdaptiveSum as AdaptiveSum
    from expunge.update._adaptive import PrimalDual as PrimalDual
    from expunge.update._adaptive import Rectified as Rectified
    from expunge.update._addons import Addon as Addon
    from expunge.update._addons import And as And
    from expunge.update._addons import Bernoulli as Bernoulli
    from expunge.update._addons import Focus as Focus
    from expunge.update._addons import NoAddon as NoAddon
    from expunge.update._addons import Prob as Prob
    from expunge.update._addons import Saliency as Saliency
    from expunge.update._addons import Signals as Signals
    from expunge.update._aggregate import Aggregate as Aggregate
    from expunge.update._aggregate import Jacobian as Jacobian
    from expunge.update._aggregate import MinAbs as MinAbs
    from expunge.update._aggregate import SignGated as SignGated
    from expunge.update._aggregate import TorchJD as TorchJD
    from expunge.update._aggregate import WeightedSum as WeightedSum
    from expunge.update._gradients import Term as Term
    from expunge.update._kernel import Diagnostics as Diagnostics
    from expunge.update._moments import AdamMoments as AdamMoments
    from expunge.update._moments import Moments as Moments
    from expunge.update._moments import PublishedMoments as PublishedMoments
    from expunge.update._moments import SampleMoments as SampleMoments
    from expunge.update._optimal_mask import Optimal as Optimal
    from expunge.update._registry import ADDONS as ADDONS
    from expunge.update._registry import AGGREGATES as AGGREGATES
    from expunge.update._registry import MOMENTS as MOMENTS
    from expunge.update._update import Update as Update
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.update._addons import RELATIVE_EPS
    from expunge.update._aggregate import aggregate_label, aggregate_name, as_aggregate
    from expunge.update._gradients import LossGradient, check_scalar, loss_gradient
    from expunge.update._kernel import signed_agreement
    from expunge.update._shards import is_sharded
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
