"""A method is a choice of (U, C): what to minimise, and what not to break on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from expunge._kinds import Part
from expunge.data import Batch, Split
from expunge.methods._problem import Problem
from expunge.methods._tokens import count_of
from expunge.update import Term

__all__ = ["Batch", "Method", "MethodWithRetainLoss", "Problem", "Term"]


@dataclass(frozen=True)
class Method(Part):
    """Base of the methods. To add one, subclass it, define ``objective`` and register the class.

    Losses are means over their batch, to be minimised. ``forget`` and ``retain`` are the two
    batches of the step; ``forget`` is None where a run has nothing to forget (plain training).
    """

    epoch_over: ClassVar[Split] = "forget"
    """The split that one epoch is a pass over."""

    objective_over: ClassVar[Split] = "forget"
    """The batch that U is a mean over, which weights uneven shares of several processes."""

    reads_forget: ClassVar[bool] = True
    """Whether steps read batches of the forget set; SalUn reads them whatever the method."""

    needs_unseen: ClassVar[bool] = False
    """Whether a run needs data that the model never saw: ``unlearn(..., unseen=val)``."""

    supports_micro_batches: ClassVar[bool] = True
    """Whether the losses of parts of a batch, weighted by size, make up that of the batch."""

    token_losses: ClassVar[bool] = False
    """Whether its losses are likelihoods of tokens: a method for causal language models."""

    needs_answers: ClassVar[bool] = False
    """Whether it needs answers to prefer, in the data or as an option, besides those to forget."""

    preferred: ClassVar[Mapping[str, Any]] = {}
    """Options of a run that suit this method better than the general defaults."""

    preferred_fan_in: ClassVar[float | None] = None
    """The mean number of inputs of a unit in models that the preferred rate suits: a deletion
    request takes a larger rate for narrower models. None: the same for all."""

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Do what an epoch needs before its first step; epochs count from 1.

        Tensors that later steps need go into ``problem.memory``, which a checkpoint keeps.
        """

    def prepare(self, problem: Problem) -> None:
        """Change the model before the first step, if the method does."""

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor | Term:
        """U on this step's batches."""
        raise TypeError(f"{type(self).__name__} should define `objective`.")

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor | Term:
        """C on this step's batches; left undefined where there is no constraint."""
        raise TypeError(f"{type(self).__name__} has no constraint.")

    def recorded(self, problem: Problem) -> dict[str, float]:
        """What the method chose, for the row of every epoch."""
        return {}

    def parameters_to_update(self, problem: Problem) -> list[nn.Parameter]:
        """The parameters that may move: by default all that require a gradient."""
        return problem.parameters

    def size(self, name: str, batch: Batch) -> float:
        """The number of items that ``objective``, ``constraint`` or ``saliency`` is a mean over.

        By default labelled tokens, or examples. Micro-batches are weighted in proportion to it.
        """
        return count_of(batch.targets)

    @property
    def constrained(self) -> bool:
        """Whether there is a constraint."""
        return type(self).constraint is not Method.constraint

    def own_recipe(self, recipe: Any) -> Any:
        """The recipe of a run that trains the model again, made from that of the model.

        None where the method does not train by a recipe.
        """
        return None

    @property
    def needs_initial(self) -> bool:
        """Whether the method reads the initial model, a copy of which is then kept in memory."""
        return True


@dataclass(frozen=True)
class MethodWithRetainLoss(Method):
    """Base of the methods with C = L on retain."""

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)
