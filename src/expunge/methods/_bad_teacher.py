"""Bad Teacher: learn forget data from a model that knows nothing (Chundawat et al., 2023)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from expunge.methods._method import Batch, Method, Problem, Term
from expunge.methods._problem import logits_of, widened
from expunge.methods._retain_losses import RetainKL
from expunge.methods._retrain import reset_parameters
from expunge.methods._scrub import kl_divergence
from expunge.methods._tokens import labelled

WEIGHTS = "bad teacher: "


@dataclass(frozen=True)
class BadTeacher(Method):
    """U = KL(B‖M) on forget, B a model with random weights; C = KL(M₀‖M) on retain.

    B has the architecture of the model and new weights, drawn once for the run; M₀ is the initial
    model. Both teachers are frozen, in eval mode. Frozen parameters of the model keep their values
    in B.

    Use it where outputs on forget data should carry no information, and memory holds two teachers.

    Reference: V. S. Chundawat, A. K. Tarun, M. Mandal, M. Kankanhalli, *Can Bad Teaching Induce
    Forgetting? Unlearning in Deep Networks Using an Incompetent Teacher*, AAAI 2023
    (arXiv 2205.08096).

    Deviation: forget and retain data have a batch each, with weights α and β, in place of batches
    of the forget set and 30 % of the retain set together.
    """

    preferred: ClassVar[dict[str, Any]] = {"alpha": 0.25, "beta": 0.75}

    def prepare(self, problem: Problem) -> None:
        """Draw the weights of the bad teacher; a checkpoint keeps them."""
        teacher = copy.deepcopy(problem.model)
        with problem.seeded():
            reset_parameters(teacher)
        for name, value in teacher.state_dict().items():
            # Files keep no memory format, and another one would round differently.
            kept = value.detach().clone(memory_format=torch.contiguous_format)
            problem.memory[WEIGHTS + name] = kept

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        problem.check_exclusive("Bad Teacher", logits, forget.targets)
        teacher = labelled(_bad_logits(problem, forget), forget.targets)
        divergence = kl_divergence(teacher, labelled(logits, forget.targets))
        return Term(divergence, saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return RetainKL().loss(problem, retain)


@torch.no_grad()
def _bad_logits(problem: Problem, batch: Batch) -> Tensor:
    """The output of the bad teacher, in eval mode."""
    device, inputs = batch.targets.device, batch.inputs
    kept = {n: v for n, v in problem.memory.items() if n.startswith(WEIGHTS)}
    weights = {name.removeprefix(WEIGHTS): value.to(device) for name, value in kept.items()}
    given = ((), dict(inputs)) if isinstance(inputs, Mapping) else ((inputs,), {})
    return widened(logits_of(functional_call(problem.initial, weights, *given)))
