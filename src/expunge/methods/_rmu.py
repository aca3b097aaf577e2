"""RMU: misdirect the activations of a layer (Li et al., 2024)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge._kinds import Positive
from expunge.data import Batch
from expunge.methods._activations import activations
from expunge.methods._problem import Problem
from expunge.methods._retain_losses import RetainLoss
from expunge.methods._token_method import TokenMethod
from expunge.methods._tokens import next_token_loss
from expunge.update import Term


@dataclass(frozen=True)
class RetainActivations(RetainLoss):
    """C = ‖h(y_<t) - h₀(y_<t)‖²/D at a layer, the mean over labelled tokens, then sequences.

    h are its activations [D] and h₀ those of the initial model, frozen in eval mode. It keeps the
    model up to ``layer`` (default: a fifth of the way up); what is above gets no gradient from it.

    Use it with RMU, whose objective is about activations as well.

    Reference: N. Li et al., *The WMDP Benchmark: Measuring and Reducing Malicious Use With
    Unlearning*, ICML 2024 (arXiv 2403.03218).
    """

    layer: str | None = None

    needs_initial: ClassVar[bool] = True

    def loss(self, problem: Problem, retain: Batch) -> Tensor:
        here = activations(problem, retain, self.layer)
        before = activations(problem, retain, self.layer, initial=True)
        return squared_distance(here.values, before.values, here.chosen)

    def size(self, retain: Batch) -> float:
        return len(retain.targets)


@dataclass(frozen=True)
class RMU(TokenMethod):
    """U = ‖h(y_<t) - c·u‖²/D at a layer, on forget; C = ‖h(y_<t) - h₀(y_<t)‖²/D on retain.

    h [D] are the activations of ``layer`` that lead to a labelled token, h₀ those of the initial
    model, u a unit vector drawn once per run with entries uniform in [0, 1) before it is scaled, c
    the ``coefficient``. Both are means over the labelled tokens of a sequence, then over sequences.

    Only parameters whose name contains a match of the regular expression ``parameters`` move; by
    default all up to ``layer``, as what is above gets no gradient. Published are block 7 of 32 as
    the layer (which is the default, in proportion) and the output weights of the MLPs of blocks 5
    to 7: ``RMU("model.layers.7", parameters=r"layers\\.[567]\\.mlp\\.down_proj")``.

    Use it to make a model useless on a subject (hazardous knowledge) rather than to make it
    forget records: outputs on forget become noise, which an attack can tell. c should be some times
    as large as activations are.

    Deviation: the paper writes ‖·‖², its released code divides by D, as here. Positions are those
    that lead to a labelled token; with the usual labels of a whole text both are all tokens.

    Reference: N. Li et al., *The WMDP Benchmark: Measuring and Reducing Malicious Use With
    Unlearning*, ICML 2024 (arXiv 2403.03218); c = 6.5 as there for a model of 7 B parameters.
    """

    layer: str | None = None
    coefficient: Positive = 6.5
    parameters: str | None = None
    retain: RetainLoss | str | None = field(
        default=RetainActivations(), kw_only=True, metadata={"later": True}
    )

    averages: ClassVar = "sequences"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parameters is not None:
            try:
                re.compile(self.parameters)
            except re.error as error:
                raise InvalidInput(
                    f"`parameters` should be a regular expression. (got {self.parameters!r}: "
                    f"{error})"
                ) from error
        if self.retain == RetainActivations() and self.layer is not None:
            object.__setattr__(self, "retain", RetainActivations(self.layer))

    def parameters_to_update(self, problem: Problem) -> list[nn.Parameter]:
        if self.parameters is None:
            return super().parameters_to_update(problem)
        pattern = re.compile(self.parameters)
        named = problem.model.named_parameters()
        chosen = [p for name, p in named if p.requires_grad and pattern.search(name)]
        if not chosen:
            raise InvalidInput(
                "`parameters` should match the name of a parameter that requires a gradient, see "
                f"model.named_parameters(). (got {self.parameters!r}, which matches none)"
            )
        return chosen

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        here = activations(problem, forget, self.layer)
        target = self.coefficient * _direction(problem, here.values)
        loss = squared_distance(here.values, target, here.chosen)
        saliency = next_token_loss(here.logits, forget.targets) if problem.needs_saliency else None
        return Term(loss, saliency=saliency)


def squared_distance(values: Tensor, wanted: Tensor, chosen: Tensor) -> Tensor:
    """The mean over D, over the ``chosen`` positions of a sequence, then over the sequences."""
    wide = torch.promote_types(values.dtype, torch.float32)
    distances = (values.to(wide) - wanted.to(wide)).square().mean(dim=-1)
    means: Tensor = (distances * chosen).sum(dim=1) / chosen.sum(dim=1).clamp(min=1)
    return means.mean()


def _direction(problem: Problem, values: Tensor) -> Tensor:
    """The unit vector [D] of a run; drawn at its first step, and kept with it."""
    if "rmu" not in problem.memory:
        drawn = torch.rand(values.shape[-1], generator=problem.generator)
        problem.memory["rmu"] = drawn / drawn.norm()
    return problem.memory["rmu"].to(values.device)
