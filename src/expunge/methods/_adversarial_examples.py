"""AMUN: fine-tune on the nearest adversarial examples of forget data, with their wrong labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge._kinds import Count, Positive
from expunge.distributed import interleave
from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term
from expunge.methods._problem import apply

STEP = 0.1
"""A step of the attack, as a share of the radius."""
DOUBLINGS = 12
"""Of the radius, at most: then it is longer than the diagonal of all but very large images."""


@dataclass(frozen=True)
class AdversarialExamples(MethodWithRetainLoss):
    """U = L on (x, y) and (x̃, ỹ), x in forget, x̃ near x but predicted as ỹ ≠ y; C = L on retain.

    x̃ is the nearest adversarial example that the attack finds of the initial model, once for every
    run, and ỹ what the initial model predicts there. Both are already consistent with the model,
    so learning them moves its decision boundary around x and hardly elsewhere: the confidence at x
    falls.

    Use it for classifiers of images or vectors without unseen data at hand; it needs time for the
    attack before its first step.

    The attack is projected gradient ascent of the loss in the L2 ball around x: ``steps`` steps of
    a tenth of the radius, in the direction of the gradient, until the prediction changes. Where it
    does not, the radius is doubled and the ascent goes on. An x that is mispredicted already is
    its own x̃. x̃ stays within the range of the data: 0 to 1 for bytes, else from the smallest to
    the largest number in the forget set; ``radius`` is the first one, as a share of that range.

    Reference: A. Ebrahimpour-Boroojeny, H. Sundaram, V. Chandrasekaran, *Not All Wrong is Bad:
    Using Adversarial Examples for Unlearning*, ICML 2025 (arXiv 2503.00917). The attack is its
    PGD-50.

    Deviation: the radius starts from the same value for every x, as by default in the released
    code, whose script takes the median of a sample. The x̃ are not augmented. Forget and retain
    data have a batch each, instead of the batches of the union of x̃, x and retain set. Where 12
    doublings do not change the prediction, ỹ is the most probable other class; the released code
    goes on. Inputs may be any tensors of numbers, not just images.

    It needs ``forget`` as a dataset, since it has an x̃ for every example.

    Args:
        originals: False leaves (x, y) out: the variant ``advonly`` of the released code.
        radius: the first radius of the attack, relative to the range of the data.
        steps: of the attack, for each radius.
    """

    originals: bool = True
    radius: Positive = 0.04
    steps: Count = 50

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Attack the initial model at every forget example, before the first epoch."""
        if "adversarial" in problem.memory:
            return
        low, high = _range_of_inputs(problem)
        found: list[tuple[Tensor, ...]] = []

        def attack(inputs: Tensor) -> Tensor:
            # Predictions run in inference mode, in which there are no gradients.
            with torch.inference_mode(False):
                example = nearest_adversarial(
                    problem.initial,
                    as_numbers(inputs.clone()),
                    low=low,
                    high=high,
                    radius=self.radius * (high - low),
                    steps=self.steps,
                )
            found.append(tuple(part.cpu() for part in example))
            return example.inputs

        problem.splits.labels("forget")  # refused where there are no classes
        _, labels = problem.predict("forget", initial=True, change=attack)
        parts = zip(*interleave(problem.group, found), strict=True)
        examples = Adversarial(*(torch.cat(part) for part in parts))
        problem.memory["adversarial"], problem.memory["wrong labels"] = examples.against(labels)

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        inputs = _on_device(problem, "adversarial", forget.targets.device)[forget.positions]
        labels = _on_device(problem, "wrong labels", forget.targets.device)[forget.positions]
        if not self.originals:
            loss = problem.loss(problem.logits(Batch(inputs, labels, "forget")), labels)
            return Term(loss, saliency=problem.saliency(forget))
        inputs = torch.cat([inputs, as_numbers(forget.inputs).to(inputs)])
        labels = torch.cat([labels, forget.targets])
        logits = problem.logits(Batch(inputs, labels, "forget"))
        saliency = problem.loss(logits[len(forget.targets) :], forget.targets)
        return Term(problem.loss(logits, labels), saliency=saliency)


class Adversarial(NamedTuple):
    """Examples that a model predicts as another class than the ones that they are near to."""

    inputs: Tensor
    """x̃ [N, …]"""
    classes: Tensor
    """The prediction at x̃ [N]."""
    original_inputs: Tensor
    original_classes: Tensor
    """The prediction at x [N], which differs from that at x̃."""

    def against(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """x̃ and ỹ ≠ y for the ``labels`` y; x itself and its prediction where that is wrong."""
        wrong = self.original_classes != labels
        everywhere = wrong.view(-1, *[1] * (self.inputs.ndim - 1))
        inputs = torch.where(everywhere, self.original_inputs, self.inputs)
        return inputs, torch.where(wrong, self.original_classes, self.classes)


def nearest_adversarial(
    model: nn.Module, inputs: Tensor, *, low: float, high: float, radius: float, steps: int
) -> Adversarial:
    """The first point on the way up the loss around each of ``inputs`` [N, …] that fools ``model``.

    The class that is left is the one that the model predicts, whatever the label.
    """
    start, now = inputs.detach(), inputs.detach().clone()
    with torch.no_grad():
        original = apply(model, start).argmax(dim=1)
    left = torch.arange(len(start), device=start.device)
    for doubling in range(DOUBLINGS + 1):
        reach = radius * 2.0**doubling
        for _ in range(steps):
            if not len(left):
                break
            gradient, predicted = _ascent(model, now[left], original[left])
            correct = predicted == original[left]
            left, gradient = left[correct], gradient[correct]
            moved = now[left] + STEP * reach * _unit(gradient)
            now[left] = _project(moved, start[left], reach).clamp(low, high)
    with torch.no_grad():
        others = apply(model, now).scatter(1, original[:, None], -torch.inf)
    return Adversarial(now, others.argmax(dim=1), start, original)


def _ascent(model: nn.Module, inputs: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the log-odds against ``classes`` at each input, and the prediction there.

    It has the direction of the gradient of the cross-entropy, which is log(1 + the odds), but does
    not vanish where the model is certain.
    """
    with torch.enable_grad():
        inputs = inputs.requires_grad_()
        logits = apply(model, inputs)
        others = logits.scatter(1, classes[:, None], -torch.inf).logsumexp(dim=1)
        odds = others - logits.gather(1, classes[:, None])[:, 0]
        (gradient,) = torch.autograd.grad(odds.sum(), inputs)
    return gradient, logits.detach().argmax(dim=1)


def _norms(tensor: Tensor) -> Tensor:
    """The L2 norm of each example, [N, 1, …]."""
    norms: Tensor = torch.linalg.vector_norm(tensor.flatten(1), dim=1)
    return norms.view(-1, *[1] * (tensor.ndim - 1))


def _unit(gradient: Tensor) -> Tensor:
    return gradient / _norms(gradient).clamp(min=torch.finfo(gradient.dtype).tiny)


def _project(inputs: Tensor, centre: Tensor, radius: float) -> Tensor:
    """The point of the ball of ``radius`` around ``centre`` that is nearest to each input."""
    offset = inputs - centre
    return centre + offset * (radius / _norms(offset).clamp(min=radius))


def as_numbers(inputs: Tensor) -> Tensor:
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


def _range_of_inputs(problem: Problem) -> tuple[float, float]:
    """The smallest and the largest number in the forget set; 0 and 1 for bytes."""
    ranges: list[tuple[float, float]] = []

    def observe(inputs: Tensor) -> Tensor:
        numbers = as_numbers(inputs)
        low, high = (0.0, 1.0) if numbers is not inputs else map(float, numbers.aminmax())
        ranges.append((low, high))
        return inputs

    problem.predict("forget", initial=True, change=observe)
    lows, highs = zip(*interleave(problem.group, ranges), strict=True)
    return min(lows), max(highs)


def _on_device(problem: Problem, name: str, device: torch.device) -> Tensor:
    """A tensor of the memory, moved to ``device`` once."""
    if problem.memory[name].device != device:
        problem.memory[name] = problem.memory[name].to(device)
    return problem.memory[name]
