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
for _name, _place, _alias in (
    ("fine-tune", "_fine_tune:FineTune", "FT"),
    ("gradient-ascent", "_gradient_ascent:GradientAscent", "GA"),
    ("neg-grad-plus", "_neg_grad_plus:NegGradPlus", "NGPlus"),
    ("random-label", "_random_label:RandomLabel", "SRL"),
    ("l1-sparse", "_l1_sparse:L1Sparse", None),
    ("match-unseen", "_match_unseen:MatchUnseen", "MATCH"),
    ("scrub", "_scrub:Scrub", "SCRUB"),
    ("bad-teacher", "_bad_teacher:BadTeacher", "BadT"),
    ("masked-teacher", "_masked_teacher:MaskedTeacher", "DELETE"),
    ("impair-repair", "_impair_repair:ImpairRepair", "UNSIR"),
    ("contrastive-rounds", "_contrastive_rounds:ContrastiveRounds", "NeurIPS23"),
    ("selective-dampening", "_selective_dampening:SelectiveDampening", "SSD"),
    ("fisher-noise", "_fisher_noise:FisherNoise", "Fisher"),
    ("mask-small-gradients", "_mask_small_gradients:MaskSmallGradients", "MSG"),
    ("conv-transpose", "_conv_transpose:ConvTranspose", "CT"),
    ("gradient-difference", "_gradient_difference:GradientDifference", "GradDiff"),
    ("npo", "_npo:NPO", "NPO"),
    ("simnpo", "_simnpo:SimNPO", "SimNPO"),
    ("dpo", "_dpo:DPO", "DPO"),
    ("wga", "_weighted_ascent:WGA", "WGA"),
    ("satimp", "_weighted_ascent:SatImp", "SatImp"),
    ("undial", "_undial:UNDIAL", "UNDIAL"),
    ("ce-u", "_ceu:CEU", "CE-U"),
    ("logit-margin", "_logit_margin:LogitMargin", None),
    ("rmu", "_rmu:RMU", "RMU"),
    ("match-answers", "_match_answers:MatchAnswers", "MATCH-LM"),
    ("refresh", "_refresh:Refresh", None),
    ("retrain", "_retrain:Retrain", "Ideal"),
):
    METHODS.declare(_name, f"expunge.methods.{_place}", alias=_alias)

RETAIN_LOSSES: Registry[type[RetainLoss]] = Registry("retain loss")
RETAIN_LOSSES.declare("nll", "expunge.methods._retain_losses:RetainNLL", alias="NLL")
RETAIN_LOSSES.declare("kl", "expunge.methods._retain_losses:RetainKL", alias="KL")
RETAIN_LOSSES.declare("activations", "expunge.methods._rmu:RetainActivations")
