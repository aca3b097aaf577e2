"""The running part of an update: step count, moments and random streams, saved and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from expunge.errors import InvalidInput
from expunge.update.layout import laid_out, moment_dtype


class State:
    """What an update remembers from step to step.

    ``step`` counts the steps that had a constraint: those the moments have seen.

    ``moments_u`` and ``moments_c`` hold one buffer a parameter, shaped and laid out like it, in
    float32 (float64 beside float64 parameters); they are empty for add-ons without moments.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.step = 0
        self.moments_u: list[Tensor] = []
        self.moments_c: list[Tensor] = []
        self._generators: dict[str, torch.Generator] = {}

    def prepare(self, params: Sequence[Tensor]) -> None:
        """Make room for ``params`` at the first step; afterwards check that they are the same.

        The buffers follow their parameters to another device or memory format, and come back from
        a file that knows no memory format.
        """
        if not self.moments_u:
            self.moments_u = [_zeros(p) for p in params]
            self.moments_c = [_zeros(p) for p in params]
        if [m.shape for m in self.moments_u] != [p.shape for p in params]:
            raise InvalidInput(
                "An update keeps moments for the parameters of its first step; these differ in "
                "number or shape. Make a new `Update` for another model."
            )
        for buffers in (self.moments_u, self.moments_c):
            for k, p in enumerate(params):
                buffers[k] = laid_out(buffers[k].to(p.device, moment_dtype(p.dtype)), p)

    def generator(self, device: torch.device) -> torch.Generator:
        """The random stream of a device."""
        key = str(device)
        if key not in self._generators:
            self._generators[key] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[key]

    def state_dict(self) -> dict[str, Any]:
        """A dict of plain values and of the live tensors: save or copy it before the next step."""
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
        if len(state["moments_u"]) != len(state["moments_c"]):
            raise InvalidInput("The state should hold as many moments of U as of C.")
        self.step = int(state["step"])
        self.moments_u = [m.clone() for m in state["moments_u"]]
        self.moments_c = [m.clone() for m in state["moments_c"]]
        self._generators = {}
        for key, bits in state["generators"].items():
            self.generator(torch.device(key)).set_state(bits.cpu())


def _zeros(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter, dtype=moment_dtype(parameter.dtype), requires_grad=False)
