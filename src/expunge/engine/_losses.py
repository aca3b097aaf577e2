"""The losses of a step: one per micro-batch, weighted to count as the batch, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from expunge._errors import Diverged, InvalidInput
from expunge.data import Batch
from expunge.distributed import Group, share_weight
from expunge.methods import Method, is_token_labels
from expunge.update import SampleMoments, Term, Update

if TYPE_CHECKING:
    from expunge.engine._run import Run


def terms_of(run: Run, name: str, forget: Batch | None, retain: Batch) -> Iterator[Tensor | Term]:
    """The terms of ``objective`` or ``constraint``, each computed when it is requested."""
    loss, group = getattr(run.method, name), run.group
    if run.micro_batch_count == group.size == 1:  # the batch as it is
        yield loss(run.problem, forget, retain)
        return
    # As many parts of either batch, so that no example of the larger one is left out.
    batches = [batch for batch in (forget, retain) if batch is not None]
    count = min(
        run.micro_batch_count,
        *(len(b.targets) if b.share is None else b.share.total // group.size for b in batches),
    )
    sampled = isinstance(run.update.addon.moment_estimator, SampleMoments)
    if sampled and run.method.constrained and count * group.size < 2:
        raise InvalidInput(
            "The moments `sample` need batches of at least 2 examples. (got one of 1; choose "
            "another batch size, or the moments `adam`)"
        )
    forgotten = [None] * count if forget is None else forget.parts(count)
    retained = retain.parts(count)
    # Each part, weighted to count as the batch of all processes; those of `sample` count alike.
    terms: Iterator[Tensor | Term]
    terms = (loss(run.problem, f, r) for f, r in zip(forgotten, retained, strict=True))
    if not sampled or run.execution.micro_batches > 1:
        terms = weigh(terms, group, run.method, name, forgotten, retained)
    yield from terms


def micro_batch_count(update: Update, micro_batches: int, processes: int = 1) -> int:
    """The number of parts that a process divides its share of a batch into."""
    moments = update.addon.moment_estimator
    needed = moments.parts if isinstance(moments, SampleMoments) else 1
    return max(-(-needed // processes), micro_batches)


Batches = Sequence[Batch | None]


def _process_weights(
    group: Group, method: Method, counted: Batches, forget: Batches, sizes: list[list[float]]
) -> tuple[float, float]:
    """The weights of this process's ``objective`` or ``constraint``, and of its saliency: N·nᵣ/n.

    N is the number of processes; nᵣ of the batch's n examples are in this one, r.
    Where a loss is a mean over something other than examples, such as labelled tokens
    (``Method.size``), or shares are not known, the processes exchange how many they have.
    """
    if not group:
        return 1.0, 1.0
    measured, ranked = ([b for b in part if b is not None] for part in (counted, forget))
    shares = [batch.share for batch in (*measured, *ranked)]
    by_examples = type(method).size is Method.size and not is_token_labels(measured[0].targets)
    if by_examples and None not in shares:
        of_loss, of_saliency = (
            sum(share_weight(b.share, group.size) for b in part) for part in (measured, ranked)
        )
        return of_loss, of_saliency
    here = torch.tensor([sum(each) for each in sizes], dtype=torch.float64, device=group.device)
    parts = (group.size * here / group.sum(here.clone())).nan_to_num(1.0)  # 0/0: none at all
    return float(parts[0]), float(parts[1])


def weigh(
    terms: Iterator[Tensor | Term],
    group: Group,
    method: Method,
    name: str,
    forget: Batches,
    retain: Batches,
    *,
    reduced: bool = False,
) -> Iterator[Term]:
    """Terms, one per micro-batch, weighted to count as the loss over all of them.

    Each is multiplied by the weight of the process, before it is differentiated, and has its weight
    K·nₖ/n among the K micro-batches. Where FSDP averages the gradient of every micro-batch over the
    processes (``reduced``), what weighs it after that has to be the same everywhere: so a term is
    multiplied by the process's share of its micro-batch, and the micro-batches count by their sizes
    in all processes together.
    """
    # What the losses of the micro-batches are means over, and what their saliency is.
    over_forget = name == "objective" and method.objective_over == "forget"
    counted = forget if over_forget and forget[0] is not None else retain
    sizes = [
        [0.0 if b is None else method.size(what, b) for b in batches]
        for what, batches in ((name, counted), ("saliency", forget))
    ]
    if reduced:
        here = torch.tensor(sizes, dtype=torch.float64, device=group.device)
        total = group.sum(here.clone()).clamp(min=1.0)
        factors = (group.size * here / total).tolist()
        weights = (len(forget) * total / total.sum(dim=1, keepdim=True)).tolist()
    else:
        process = _process_weights(group, method, counted, forget, sizes)
        factors = [[factor] * len(retain) for factor in process]
        shares = [[len(part) * n / sum(part) if any(part) else 1.0 for n in part] for part in sizes]
        weights = [[process[0] * share for share in shares[0]], shares[1]]
    for k, term in enumerate(terms):
        full = term if isinstance(term, Term) else Term(term)
        saliency = None if full.saliency is None else full.saliency * factors[1][k]
        yield Term(full.loss * factors[0][k], saliency, weights[0][k], weights[1][k])


def diverged(where: str, constrained: bool) -> Diverged:
    """The error of a run that diverged ``where``: "at step 3: a loss"."""
    remedies = " or `alpha`, or take fewer epochs" if constrained else ", or take fewer epochs"
    return Diverged(
        f"Diverged {where} is not finite. The model holds the last good weights. Lower the "
        f"learning rate{remedies}."
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
    def add_step(self, values: list[Tensor]) -> bool:
        """Add the values of a step; False if a check found one that is not finite."""
        bad = torch.stack([~v.isfinite().all().to(values[0].device) for v in values]).any()
        self._bad = bad if self._bad is None else self._bad | bad
        self._seen += 1
        return bool(self._seen % self.every) or self.check_and_keep()

    @torch.no_grad()
    def check_and_keep(self) -> bool:
        """Check now, which waits for the device; keep the weights if all is finite."""
        if self._bad is not None and bool(self._bad):
            return False
        self._bad = None
        torch._foreach_copy_(self._kept, self._live)
        return True

    @torch.no_grad()
    def weights_are_finite(self) -> bool:
        """Whether the weights are finite, after a step that no loss has been computed since."""
        return all(bool(w.isfinite().all()) for w in self._weights)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the last good weights back into the model."""
        torch._foreach_copy_(self._live, self._kept)
