"""Gradient algebra: from two batch gradients to one step (Sections 4 and 5 of the paper)."""

from expunge.update.addons import ADDONS as ADDONS
from expunge.update.addons import Addon as Addon
from expunge.update.addons import And as And
from expunge.update.addons import Bernoulli as Bernoulli
from expunge.update.addons import Focus as Focus
from expunge.update.addons import NoAddon as NoAddon
from expunge.update.addons import Prob as Prob
from expunge.update.addons import Saliency as Saliency
from expunge.update.addons import Signals as Signals
from expunge.update.aggregate import AGGREGATES as AGGREGATES
from expunge.update.aggregate import Aggregate as Aggregate
from expunge.update.aggregate import Jacobian as Jacobian
from expunge.update.aggregate import Linear as Linear
from expunge.update.aggregate import MinAbs as MinAbs
from expunge.update.diagnostics import Diagnostics as Diagnostics
from expunge.update.gradients import Term as Term
from expunge.update.moments import MOMENTS as MOMENTS
from expunge.update.moments import AdamMoments as AdamMoments
from expunge.update.moments import Moments as Moments
from expunge.update.moments import PublishedMoments as PublishedMoments
from expunge.update.moments import SampleMoments as SampleMoments
from expunge.update.scale import LossScale as LossScale
from expunge.update.update import Update as Update
