"""UNSIR: impair the model with noise that it cannot explain, then repair it (Tarun et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge._kinds import Count, NotNegative, Positive
from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term
from expunge.methods._problem import apply, check_class_numbers


@dataclass(frozen=True)
class ImpairRepair(MethodWithRetainLoss):
    """U = L on (n, y), n a noise that has a large L for the class y, then L on retain; C = L there.

    Before the first step, ``copies`` noises for each class to forget are found that maximise
    L(M₀(n), y) - ``decay``·‖n‖², by ``steps`` steps of Adam at the rate ``noise_lr``. In the first
    ``impair`` epochs every forget example is replaced by a noise of its class; what the model
    learned for the class is overwritten. Afterwards both losses are that on retain: the repair.

    Use it for whole classes; of the examples to forget it reads the labels alone.

    Reference: A. K. Tarun, V. S. Chundawat, M. Mandal, M. Kankanhalli, *Fast Yet Effective Machine
    Unlearning*, TNNLS 2023 (arXiv 2111.08947). It is for whole classes: examples of a class that is
    retained in part have nothing of their own that this could remove.

    Deviation: noise and retain data have a batch each, with weights α and β; the publication
    takes batches of both, one epoch to impair and one to repair, at rates of their own.
    """

    supports_micro_batches: ClassVar[bool] = False

    preferred: ClassVar[dict[str, Any]] = {"alpha": 0.5, "beta": 0.5}

    impair: Count = 1
    copies: Count = 16
    steps: Count = 40
    noise_lr: Positive = 0.1
    decay: NotNegative = 0.1

    def prepare(self, problem: Problem) -> None:
        """Find the noises: ``copies`` for each class of the forget set."""
        forget, _ = next(problem.pairs())
        example = as_floats(forget.inputs)[0]
        classes = torch.unique(problem.splits.labels("forget"))
        labels = classes.repeat_interleave(self.copies).to(example.device)
        shape = (len(labels), *example.shape)
        start = torch.randn(shape, generator=problem.generator).to(example)
        problem.memory["noise"] = maximise_loss(
            problem.initial, start, labels, steps=self.steps, lr=self.noise_lr, decay=self.decay
        )
        problem.memory["classes"] = classes

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        problem.memory["impairing"] = torch.tensor(epoch <= self.impair)

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        if not problem.memory["impairing"]:
            return Term(problem.loss_on(retain), saliency=problem.saliency(forget))
        device = forget.targets.device
        copies = problem.draw(self.copies, forget.targets, forget.share)
        place = torch.searchsorted(problem.memory["classes"].to(device), forget.targets)
        inputs = problem.memory["noise"].to(device)[place * self.copies + copies]
        noise = forget._replace(inputs=inputs)
        return Term(problem.loss_on(noise), saliency=problem.saliency(forget))


def maximise_loss(
    model: nn.Module, start: Tensor, labels: Tensor, *, steps: int, lr: float, decay: float
) -> Tensor:
    """Inputs [N, …] that ``model`` finds hard to give their ``labels``, from ``start``."""
    noise = start.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([noise], lr=lr)
    with torch.enable_grad():
        for _ in range(steps):
            size = noise.square().flatten(1).sum(dim=1).mean()
            logits = apply(model, noise)
            check_class_numbers(logits, labels)
            loss = decay * size - F.cross_entropy(logits, labels)
            (noise.grad,) = torch.autograd.grad(loss, noise)
            optimizer.step()
    return noise.detach()


def as_floats(inputs: Tensor) -> Tensor:
    """Bytes as numbers in [0, 1], as models take either; other inputs unchanged."""
    if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8:
        return inputs.float() / 255.0
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        kind = inputs.dtype if isinstance(inputs, Tensor) else type(inputs).__name__
        raise InvalidInput(
            "This method needs inputs that can change a little: images or vectors, bytes "
            f"or floating-point numbers. Take another method, such as `npo`. (got {kind})"
        )
    return inputs
