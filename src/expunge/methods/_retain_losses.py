"""Retain losses: what a method for language models keeps of the model while it forgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from expunge._kinds import Part
from expunge.data import Batch
from expunge.methods._problem import Problem
from expunge.methods._scrub import kl_divergence
from expunge.methods._tokens import count_of, labelled, next_token_loss


@dataclass(frozen=True)
class RetainLoss(Part):
    """Base of the retain losses: C of a :class:`TokenMethod`, whatever its forget loss is."""

    needs_initial: ClassVar[bool] = False
    """Whether the loss compares with the initial model."""

    def loss(self, problem: Problem, retain: Batch) -> Tensor:
        """C on a retain batch, a mean over :meth:`size` items."""
        raise TypeError(f"{type(self).__name__} should define `loss`.")

    def size(self, retain: Batch) -> float:
        """The number of items that the loss is a mean over: by default labelled tokens."""
        return count_of(retain.targets)


@dataclass(frozen=True)
class RetainNLL(RetainLoss):
    """C = -log π(y_t | y_<t), the mean over the labelled retain tokens.

    It keeps what the retain data say. Where they are few, the model learns them by heart.

    Use it by default, with as much retain data as there is.

    Reference: P. Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024 (arXiv
    2401.06121), where it is the retain loss of gradient difference.
    """

    def loss(self, problem: Problem, retain: Batch) -> Tensor:
        return next_token_loss(problem.logits(retain), retain.targets)


@dataclass(frozen=True)
class RetainKL(RetainLoss):
    """C = KL(π₀(·|y_<t) ‖ π(·|y_<t)), the mean over the labelled retain tokens.

    It keeps what the initial model π₀ says about the retain data, right or wrong. Its gradient is
    exactly zero at the initial model, so the first step is that of the forget loss alone. It costs
    a forward pass of π₀, frozen in eval mode.

    Use it where the retain data are few or not what the model was trained on.

    Reference: P. Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024 (arXiv
    2401.06121), KL minimisation.

    Deviation: published code averages over prompts and padding too, where nothing is predicted.
    """

    needs_initial: ClassVar[bool] = True

    def loss(self, problem: Problem, retain: Batch) -> Tensor:
        logits = problem.logits(retain)
        initial = problem.initial_logits(retain)
        return kl_divergence(labelled(initial, retain.targets), labelled(logits, retain.targets))
