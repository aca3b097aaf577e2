"""The methods by name. Nothing is imported before a method is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expunge._plugins import subclass_of
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.methods._method import Method

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
    "adversarial-examples",
    "expunge.methods._adversarial_examples:AdversarialExamples",
    alias="AMUN",
)
METHODS.declare(
    "tempered-teacher", "expunge.methods._tempered_teacher:TemperedTeacher", alias="LoTUS"
)
METHODS.declare("scrub", "expunge.methods._scrub:Scrub", alias="SCRUB")
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
METHODS.declare("retrain", "expunge.methods._retrain:Retrain", alias="Ideal")
