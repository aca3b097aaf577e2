"""The methods and retain losses by name. Nothing is imported before one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expunge._plugins import subclass_of
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.methods._method import Method
    from expunge.methods._retain_losses import RetainLoss

METHODS: Registry[type[Method]] = Registry(
    "method", plugins="expunge.methods", adopt=subclass_of("expunge.methods._method:Method")
)
METHODS.declare("fine-tune", "expunge.methods._fine_tune:FineTune", alias="FT")
METHODS.declare("gradient-ascent", "expunge.methods._gradient_ascent:GradientAscent", alias="GA")
METHODS.declare("neg-grad-plus", "expunge.methods._neg_grad_plus:NegGradPlus", alias="NGPlus")
METHODS.declare("random-label", "expunge.methods._random_label:RandomLabel", alias="SRL")
METHODS.declare("l1-sparse", "expunge.methods._l1_sparse:L1Sparse")
METHODS.declare("match-unseen", "expunge.methods._match_unseen:MatchUnseen", alias="MATCH")
METHODS.declare(
    "reference-guided", "expunge.methods._reference_guided:ReferenceGuided", alias="ReGUn"
)
METHODS.declare(
    "tempered-teacher", "expunge.methods._tempered_teacher:TemperedTeacher", alias="LoTUS"
)
METHODS.declare("scrub", "expunge.methods._scrub:Scrub", alias="SCRUB")
METHODS.declare("bad-teacher", "expunge.methods._bad_teacher:BadTeacher", alias="BadT")
METHODS.declare("masked-teacher", "expunge.methods._masked_teacher:MaskedTeacher", alias="DELETE")
METHODS.declare("impair-repair", "expunge.methods._impair_repair:ImpairRepair", alias="UNSIR")
METHODS.declare(
    "contrastive-rounds",
    "expunge.methods._contrastive_rounds:ContrastiveRounds",
    alias="NeurIPS23",
)
METHODS.declare(
    "selective-dampening", "expunge.methods._selective_dampening:SelectiveDampening", alias="SSD"
)
METHODS.declare("fisher-noise", "expunge.methods._fisher_noise:FisherNoise", alias="Fisher")
METHODS.declare(
    "mask-small-gradients", "expunge.methods._mask_small_gradients:MaskSmallGradients", alias="MSG"
)
METHODS.declare("conv-transpose", "expunge.methods._conv_transpose:ConvTranspose", alias="CT")
METHODS.declare(
    "gradient-difference",
    "expunge.methods._gradient_difference:GradientDifference",
    alias="GradDiff",
)
METHODS.declare("npo", "expunge.methods._npo:NPO", alias="NPO")
METHODS.declare("simnpo", "expunge.methods._simnpo:SimNPO", alias="SimNPO")
METHODS.declare("dpo", "expunge.methods._dpo:DPO", alias="DPO")
METHODS.declare("wga", "expunge.methods._weighted_ascent:WGA", alias="WGA")
METHODS.declare("satimp", "expunge.methods._weighted_ascent:SatImp", alias="SatImp")
METHODS.declare("undial", "expunge.methods._undial:UNDIAL", alias="UNDIAL")
METHODS.declare("ce-u", "expunge.methods._ceu:CEU", alias="CE-U")
METHODS.declare("rmu", "expunge.methods._rmu:RMU", alias="RMU")
METHODS.declare("match-answers", "expunge.methods._match_answers:MatchAnswers", alias="MATCH-LM")
METHODS.declare("refresh", "expunge.methods._refresh:Refresh")
METHODS.declare("retrain", "expunge.methods._retrain:Retrain", alias="Ideal")

RETAIN_LOSSES: Registry[type[RetainLoss]] = Registry("retain loss")
RETAIN_LOSSES.declare("nll", "expunge.methods._retain_losses:RetainNLL", alias="NLL")
RETAIN_LOSSES.declare("kl", "expunge.methods._retain_losses:RetainKL", alias="KL")
RETAIN_LOSSES.declare("activations", "expunge.methods._rmu:RetainActivations")
