"""Unlearning methods, a file each; ``_registry.py`` has a line for each of them."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge._options import BatchNormPolicy as BatchNormPolicy
    from expunge.data import Batch as Batch
    from expunge.methods._bad_teacher import BadTeacher as BadTeacher
    from expunge.methods._ceu import CEU as CEU
    from expunge.methods._contrastive_rounds import ContrastiveRounds as ContrastiveRounds
    from expunge.methods._conv_transpose import ConvTranspose as ConvTranspose
    from expunge.methods._dpo import DPO as DPO
    from expunge.methods._fine_tune import FineTune as FineTune
    from expunge.methods._fisher_noise import FisherNoise as FisherNoise
    from expunge.methods._gradient_ascent import GradientAscent as GradientAscent
    from expunge.methods._gradient_difference import GradientDifference as GradientDifference
    from expunge.methods._impair_repair import ImpairRepair as ImpairRepair
    from expunge.methods._l1_sparse import L1Sparse as L1Sparse
    from expunge.methods._logit_margin import LogitMargin as LogitMargin
    from expunge.methods._mask_small_gradients import MaskSmallGradients as MaskSmallGradients
    from expunge.methods._masked_teacher import MaskedTeacher as MaskedTeacher
    from expunge.methods._match_answers import MatchAnswers as MatchAnswers
    from expunge.methods._match_unseen import MatchUnseen as MatchUnseen
    from expunge.methods._method import Method as Method
    from expunge.methods._neg_grad_plus import NegGradPlus as NegGradPlus
    from expunge.methods._npo import NPO as NPO
    from expunge.methods._problem import Problem as Problem
    from expunge.methods._random_label import RandomLabel as RandomLabel
    from expunge.methods._refresh import Refresh as Refresh
    from expunge.methods._registry import METHODS as METHODS
    from expunge.methods._registry import RETAIN_LOSSES as RETAIN_LOSSES
    from expunge.methods._retain_losses import RetainKL as RetainKL
    from expunge.methods._retain_losses import RetainLoss as RetainLoss
    from expunge.methods._retain_losses import RetainNLL as RetainNLL
    from expunge.methods._retrain import Retrain as Retrain
    from expunge.methods._rmu import RMU as RMU
    from expunge.methods._rmu import RetainActivations as RetainActivations
    from expunge.methods._scrub import Scrub as Scrub
    from expunge.methods._selective_dampening import SelectiveDampening as SelectiveDampening
    from expunge.methods._simnpo import SimNPO as SimNPO
    from expunge.methods._token_method import TokenMethod as TokenMethod
    from expunge.methods._tokens import next_token_loss as next_token_loss
    from expunge.methods._undial import UNDIAL as UNDIAL
    from expunge.methods._weighted_ascent import WGA as WGA
    from expunge.methods._weighted_ascent import SatImp as SatImp
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.methods._problem import Loss, SplitName, apply, eval_mode, kept_modes
    from expunge.methods._tokens import is_token_labels
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
