"""Methods for language models: a forget loss, a retain loss, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor

from expunge.methods._method import Batch, Method, Problem, Term
from expunge.methods._registry import RETAIN_LOSSES
from expunge.methods._retain_losses import RetainLoss, RetainNLL
from expunge.methods._tokens import check_token_loss, count_of

__all__ = ["Batch", "Problem", "Term", "TokenMethod"]


@dataclass(frozen=True)
class TokenMethod(Method):
    """Base of the methods for language models: U is a class's ``forget_loss``, C a part of it.

    Any forget loss goes with any retain loss, aggregation and add-on: ``NPO(retain="kl")``,
    ``GradientDifference(retain="none")``. To add a forget loss, subclass this and define
    ``forget_loss``; to add a retain loss, subclass :class:`RetainLoss`.

    ``retain`` is a name (``"nll"``, ``"kl"``, ``"activations"``), a part, or ``"none"``. Without a
    constraint no add-on but ``saliency`` changes anything.

    Class numbers [B] with logits [B, K] count as sequences of one token.

    >>> from expunge.methods import NPO
    >>> NPO(beta=0.5, retain="kl")
    NPO(retain=RetainKL(), beta=0.5)
    """

    retain: RetainLoss | str | None = field(
        default=RetainNLL(), kw_only=True, metadata={"later": True}
    )

    token_losses: ClassVar[bool] = True

    averages: ClassVar[Literal["tokens", "sequences"]] = "tokens"
    """What U is a mean over: all labelled tokens of the batch, or its sequences."""
    compares_with_initial: ClassVar[bool] = False
    """Whether U reads the initial model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = None if self.retain == "none" else RETAIN_LOSSES.resolve(self.retain)
        object.__setattr__(self, "retain", chosen)

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        """U on a forget batch, with its saliency where its gradient is not ± that of the NLL."""
        raise TypeError(f"{type(self).__name__} should define `forget_loss`.")

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        check_token_loss(problem.loss_function)
        return self.forget_loss(problem, forget)

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        if not isinstance(self.retain, RetainLoss):
            raise TypeError(f"{self!r} has no constraint.")
        return self.retain.loss(problem, retain)

    @property
    def constrained(self) -> bool:
        return self.retain is not None

    @property
    def needs_initial(self) -> bool:
        kept = isinstance(self.retain, RetainLoss) and self.retain.needs_initial
        return kept or self.compares_with_initial

    def size(self, name: str, batch: Batch) -> float:
        if name == "constraint" and isinstance(self.retain, RetainLoss):
            return self.retain.size(batch)
        if name == "objective" and self.averages == "sequences":
            return len(batch.targets)
        return count_of(batch.targets)
