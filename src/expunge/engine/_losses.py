"""The losses of a step: one per micro-batch, weighted to count as the batch, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from expunge._errors import Diverged, InvalidInput
from expunge.data import Batch
from expunge.distributed import Group, share_weight
from expunge.methods import Method, Problem, is_token_labels
from expunge.update import SampleMoments, Term, Update


@dataclass(frozen=True)
class StepLosses:
    """Computes the terms of the objective and of the constraint from two batches."""

    method: Method
    problem: Problem
    update: Update
    group: Group
    micro_batches: int
    parts: int
    """What :func:`parts_of` says."""

    def __call__(self, name: str, forget: Batch | None, retain: Batch) -> Iterator[Tensor | Term]:
        """The terms of ``objective`` or ``constraint``, each computed when it is requested."""
        loss = getattr(self.method, name)
        if self.parts == self.group.size == 1:  # the batch as it is
            yield loss(self.problem, forget, retain)
            return
        # As many parts of either batch, so that no example of the larger one is left out.
        processes = self.group.size
        count = min(
            self.parts,
            *(_smallest_share(b, processes) for b in (forget, retain) if b is not None),
        )
        sampled = isinstance(self.update.addon.statistics, SampleMoments)
        if sampled and self.method.constrained and count * processes < 2:
            raise InvalidInput(
                "The moments `sample` need batches of at least 2 examples. (got one of 1; choose "
                "another batch size, or the moments `adam`)"
            )
        forgotten = [None] * count if forget is None else forget.parts(count)
        retained = retain.parts(count)
        pairs = zip(forgotten, retained, strict=True)
        terms: Iterator[Tensor | Term] = (loss(self.problem, f, r) for f, r in pairs)
        weights = process_weights(self.group, self.method, name, [forget], [retain])
        if self.micro_batches > 1:
            terms = weigh_micro_batches(terms, self.method, name, forgotten, retained)
        elif sampled:
            weights = EQUAL_WEIGHTS  # its parts have equal weights, whatever their sizes
        for term in terms:
            yield weigh(term, weights)


def parts_of(update: Update, micro_batches: int, processes: int = 1) -> int:
    """The number of parts that a process divides its share of a batch into."""
    moments = update.addon.statistics
    needed = moments.parts if isinstance(moments, SampleMoments) else 1
    return max(-(-needed // processes), micro_batches)


def _smallest_share(batch: Batch, processes: int) -> int:
    """The number of examples of a batch in the smallest share of a process."""
    return len(batch.targets) if batch.share is None else batch.share.total // processes


class LossWeights(NamedTuple):
    """N·nᵣ/n of the batch that a loss is a mean over, and of the forget batch."""

    loss: float
    saliency: float


EQUAL_WEIGHTS = LossWeights(1.0, 1.0)
"""All processes have as many examples."""
Batches = Sequence[Batch | None]


def process_weights(
    group: Group, method: Method, name: str, forget: Batches, retain: Batches
) -> LossWeights:
    """The weights of this process's ``objective`` or ``constraint``, and of its saliency.

    Where a loss is a mean over something other than examples, such as labelled tokens
    (``Method.size``), or shares are not known, the processes exchange how many they have.
    """
    if not group:
        return EQUAL_WEIGHTS
    counted = [batch for batch in _counted(method, name, forget, retain) if batch is not None]
    ranked = [batch for batch in forget if batch is not None]
    shares = [batch.share for batch in (*counted, *ranked)]
    by_examples = type(method).size is Method.size and not is_token_labels(counted[0].targets)
    if by_examples and None not in shares:
        sums = (sum(share_weight(b.share, group.size) for b in part) for part in (counted, ranked))
        return LossWeights(*sums)
    sizes = [sum(each) for each in _sizes(method, name, forget, retain)]
    here = torch.tensor(sizes, dtype=torch.float64, device=group.device)
    parts = (group.size * here / group.sum(here.clone())).tolist()
    return LossWeights(*(1.0 if part != part else part for part in parts))  # 0/0: none at all


def _counted(method: Method, name: str, forget: Batches, retain: Batches) -> Batches:
    """The batches that a loss is a mean over."""
    over_forget = name == "objective" and method.objective_over == "forget"
    return forget if over_forget and forget[0] is not None else retain


def _sizes(method: Method, name: str, forget: Batches, retain: Batches) -> list[list[float]]:
    """What the loss of every micro-batch is a mean over, and what its saliency is: two lists."""
    parts = ((name, _counted(method, name, forget, retain)), ("saliency", forget))
    return [
        [0.0 if b is None else method.size(what, b) for b in batches] for what, batches in parts
    ]


def weigh(loss: Tensor | Term, weights: LossWeights) -> Tensor | Term:
    """The loss times its weight, before anything is differentiated."""
    if weights == EQUAL_WEIGHTS:
        return loss
    term = loss if isinstance(loss, Term) else Term(loss)
    return term._replace(
        loss=term.loss * weights.loss,
        saliency=None if term.saliency is None else term.saliency * weights.saliency,
        weight=term.weight * weights.loss,
    )


def weigh_micro_batches(
    terms: Iterator[Tensor | Term], method: Method, name: str, forget: Batches, retain: Batches
) -> Iterator[Tensor | Term]:
    """``terms``, one per micro-batch, each with its weight K·nₖ/n, which is 1 on average."""
    weights, saliency_weights = map(_shares, _sizes(method, name, forget, retain))
    for term, weight, saliency_weight in zip(terms, weights, saliency_weights, strict=True):
        full = term if isinstance(term, Term) else Term(term)
        yield full._replace(weight=weight, saliency_weight=saliency_weight)


def _shares(sizes: Sequence[float]) -> list[float]:
    """Each size over their mean."""
    total = sum(sizes)
    return [len(sizes) * size / total if total else 1.0 for size in sizes]


def weigh_reduced(
    terms: Iterator[Tensor | Term],
    group: Group,
    method: Method,
    name: str,
    forget: Batches,
    retain: Batches,
) -> Iterator[Term]:
    """Terms, one per micro-batch, whose gradients FSDP averages over the processes one by one.

    What weighs a gradient after that has to be the same everywhere. So each loss is multiplied by
    the process's share of its micro-batch, and the micro-batches count by their sizes in all
    processes together.
    """
    sizes = _sizes(method, name, forget, retain)
    here = torch.tensor(sizes, dtype=torch.float64, device=group.device)
    total = group.sum(here.clone()).clamp(min=1.0)
    factors = (group.size * here / total).tolist()
    weights = (len(forget) * total / total.sum(dim=1, keepdim=True)).tolist()
    for k, term in enumerate(terms):
        full = term if isinstance(term, Term) else Term(term)
        yield Term(
            full.loss * factors[0][k],
            None if full.saliency is None else full.saliency * factors[1][k],
            weights[0][k],
            weights[1][k],
        )


def diverged(where: str) -> Diverged:
    """The error of a run that diverged ``where``: "at step 3: a loss"."""
    return Diverged(
        f"Diverged {where} is not finite. The model holds the last good weights. Lower the "
        "learning rate or `alpha`, or take fewer epochs; gradient ascent has no lower bound to "
        "stop at."
    )


class DivergenceGuard:
    """Checks the losses and gradient sums of every step; keeps a copy of the last good weights.

    Weights are good if their losses and gradients were finite: those from before the step that led
    to a non-finite loss. Frozen weights are not copied. On an accelerator a check waits for the
    device, so steps are checked ``every`` at a time; on the CPU each before it is taken.
    """

    def __init__(self, model: nn.Module, device: torch.device, every: int = 20) -> None:
        self.every = 1 if device.type == "cpu" else every
        self._weights = [p for p in model.parameters() if p.requires_grad]
        self._live = [*self._weights, *model.buffers()]
        self._kept = [t.detach().clone() for t in self._live]
        self._bad: Tensor | None = None
        self._seen = 0

    @torch.no_grad()
    def passes(self, values: list[Tensor]) -> bool:
        """Add the values of a step; False if a check found one that is not finite."""
        bad = torch.stack([~v.isfinite().all().to(values[0].device) for v in values]).any()
        self._bad = bad if self._bad is None else self._bad | bad
        self._seen += 1
        return bool(self._seen % self.every) or self.check()

    @torch.no_grad()
    def check(self) -> bool:
        """Check now, which waits for the device; keep the weights if all is finite."""
        if self._bad is not None and bool(self._bad):
            return False
        self._bad = None
        for kept, live in zip(self._kept, self._live, strict=True):
            kept.copy_(live)
        return True

    @torch.no_grad()
    def weights_are_finite(self) -> bool:
        """Whether the weights are finite, after a step that no loss has been computed since."""
        return all(bool(w.isfinite().all()) for w in self._weights)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the last good weights back into the model."""
        for kept, live in zip(self._kept, self._live, strict=True):
            live.copy_(kept)
