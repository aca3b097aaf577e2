"""A method: a choice of what to minimise, and what not to break on the way."""

from dataclasses import dataclass

from torch import Tensor

from expunge import Batch, Method, Problem, Term


@dataclass(frozen=True)
class ShrinkLogits(Method):
    """U = mean square of the logits on forget; C = L on retain.

    Use it as an example of a method; it makes the model undecided on the data to forget.
    """

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        """U, and the loss that the saliency add-on ranks by, from one forward pass."""
        logits = problem.logits(forget)
        return Term(logits.square().mean(), saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        """C on the batch to retain."""
        return problem.loss_on(retain)
