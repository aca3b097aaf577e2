"""The running part of an update: step count, moments and random streams, saved and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from expunge.errors import InvalidInput
from expunge.update.layout import moment_dtype


class State:
    """What an update remembers from step to step.

    ``moments_u`` and ``moments_c`` hold one buffer a parameter, shaped and laid out like it, in
    float32 (float64 beside float64 parameters); they are empty for add-ons without moments.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.step = 0
        self.moments_u: list[Tensor] = []
        self.moments_c: list[Tensor] = []
        self._generators: dict[str, torch.Generator] = {}

    def prepare(self, params: Sequence[Tensor], *, moments: bool) -> None:
        """Make room for ``params`` at the first step; afterwards check that they are the same."""
        if not moments:
            return
        if not self.moments_u:
            self.moments_u = [_zeros(p) for p in params]
            self.moments_c = [_zeros(p) for p in params]
        shapes = [tuple(m.shape) for m in self.moments_u]
        if shapes != [tuple(p.shape) for p in params]:
            raise InvalidInput(
                "An update keeps moments for the parameters of its first step; these differ in "
                "number or shape. Make a new `Update` for another model."
            )
        for k, p in enumerate(params):
            if self.moments_u[k].device != p.device:
                self.moments_u[k] = self.moments_u[k].to(p.device)
                self.moments_c[k] = self.moments_c[k].to(p.device)

    def generator(self, device: torch.device) -> torch.Generator:
        """The random stream of a device."""
        key = str(device)
        if key not in self._generators:
            self._generators[key] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[key]

    def state_dict(self) -> dict[str, Any]:
        """A dict of plain values and tensors."""
        return {
            "step": self.step,
            "moments_u": list(self.moments_u),
            "moments_c": list(self.moments_c),
            "generators": {key: g.get_state() for key, g in self._generators.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where ``state_dict`` was taken."""
        missing = {"step", "moments_u", "moments_c", "generators"} - set(state)
        if missing:
            raise InvalidInput(f"The state lacks {sorted(missing)}; it is not an update's state.")
        self.step = int(state["step"])
        self.moments_u = [m.clone() for m in state["moments_u"]]
        self.moments_c = [m.clone() for m in state["moments_c"]]
        self._generators = {}
        for key, bits in state["generators"].items():
            self.generator(torch.device(key)).set_state(bits.cpu())


def _zeros(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter, dtype=moment_dtype(parameter.dtype), requires_grad=False)
