"""The update: two gradients in, one step out, for any training loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from expunge._errors import Diverged, InvalidInput
from expunge._kinds import check_arguments, check_kind
from expunge.distributed import as_group, start_reduction
from expunge.update._addons import Addon
from expunge.update._aggregate import Aggregate, as_aggregate
from expunge.update._block_loop import COMPILE_FROM, can_compile
from expunge.update._gradients import (
    Losses,
    LossGradient,
    Term,
    check_constraint_loss,
    check_scalar,
    given_gradients,
    loss_gradient,
    trainable,
)
from expunge.update._kernel import Diagnostics, KernelSpec, read_record
from expunge.update._registry import ADDONS
from expunge.update._shards import ShardedParameters, is_sharded, local_shard
from expunge.update._state import State
from expunge.update._step import Step


class Update:
    """Fills ``p.grad`` with a step that unlearns (objective) without breaking (constraint).

    For each parameter, ``p.grad ← weight · aggregate(ĝ_U, ĝ_C)``, that is -Δ, with the weight of
    the add-on: Algorithm 1 of the paper between its two gradients and its optimizer.

    Without a constraint there is nothing to disagree with: every add-on but ``saliency`` leaves the
    objective's gradient as it is.

    Args:
        addon: a name (``"focus"``, ``"PROB"``, …) or an instance such as ``Focus(eps=1e-6)``.
        aggregate: a name (``"linear"``, ``"min-abs"``, ``"primal-dual"``, ``"torchjd:UPGrad"``),
            an instance, or any TorchJD aggregator.
        strict: weigh the optimizer's step instead of the gradient, so that a parameter of weight 0
            does not move at all, by momentum or weight decay either. Step with :meth:`step` then.
        diagnostics: keep the sums that :attr:`diagnostics` reads.
        compile: ``"auto"`` compiles for large models where a compiler exists; or force it.
        seed: of the random stream of ``bernoulli``.
        group: processes that share every batch: a process group of ``torch.distributed``, or
            ``"auto"`` for the default one where there is one. Both gradients, and the losses, are
            then means over the processes, taken before anything non-linear.
        checks_losses: refuse losses that are not finite in :meth:`backward`; a loop may do so
            itself.

    Parameters sharded by FSDP2 (``fully_shard``) are updated shard by shard in each process, and
    only ``saliency`` gathers gradients: see ``docs/how-to/large-models.md``.

    Example:
        >>> from expunge.update import WeightedSum
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        >>> update = Update(addon="focus", aggregate=WeightedSum(0.05, 0.95))
        >>> forget, retain = torch.ones(4, 2), torch.zeros(4, 2)
        >>> update.backward(
        ...     objective=-model(forget).square().mean(),
        ...     constraint=model(retain).square().mean(),
        ...     params=model.parameters(),
        ... )
        >>> optimizer.step()
        >>> 0 <= update.diagnostics.agreement <= 1
        True
    """

    def __init__(
        self,
        addon: Addon | str = "focus",
        aggregate: Aggregate | str | Any = "linear",
        *,
        strict: bool = False,
        diagnostics: bool = True,
        compile: bool | Literal["auto"] = "auto",
        seed: int = 0,
        group: Any | Literal["auto"] | None = None,
        checks_losses: bool = True,
    ) -> None:
        check_arguments(Update.__init__, locals())
        self.addon: Addon = ADDONS.resolve(addon)
        self.aggregate = as_aggregate(aggregate)
        self.strict = strict
        self.keeps_diagnostics = diagnostics
        self.compile = compile
        self.state = State(seed)
        self.group = as_group(group)
        self.losses: tuple[Tensor, Tensor | None] | None = None
        """The objective's and the constraint's loss at the last :meth:`backward`, detached."""
        self.checks_losses = checks_losses
        self._shards: ShardedParameters | None = None
        self.record: Tensor | None = None
        """The raw sums of the last step, on the device, unread: see :meth:`read`."""
        self._constrained = False
        self._pending: list[tuple[Tensor, Tensor]] | None = None

    def __repr__(self) -> str:
        strict = ", strict=True" if self.strict else ""
        return f"Update(addon={self.addon!r}, aggregate={self.aggregate!r}{strict})"

    def backward(
        self,
        objective: Losses,
        constraint: Losses | None = None,
        *,
        params: Iterable[Tensor],
        saliency: Tensor | None = None,
        retain_graph: bool = False,
    ) -> None:
        """Differentiate both losses and fill ``p.grad`` with the step to take.

        A loss is a scalar reduced by its mean, or an iterable of them, one per micro-batch;
        ``SampleMoments`` needs at least two. Pass a generator to compute each loss when its turn
        comes: it is differentiated, and its graph dropped, before the generator continues, so that
        one graph is in memory at a time. Frozen parameters are skipped; one that neither loss
        reaches keeps ``grad=None``.

        Args:
            objective: U, to minimise on the data to forget.
            constraint: C, to keep small on the data to retain; None where there is none.
            params: the parameters to move.
            saliency: for ``Saliency``, the plain loss on forget data; not needed where its gradient
                is that of the objective or its negative. It may share the objective's graph.
            retain_graph: set it where objective and constraint share a part of their graphs.

        Raises:
            Diverged: a loss is not finite; every ``p.grad`` is None and the moments are as they
                were. Only on the CPU: elsewhere the check would wait for the device at every step;
                look at :attr:`losses` yourself, every so many steps.
        """
        moving = trainable(params)
        if self._pending is not None:
            raise InvalidInput("With `strict=True`, step with `update.step(optimizer)`.")
        shards = self._find_shards(moving)
        if saliency is not None:
            if not isinstance(objective, Tensor):
                raise InvalidInput("`saliency` goes with a single objective; use `Term`s instead.")
            check_scalar(saliency)
            objective = Term(objective, saliency)
        squares = self._from_micro_batches and constraint is not None
        sharded, alone = shards is not None, self.group.size == 1
        # Both gradients, averaged over the processes: that of the objective is on its way while
        # the constraint is computed.
        grad_u = loss_gradient(
            objective,
            moving,
            squares=squares,
            with_saliency=self.addon.needs_saliency,
            retain_graph=retain_graph,
            sharded=sharded,
        )
        reduced = None if alone else start_reduction(self.group, grad_u, moving)
        grad_c = None
        if constraint is not None:
            grad_c = loss_gradient(constraint, moving, squares=squares, sharded=sharded)
            grad_c = grad_c if alone else start_reduction(self.group, grad_c, moving)()
        grad_u = grad_u if reduced is None else reduced()
        # Checks and losses.
        if squares and grad_c is not None and min(grad_u.micro_batches, grad_c.micro_batches) < 2:
            raise InvalidInput(
                "The moments `sample` need each loss in at least 2 micro-batches: pass a list of "
                f"losses. (got {grad_u.micro_batches} and {grad_c.micro_batches})"
            )
        self.losses = (grad_u.loss, None if grad_c is None else grad_c.loss)
        self._check_finite(self.losses)
        # The step, into `p.grad`.
        step = self._take(moving if shards is None else shards.local_shards(), grad_u, grad_c)
        for k, gradient in zip(step.used, step.g_c, strict=True):
            moving[k].grad = gradient if shards is None else shards.as_sharded(k, gradient)
        if self.strict:
            self._pending = [(moving[k], w) for k, w in zip(step.used, step.g_u, strict=True)]

    @torch.no_grad()
    def combine(
        self,
        objective: Sequence[Tensor],
        constraint: Sequence[Tensor] | None = None,
        *,
        saliency: Sequence[Tensor] | None = None,
        variances: tuple[Sequence[Tensor], Sequence[Tensor]] | None = None,
        constraint_loss: float | Tensor | None = None,
    ) -> list[Tensor]:
        """-Δ from two lists of gradients: what to subtract, as an optimizer does.

        The arguments are left as they are. ``variances`` are those of the two batch means, needed
        with ``SampleMoments`` and with nothing else; ``constraint_loss`` is C itself, needed with
        ``PrimalDual``.

        >>> from expunge.update import WeightedSum
        >>> update = Update("and", WeightedSum(1.0, 1.0))
        >>> update.combine([torch.tensor([1.0, -2.0])], [torch.tensor([2.0, 3.0])])
        [tensor([3., 0.])]
        """
        check_arguments(Update.combine, locals())
        if self.strict:
            raise InvalidInput("`strict=True` weighs the optimizer's step: use `backward`.")
        self._shards = None
        needed = self._from_micro_batches and constraint is not None
        if needed if variances is None else not self._from_micro_batches:
            raise InvalidInput("`variances` go with the moments `sample`, and only with them.")
        count = 2 if self._from_micro_batches else 1
        grad_u, grad_c = given_gradients(objective, constraint, saliency, variances, count)
        if grad_c is not None and getattr(self.aggregate, "reads_loss", False):
            loss = check_constraint_loss(self.aggregate, constraint_loss)
            grad_c = grad_c._replace(loss=loss)
        return self._take(objective, grad_u, grad_c).g_c

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer.step()``; under ``strict``, scaled parameter by parameter by the weight."""
        if not isinstance(optimizer, torch.optim.Optimizer):
            check_kind("optimizer", torch.optim.Optimizer, optimizer)
        if not self.strict:
            optimizer.step()
            return
        if self._pending is None:
            raise InvalidInput("With `strict=True`, every `step` follows a `backward` of its own.")
        before = [local_shard(p).detach().clone() for p, _ in self._pending]
        optimizer.step()
        for (parameter, weight), old in zip(self._pending, before, strict=True):
            p = local_shard(parameter)
            # Where the weight is 0 or 1 the old or the new value itself, without rounding.
            scaled = torch.lerp(old, p, weight)
            p.copy_(torch.where(weight == 0, old, torch.where(weight == 1, p, scaled)))
        self._pending = None

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last step was like; reading it waits for the device."""
        if not self.keeps_diagnostics:
            raise InvalidInput("This update keeps no diagnostics: it has `diagnostics=False`.")
        if self.record is None:
            raise InvalidInput("There are no diagnostics before the first step.")
        return self.read(self.record, constrained=self._constrained)

    def read(self, record: Tensor, *, constrained: bool) -> Diagnostics:
        """Diagnostics from a raw ``record`` kept earlier."""
        statistical = self.addon.moment_estimator is not None
        return read_record(record, constrained=constrained, statistical=statistical)

    def state_dict(self) -> dict[str, Any]:
        """Step count, moments and random streams, as plain values and tensors.

        The tensors are the live ones, as in ``torch``: save or copy them before the next step. The
        moments of sharded parameters are sharded likewise, as ``DTensor``.
        """
        state = self.state.state_dict()
        if self._shards is not None:
            for name in ("moments_u", "moments_c"):
                state[name] = [self._shards.as_sharded(k, m) for k, m in enumerate(state[name])]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken; a step not yet taken is dropped."""
        check_kind("state", dict, state)
        self.state.load_state_dict(state)
        self._pending = None

    def prepare(self, params: Iterable[Tensor]) -> None:
        """Make room for the moments now rather than at the first step.

        Afterwards :meth:`state_dict` has the tensors that a distributed checkpoint loads into.
        """
        moving = trainable(params)
        shards = self._find_shards(moving)
        if self.addon.moment_estimator is not None:
            self.state.prepare(moving if shards is None else shards.local_shards())

    def _check_finite(self, losses: tuple[Tensor, Tensor | None]) -> None:
        if not self.checks_losses:
            return
        for name, loss in zip(("objective", "constraint"), losses, strict=True):
            if loss is not None and loss.device.type == "cpu" and not bool(loss.isfinite()):
                raise Diverged(
                    f"The loss `{name}` should be finite. (got {float(loss)}) No gradient was "
                    "filled in. Lower the learning rate, and look for log(0) or a division by 0."
                )

    def _find_shards(self, params: Sequence[Tensor]) -> ShardedParameters | None:
        """How the parameters are sharded over processes; kept for what follows."""
        self._shards = ShardedParameters(params) if any(map(is_sharded, params)) else None
        if self._shards is not None and not self.aggregate.elementwise:
            raise InvalidInput(
                "An aggregation of sharded parameters should be elementwise, as linear and min-abs "
                f"are: no process has all of them. (got {self.aggregate!r})"
            )
        return self._shards

    @property
    def _from_micro_batches(self) -> bool:
        moments = self.addon.moment_estimator
        return moments is not None and moments.from_micro_batches

    @torch.no_grad()
    def _take(
        self, params: Sequence[Tensor], grad_u: LossGradient, grad_c: LossGradient | None
    ) -> Step:
        compile = grad_c is not None and self.compile
        if compile == "auto":
            large = sum(map(Tensor.numel, params)) >= COMPILE_FROM
            compile = large and can_compile(params[0].device.type)
        spec = KernelSpec(self.addon, self.aggregate, self.strict, self.keeps_diagnostics)
        step = Step(spec, self.state, params, grad_u, grad_c, self._shards)
        self.record, self._constrained = step.run(compile), grad_c is not None
        return step
