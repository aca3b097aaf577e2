"""Machine unlearning for PyTorch."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge import audit as audit
    from expunge import data as data
    from expunge import dispatch as dispatch
    from expunge import distributed as distributed
    from expunge import engine as engine
    from expunge import evaluation as evaluation
    from expunge import integrations as integrations
    from expunge import methods as methods
    from expunge import models as models
    from expunge import report as report
    from expunge import request as request
    from expunge import store as store
    from expunge import track as track
    from expunge import update as update
    from expunge._errors import DataError as DataError
    from expunge._errors import Diverged as Diverged
    from expunge._errors import ExpungeError as ExpungeError
    from expunge._errors import InvalidInput as InvalidInput
    from expunge._errors import LostProcess as LostProcess
    from expunge._errors import PluginWarning as PluginWarning
    from expunge._errors import StorageError as StorageError
    from expunge.data import Augment as Augment
    from expunge.data import Examples as Examples
    from expunge.data import ImageSet as ImageSet
    from expunge.data import TextSet as TextSet
    from expunge.engine import Callback as Callback
    from expunge.engine import Execution as Execution
    from expunge.engine import History as History
    from expunge.engine import Procedure as Procedure
    from expunge.engine import Recipe as Recipe
    from expunge.engine import Result as Result
    from expunge.engine import train as train
    from expunge.engine import unlearn as unlearn
    from expunge.evaluation import Scores as Scores
    from expunge.evaluation import evaluate as evaluate
    from expunge.methods import Batch as Batch
    from expunge.methods import Method as Method
    from expunge.methods import Problem as Problem
    from expunge.models import build_model as build_model
    from expunge.request import Outcome as Outcome
    from expunge.request import forget as forget
    from expunge.update import AdamMoments as AdamMoments
    from expunge.update import Addon as Addon
    from expunge.update import Aggregate as Aggregate
    from expunge.update import And as And
    from expunge.update import Bernoulli as Bernoulli
    from expunge.update import Focus as Focus
    from expunge.update import MinAbs as MinAbs
    from expunge.update import Moments as Moments
    from expunge.update import Prob as Prob
    from expunge.update import PublishedMoments as PublishedMoments
    from expunge.update import Saliency as Saliency
    from expunge.update import SampleMoments as SampleMoments
    from expunge.update import Signals as Signals
    from expunge.update import Term as Term
    from expunge.update import Update as Update
    from expunge.update import WeightedSum as WeightedSum
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

__version__ = "0.1.0"
