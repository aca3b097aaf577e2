"""The methods, by name. Adding one is its own file and one line here."""

from expunge._registry import Registry
from expunge.data._batches import Batch as Batch
from expunge.methods._batchnorm import BatchNormPolicy as BatchNormPolicy
from expunge.methods._conv_transpose import ConvTranspose as ConvTranspose
from expunge.methods._fine_tune import FineTune as FineTune
from expunge.methods._gradient_ascent import GradientAscent as GradientAscent
from expunge.methods._gradient_difference import GradientDifference as GradientDifference
from expunge.methods._l1_sparse import L1Sparse as L1Sparse
from expunge.methods._mask_small_gradients import MaskSmallGradients as MaskSmallGradients
from expunge.methods._method import Method as Method
from expunge.methods._neg_grad_plus import NegGradPlus as NegGradPlus
from expunge.methods._npo import NPO as NPO
from expunge.methods._problem import Problem as Problem
from expunge.methods._random_label import RandomLabel as RandomLabel
from expunge.methods._retrain import Retrain as Retrain
from expunge.methods._scrub import Scrub as Scrub
from expunge.methods._tokens import next_token_loss as next_token_loss

METHODS: Registry[type[Method]] = Registry("method")
METHODS.add("fine-tune", FineTune, alias="FT")
METHODS.add("gradient-ascent", GradientAscent, alias="GA")
METHODS.add("neg-grad-plus", NegGradPlus, alias="NGPlus")
METHODS.add("random-label", RandomLabel, alias="SRL")
METHODS.add("l1-sparse", L1Sparse)
METHODS.add("scrub", Scrub, alias="SCRUB")
METHODS.add("mask-small-gradients", MaskSmallGradients, alias="MSG")
METHODS.add("conv-transpose", ConvTranspose, alias="CT")
METHODS.add("gradient-difference", GradientDifference, alias="GradDiff")
METHODS.add("npo", NPO, alias="NPO")
METHODS.add("retrain", Retrain, alias="Ideal")
