"""Loss scaling, for float16 gradients that would otherwise underflow to zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import Count, Fraction, Range, check_fields
from expunge.update._gradients import LossGradient
from expunge.update._shards import ShardedParameters


@dataclass
class LossScale:
    """A factor for both losses, taken out of the gradients again before anything reads them.

    It follows ``torch.amp.GradScaler``: a gradient that is not finite costs its step, and the
    factor is multiplied by ``backoff``; after ``every`` steps without one, by ``growth``. At 1
    there is nothing to lower: gradients that are not finite then are passed on to the caller.
    """

    value: Annotated[float, Range(1, ends="[)")] = 65536.0
    growth: Annotated[float, Range(1, ends="[)")] = 2.0
    backoff: Fraction = 0.5
    every: Count = 2000
    good: int = 0
    """Steps since the factor last changed."""

    def __post_init__(self) -> None:
        check_fields(self)

    def follow(self, *, finite: bool) -> None:
        """Adjust the factor to how a step went.

        >>> scale = LossScale(8.0, every=2)
        >>> for finite in (False, True, True):
        ...     scale.follow(finite=finite)
        ...     print(scale.value)
        4.0
        4.0
        8.0
        """
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.value = max(self.value * self.backoff, 1.0)
        elif self.good >= self.every:
            self.value, self.good = min(self.value * self.growth, 2.0**60), 0

    def unscale_step(
        self, gradients: Sequence[LossGradient], shards: ShardedParameters | None = None
    ) -> bool:
        """Divide gradients by the factor and adjust it; return whether to skip the step."""
        value = self.value
        not_finite = unscale(gradients, value)
        if shards is not None:
            not_finite = shards.sum_parts(not_finite)
        finite = not bool(not_finite)
        self.follow(finite=finite)
        return not finite and value > 1.0

    def state_dict(self) -> dict[str, Any]:
        """The factor and how long it has held."""
        return {"value": self.value, "good": self.good}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.value, self.good = float(state["value"]), int(state["good"])


def unscale(gradients: Iterable[LossGradient], scale: float) -> Tensor:
    """Divide gradients by ``scale``, in place; not 0 where one of them is not finite."""
    kinds: dict[tuple[torch.device, torch.dtype, int], list[Tensor]] = {}
    for gradient in gradients:
        powers = ((gradient.gradients, 1), (gradient.salience, 1), (gradient.squares, 2))
        for tensors, power in powers:
            for tensor in tensors or ():
                if tensor is not None:
                    kinds.setdefault((tensor.device, tensor.dtype, power), []).append(tensor)
    not_finite: Tensor | None = None
    for (device, dtype, power), tensors in kinds.items():
        if dtype == torch.float16:
            raise InvalidInput(
                "Loss scaling needs parameters in float32, used in float16 under autocast. "
                "(got gradients in float16)"
            )
        bad = torch.zeros((), device=device)
        inverse = torch.full((), scale**-power, device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(tensors, bad, inverse)
        not_finite = bad if not_finite is None else not_finite + bad.to(not_finite.device)
    return torch.zeros(()) if not_finite is None else not_finite
