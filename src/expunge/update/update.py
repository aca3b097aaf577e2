"""Two gradients in, one step direction out: the add-on machinery for anybody's training loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from expunge.errors import InvalidInput
from expunge.update.addons import ADDONS, Addon, NoAddon
from expunge.update.aggregate import Aggregate, Alone, as_aggregate
from expunge.update.diagnostics import WIDTH, Diagnostics, read
from expunge.update.gradients import Gathered, Losses, Term, gather
from expunge.update.kernel import SUMS, Block, Recipe, should_compile
from expunge.update.layout import flat, laid_out, strides_of
from expunge.update.moments import Coefficients
from expunge.update.state import State
from expunge.update.sweep import Sweep, flatten

Bundle = TypeVar("Bundle", Sequence[Tensor], Mapping[str, Tensor])


class Update:
    """Fills ``p.grad`` with a step that unlearns (objective) without breaking (constraint).

    For each parameter, ``p.grad ← weight · aggregate(ĝ_U, ĝ_C)``, that is -Δ, with the weight of
    the add-on: Algorithm 1 of the paper between its two gradients and its optimizer.

    Without a constraint there is nothing to disagree with: every add-on but ``saliency`` leaves the
    objective's gradient as it is.

    Args:
        addon: a name (``"focus"``, ``"PROB"``, …) or an instance such as ``Focus(eps=1e-6)``.
        aggregate: a name (``"linear"``, ``"min-abs"``, ``"torchjd:UPGrad"``), an instance, or any
            TorchJD aggregator.
        strict: weigh the optimizer's step instead of the gradient, so that a parameter of weight 0
            does not move at all, by momentum or weight decay either. Step with :meth:`step` then.
        diagnostics: keep the sums that :attr:`diagnostics` reads.
        compile: ``"auto"`` compiles for large models where a compiler exists; or force it.
        seed: of the random stream of ``bernoulli``.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        >>> update = Update(addon="focus", aggregate=Linear(0.05, 0.95))
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
    ) -> None:
        self.addon: Addon = ADDONS.resolve(addon)
        if not isinstance(self.addon, Addon):
            raise InvalidInput(f"`addon` should be a name or an add-on. (got {addon!r})")
        self.aggregate = as_aggregate(aggregate)
        self.strict = strict
        self.diagnose = diagnostics
        self.compile = compile
        self.state = State(seed)
        self.losses: tuple[Tensor, Tensor | None] | None = None
        """The objective's and the constraint's loss at the last :meth:`backward`, detached."""
        self._record: Tensor | None = None
        self._constrained = False
        self._pending: list[tuple[Tensor, Tensor]] = []

    def __repr__(self) -> str:
        strict = ", strict=True" if self.strict else ""
        return f"Update(addon={self.addon!r}, aggregate={self.aggregate!r}{strict})"

    def backward(
        self,
        objective: Losses,
        constraint: Losses | None = None,
        params: Iterable[Tensor] = (),
        *,
        saliency: Tensor | None = None,
        retain_graph: bool = False,
    ) -> None:
        """Differentiate both losses and fill ``p.grad`` with the step to take.

        A loss is a scalar reduced by its mean, or an iterable of them, one a micro-batch (a
        generator keeps one graph alive at a time); ``SampleMoments`` needs at least two. Frozen
        and repeated parameters are passed over; one that neither loss reaches keeps ``grad=None``.

        Args:
            objective: U, to minimise on the data to forget.
            constraint: C, to keep small on the data to retain; None where there is none.
            params: the parameters to move.
            saliency: for ``Saliency``, the plain loss on forget data where its gradient is not
                ±that of the objective. It may share the objective's graph.
            retain_graph: set it where objective and constraint share a part of their graphs.
        """
        moving = _moving(params)
        if self._pending:
            raise InvalidInput("With `strict=True`, step with `update.step(optimizer)`.")
        if saliency is not None:
            if not isinstance(objective, Tensor):
                raise InvalidInput("`saliency` goes with a single objective; use `Term`s instead.")
            objective = Term(objective, saliency)
        spread = self._from_parts
        first = gather(
            objective, moving, spread=spread, salient=self.addon.ranks, retain_graph=retain_graph
        )
        second = None if constraint is None else gather(constraint, moving, spread=spread)
        self.losses = (first.loss, None if second is None else second.loss)
        self._check_parts(first, second)
        used = [
            k
            for k in range(len(moving))
            if first.gradients[k] is not None or (second and second.gradients[k] is not None)
        ]
        steps = self._advance(moving, used, first, second)
        for k, step in zip(used, steps, strict=True):
            moving[k].grad = step

    def combine(
        self,
        objective: Bundle,
        constraint: Bundle | None = None,
        *,
        saliency: Bundle | None = None,
        variances: tuple[Bundle, Bundle] | None = None,
    ) -> Bundle:
        """-Δ from two lists (or dicts) of gradients: what to subtract, as an optimizer does.

        The arguments are left as they are. ``variances`` are those of the two batch means, needed
        with ``SampleMoments`` and with nothing else.

        >>> update = Update("and", Linear(1.0, 1.0))
        >>> update.combine({"w": torch.tensor([1.0, 1.0])}, {"w": torch.tensor([2.0, -2.0])})
        {'w': tensor([3., 0.])}
        """
        if (variances is not None) != self._from_parts:
            raise InvalidInput("`variances` go with the moments `sample`, and only with them.")
        if self.strict:
            raise InvalidInput("`strict=True` weighs the optimizer's step: use `backward`.")
        names = list(objective) if isinstance(objective, Mapping) else None
        g_u = _listed(objective, names)
        g_c = None if constraint is None else [g.clone() for g in _listed(constraint, names)]
        _check_alike(g_u, g_c)
        spread = [None, None] if variances is None else [_listed(v, names) for v in variances]
        # Two parts, so that the scale 1/(K(K-1)) is a half: twice the variance is the spread.
        doubled = [None if v is None else [2.0 * x for x in v] for v in spread]
        parts = 2 if self._from_parts else 1
        nothing = torch.zeros(())
        salience = None if saliency is None else list(_listed(saliency, names))
        steps = self._advance(
            g_u,
            range(len(g_u)),
            Gathered(list(g_u), salience, doubled[0], parts, nothing),  # type: ignore[arg-type]
            None if g_c is None else Gathered(list(g_c), None, doubled[1], parts, nothing),
        )
        return dict(zip(names, steps, strict=True)) if names is not None else steps  # type: ignore[return-value]

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer.step()``; under ``strict``, scaled parameter by parameter by the weight."""
        if not self.strict:
            optimizer.step()
            return
        before = [p.detach().clone() for p, _ in self._pending]
        optimizer.step()
        for (p, weight), old in zip(self._pending, before, strict=True):
            # Where the weight is 0 or 1 the old or the new value itself, without rounding.
            scaled = torch.lerp(old, p, weight)
            p.copy_(torch.where(weight == 0, old, torch.where(weight == 1, p, scaled)))
        self._pending = []

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last step was like; reading it waits for the device."""
        if self._record is None:
            raise InvalidInput("There are no diagnostics before the first step.")
        return self.read(self._record, constrained=self._constrained)

    @property
    def record(self) -> Tensor | None:
        """The raw sums of the last step, on the device, unread: see :meth:`read`."""
        return self._record

    def read(self, record: Tensor, *, constrained: bool) -> Diagnostics:
        """Diagnostics from a raw ``record`` kept earlier."""
        statistical = self.addon.statistics is not None
        return read(record, constrained=constrained, statistical=statistical)

    def state_dict(self) -> dict[str, Any]:
        """Step count, moments and random streams, as plain values and tensors."""
        return self.state.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.state.load_state_dict(state)

    @property
    def _from_parts(self) -> bool:
        return self.addon.statistics is not None and self.addon.statistics.from_parts

    def _check_parts(self, first: Gathered, second: Gathered | None) -> None:
        if self._from_parts and second is not None and min(first.parts, second.parts) < 2:
            raise InvalidInput(
                "The moments `sample` need each loss in at least 2 micro-batches: pass a list of "
                f"losses. (got {first.parts} and {second.parts})"
            )

    @torch.no_grad()
    def _advance(
        self,
        params: Sequence[Tensor],
        used: Sequence[int],
        first: Gathered,
        second: Gathered | None,
    ) -> list[Tensor]:
        self.state.step += 1
        self._constrained = second is not None
        addon, aggregate = self.addon, self.aggregate
        if second is None:
            addon, aggregate = (addon if addon.ranks else NoAddon()), Alone()
            if not addon.ranks and not self.strict:
                return self._pass_on(used, first)
        recipe = Recipe(addon, aggregate, self.strict, self.diagnose)
        moments = addon.statistics
        self.state.prepare(params, moments=moments is not None)
        coefficients = (0.0, 0.0, 0.0, 0.0)
        if moments is not None and second is not None:
            u = moments.coefficients(self.state.step, first.parts)
            c = moments.coefficients(self.state.step, second.parts)
            coefficients = (*u, Coefficients(*c).scale)
            if first.spread is not None and second.spread is not None:
                self._take_spread(first.spread, second.spread)
        g_u, g_c = self._complete(params, used, first, second)
        whole = None if aggregate.elementwise else aggregate.combine(flatten(g_u), flatten(g_c))
        total = sum(params[k].numel() for k in used)
        sweep = Sweep(recipe, self.state, coefficients, self._compiles(params, total))
        offset = 0
        for k, u, c in zip(used, g_u, g_c, strict=True):
            count = u.numel()
            if count == 0:
                continue
            block = Block(
                flat(u),
                flat(c),
                flat(self.state.moments_u[k]) if moments is not None else None,
                flat(self.state.moments_c[k]) if moments is not None else None,
                None if whole is None else whole[offset : offset + count].to(u.device),
            )
            if addon.ranks:
                block = self._ranked(block, k, first)
            sweep.run(block)
            offset += count
        if self.strict:
            self._pending = [(params[k], u) for k, u in zip(used, g_u, strict=True)]
        self._record = sweep.tally.record() if self.diagnose else None
        return g_c

    def _pass_on(self, used: Sequence[int], first: Gathered) -> list[Tensor]:
        """No constraint and nothing to rank by: the gradient itself, and its length."""
        gradients = [g for k in used if (g := first.gradients[k]) is not None]
        if self.diagnose and gradients:
            norms = torch.stack([n.double() for n in torch._foreach_norm(gradients)])
            peaks = torch.stack([g.abs().amax().double() for g in gradients if g.numel()])
            count = sum(g.numel() for g in gradients)
            record = torch.zeros(WIDTH, dtype=torch.float64, device=norms.device)
            square = norms.square().sum()
            for name in ("dot_u", "square_u", "square"):
                record[SUMS.index(name)] = square
            record[SUMS.index("moved")] = record[-1] = count
            record[len(SUMS)] = peaks.amax()
            self._record = record
        return gradients

    def _take_spread(self, spread_u: list[Tensor], spread_c: list[Tensor]) -> None:
        for moments, spread in (
            (self.state.moments_u, spread_u),
            (self.state.moments_c, spread_c),
        ):
            for buffer, value in zip(moments, spread, strict=True):
                buffer.copy_(value)

    def _complete(
        self,
        params: Sequence[Tensor],
        used: Sequence[int],
        first: Gathered,
        second: Gathered | None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Both gradients of the used parameters, dense, laid out like them; zeros where None."""
        g_u, g_c = [], []
        for k in used:
            strides = strides_of(params[k])
            u = first.gradients[k]
            c = u.clone() if second is None and u is not None else None
            if second is not None:
                c = second.gradients[k]
            g_u.append(_dense(u, params[k], strides))
            g_c.append(_dense(c, params[k], strides))
        return g_u, g_c

    def _ranked(self, block: Block, k: int, first: Gathered) -> Block:
        """The block with the gradient that ranks it and that gradient's median."""
        salience = block.objective
        if first.salience is not None:
            given = first.salience[k]
            salience = torch.zeros_like(salience) if given is None else flat(given)
        if salience is block.objective and self.strict:
            salience = salience.clone()  # the weight is written over the objective's gradient
        return block._replace(salience=salience, threshold=salience.abs().median())

    def _compiles(self, params: Sequence[Tensor], total: int) -> bool:
        if self.compile == "auto":
            return bool(params) and should_compile(params[0].device.type, total)
        return self.compile


def _moving(params: Iterable[Tensor]) -> list[Tensor]:
    if isinstance(params, Tensor):
        raise InvalidInput("`params` should be an iterable of parameters, not a tensor.")
    unique = {id(p): p for p in params if p.requires_grad}
    if not unique:
        raise InvalidInput("`params` should hold at least one parameter that requires a gradient.")
    return list(unique.values())


def _listed(bundle: Any, names: list[str] | None) -> list[Tensor]:
    if names is None:
        return list(bundle)
    if set(bundle) != set(names):
        odd = sorted(set(bundle) ^ set(names))
        raise InvalidInput(f"Both dicts of gradients should have the same names. (differ in {odd})")
    return [bundle[name] for name in names]


def _check_alike(g_u: list[Tensor], g_c: list[Tensor] | None) -> None:
    if g_c is None:
        return
    if [g.shape for g in g_u] != [g.shape for g in g_c]:
        raise InvalidInput(
            "Both gradients should have the same number of tensors, of the same shapes. (got "
            f"{[tuple(g.shape) for g in g_u]} and {[tuple(g.shape) for g in g_c]})"
        )


def _dense(gradient: Tensor | None, parameter: Tensor, strides: tuple[int, ...]) -> Tensor:
    if gradient is None:
        return torch.zeros_like(parameter, requires_grad=False)
    return laid_out(gradient.detach(), strides)
