"""NPO: negative preference optimisation (Zhang et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.methods._gradient_difference import GradientDifference
from expunge.methods._problem import Problem
from expunge.methods._tokens import check_token_loss, sequence_log_likelihood
from expunge.update._gradients import Term


@dataclass(frozen=True)
class NPO(GradientDifference):
    """U = -(2/β) E log σ(-β log(π/π₀)) on forget sequences; C = NLL of the retain tokens.

    log(π/π₀) is the log-ratio of a whole sequence, a sum over its labelled tokens, against the
    initial model π₀, frozen in eval mode. ∇U is that of ascent, each sequence weighted by
    2π^β/(π^β + π₀^β): 1 where nothing is forgotten yet, towards 0 as the sequence is, so that U has
    a lower bound, 0. β → 0 is ascent.

    Use it for language models: it stops pushing what is forgotten, so that it breaks them later
    than GradDiff.

    Reference: R. Zhang, L. Lin, Y. Bai, S. Mei, *Negative Preference Optimization: From
    Catastrophic Collapse to Effective Unlearning*, COLM 2024 (arXiv 2404.05868).
    """

    beta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta > 0:
            raise InvalidInput(f"`beta` should be positive. (got {self.beta})")

    def size(self, name: str, batch: Batch) -> float:
        return super().size(name, batch) if name == "constraint" else len(batch.targets)

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        check_token_loss(problem.loss)
        now = sequence_log_likelihood(problem.logits(forget), forget.targets)
        then = sequence_log_likelihood(problem.initial_logits(forget), forget.targets)
        # -log σ(-x) = softplus(x)
        loss: Tensor = 2.0 / self.beta * F.softplus(self.beta * (now - then)).mean()
        # The mean over sequences ranks as the mean over tokens: they differ by one factor.
        return Term(loss, saliency=-now.mean())
