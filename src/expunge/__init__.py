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
    from expunge.engine import History as History
    from expunge.engine import Recipe as Recipe
    from expunge.engine import Result as Result
    from expunge.engine import Rewind as Rewind
    from expunge.engine import train as train
    from expunge.engine import unlearn as unlearn
    from expunge.evaluation import Scores as Scores
    from expunge.evaluation import TextScores as TextScores
    from expunge.evaluation import evaluate as evaluate
    from expunge.methods import CEU as CEU
    from expunge.methods import DPO as DPO
    from expunge.methods import NPO as NPO
    from expunge.methods import RMU as RMU
    from expunge.methods import UNDIAL as UNDIAL
    from expunge.methods import WGA as WGA
    from expunge.methods import AdversarialExamples as AdversarialExamples
    from expunge.methods import BadTeacher as BadTeacher
    from expunge.methods import Batch as Batch
    from expunge.methods import ContrastiveRounds as ContrastiveRounds
    from expunge.methods import ConvTranspose as ConvTranspose
    from expunge.methods import FineTune as FineTune
    from expunge.methods import FisherNoise as FisherNoise
    from expunge.methods import GradientAlignment as GradientAlignment
    from expunge.methods import GradientAscent as GradientAscent
    from expunge.methods import GradientDifference as GradientDifference
    from expunge.methods import IdkDPO as IdkDPO
    from expunge.methods import ImpairRepair as ImpairRepair
    from expunge.methods import L1Sparse as L1Sparse
    from expunge.methods import MaskedTeacher as MaskedTeacher
    from expunge.methods import MaskSmallGradients as MaskSmallGradients
    from expunge.methods import MatchAnswers as MatchAnswers
    from expunge.methods import MatchUnseen as MatchUnseen
    from expunge.methods import Method as Method
    from expunge.methods import NegGradPlus as NegGradPlus
    from expunge.methods import Problem as Problem
    from expunge.methods import RandomLabel as RandomLabel
    from expunge.methods import ReferenceGuided as ReferenceGuided
    from expunge.methods import Refresh as Refresh
    from expunge.methods import RetainActivations as RetainActivations
    from expunge.methods import RetainKL as RetainKL
    from expunge.methods import RetainLoss as RetainLoss
    from expunge.methods import RetainNLL as RetainNLL
    from expunge.methods import Retrain as Retrain
    from expunge.methods import SatImp as SatImp
    from expunge.methods import Scrub as Scrub
    from expunge.methods import SelectiveDampening as SelectiveDampening
    from expunge.methods import SimNPO as SimNPO
    from expunge.methods import TemperedTeacher as TemperedTeacher
    from expunge.methods import TokenMethod as TokenMethod
    from expunge.methods import next_token_loss as next_token_loss
    from expunge.models import build_model as build_model
    from expunge.request import Outcome as Outcome
    from expunge.request import forget as forget
    from expunge.update import AdamMoments as AdamMoments
    from expunge.update import Addon as Addon
    from expunge.update import Aggregate as Aggregate
    from expunge.update import And as And
    from expunge.update import Bernoulli as Bernoulli
    from expunge.update import Diagnostics as Diagnostics
    from expunge.update import Focus as Focus
    from expunge.update import FocusOptimal as FocusOptimal
    from expunge.update import Jacobian as Jacobian
    from expunge.update import Linear as Linear
    from expunge.update import LossScale as LossScale
    from expunge.update import MinAbs as MinAbs
    from expunge.update import Moments as Moments
    from expunge.update import NoAddon as NoAddon
    from expunge.update import Optimal as Optimal
    from expunge.update import PrimalDual as PrimalDual
    from expunge.update import Prob as Prob
    from expunge.update import PublishedMoments as PublishedMoments
    from expunge.update import Rectified as Rectified
    from expunge.update import Saliency as Saliency
    from expunge.update import SampleMoments as SampleMoments
    from expunge.update import SandMask as SandMask
    from expunge.update import Signals as Signals
    from expunge.update import SignGated as SignGated
    from expunge.update import Term as Term
    from expunge.update import TorchJD as TorchJD
    from expunge.update import Update as Update
    from expunge.update import Weighted as Weighted
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

__version__ = "0.1.0"
