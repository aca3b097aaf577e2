"""Loss scaling: float16 gradients too small to be told from zero, made large on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._gradients import Gathered
from expunge.update._shards import Shards


@dataclass
class LossScale:
    """A factor for both losses, taken out of the gradients again before anything reads them.

    It follows ``torch.amp.GradScaler``: a gradient that is not finite costs its step, and the
    factor is multiplied by ``backoff``; after ``every`` steps without one, by ``growth``. At 1
    there is nothing to lower: what is not finite then is handed on, for the caller to judge.
    """

    value: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    every: int = 2000
    good: int = 0
    """Steps since the factor last changed."""

    def __post_init__(self) -> None:
        if not self.value >= 1.0 or self.value == float("inf"):
            raise InvalidInput(f"`value` should be finite and at least 1. (got {self.value})")
        if not self.growth >= 1.0:
            raise InvalidInput(f"`growth` should be at least 1. (got {self.growth})")
        if not 0.0 < self.backoff < 1.0:
            raise InvalidInput(f"`backoff` should be in (0, 1). (got {self.backoff})")
        if self.every < 1:
            raise InvalidInput(f"`every` should be at least 1. (got {self.every})")

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

    def take_out(self, gathered: Sequence[Gathered], shards: Shards | None = None) -> bool:
        """Divide gradients by the factor, and adjust it; whether the step has to be skipped."""
        value = self.value
        found = unscale(gathered, value)
        if shards is not None:
            found = shards.total(found)
        finite = not bool(found)
        self.follow(finite=finite)
        return not finite and value > 1.0

    def state_dict(self) -> dict[str, Any]:
        """The factor and how long it has held."""
        return {"value": self.value, "good": self.good}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.value, self.good = float(state["value"]), int(state["good"])


def unscale(gathered: Iterable[Gathered], scale: float) -> Tensor:
    """Divide gradients by ``scale``, in place; not 0 where one of them is not finite."""
    kinds: dict[tuple[torch.device, torch.dtype, int], list[Tensor]] = {}
    for each in gathered:
        for tensors, power in ((each.gradients, 1), (each.salience, 1), (each.spread, 2)):
            for tensor in tensors or ():
                if tensor is not None:
                    kinds.setdefault((tensor.device, tensor.dtype, power), []).append(tensor)
    found: Tensor | None = None
    for (device, dtype, power), tensors in kinds.items():
        if dtype == torch.float16:
            raise InvalidInput(
                "Loss scaling needs parameters in float32, used in float16 under autocast. "
                "(got gradients in float16)"
            )
        bad = torch.zeros((), device=device)
        inverse = torch.full((), scale**-power, device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(tensors, bad, inverse)
        found = bad if found is None else found + bad.to(found.device)
    return torch.zeros(()) if found is None else found
