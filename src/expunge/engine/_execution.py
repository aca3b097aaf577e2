"""How the machine runs a procedure, as one value: where, in what precision, with which files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from expunge._kinds import Count, check_fields, check_kind
from expunge._options import Option, Precision, option, options_of
from expunge.engine._callbacks import Callback

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
"""What options call the types of torch."""


@dataclass(frozen=True)
class Execution:
    """How the machine runs :func:`expunge.unlearn` or :func:`expunge.train`: the random seed, where
    and in what precision, with which files and callbacks. The defaults suit most machines.

    Args:
        seed: of all random streams. The same seed gives the same bits on the CPU.
        device: ``auto`` takes an accelerator if there is one.
        precision: what the model computes in; ``bf16`` (or ``torch.bfloat16``) is autocast around
            it. Weights, losses, gradients and statistics stay float32. See
            ``docs/how-to/large-models.md``.
        micro_batches: take each batch in this many parts, one after the other: the same step
            (except for BatchNorm, which sees the parts) in the memory of one part.
        compile: whether the add-on's arithmetic is compiled; see :class:`expunge.Update`.
        group: processes that share the work, all of which make this call: ``auto`` takes the
            default process group of ``torch.distributed`` where one is initialised, None works
            alone. ``batch_size`` is that of all processes together. See
            ``docs/how-to/several-processes.md``.
        checkpoint: a file to keep the state of the run in, every ``checkpoint_every`` steps, at the
            end of an epoch (the first, then once there were ten steps more) and at the end; the
            same call resumes a killed run.
        callbacks: see :class:`expunge.Callback`.
        progress: show a progress bar in a terminal, and a line in a notebook. With or without it,
            the logger ``expunge`` gets a line per epoch, level INFO.
        title: what the progress calls the run (default: the procedure's short name).

    >>> Execution(precision="bf16").precision
    torch.bfloat16
    """

    seed: int = 0
    device: str | torch.device = "auto"
    precision: torch.dtype | str = option(
        "fp32",
        Precision,
        "What the model computes in; weights and gradients stay fp32. bf16 halves the activations.",
    )
    micro_batches: int = option(
        1,
        Count,
        "Take each batch in this many parts: less memory, the same step but for BatchNorm.",
    )
    compile: bool | Literal["auto"] = "auto"
    group: Any | Literal["auto"] | None = "auto"
    checkpoint: str | Path | None = None
    checkpoint_every: Count = 100
    callbacks: Sequence[Callback] = ()
    progress: bool = True
    title: str = ""

    def __post_init__(self) -> None:
        import torch

        check_fields(self)
        check_kind("device", str | torch.device, self.device)
        names = {getattr(torch, full): name for name, full in DTYPES.items()}
        for each in EXECUTION_OPTIONS:
            value = getattr(self, each.name)
            each.check(names.get(value, value) if isinstance(value, torch.dtype) else value)
        if isinstance(self.precision, str):
            object.__setattr__(self, "precision", getattr(torch, DTYPES[self.precision]))

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], **others: Any) -> Execution:
        """The execution that plain values describe: :data:`EXECUTION_OPTIONS` by name, or None."""
        found = {each.name: values.get(each.name) for each in EXECUTION_OPTIONS}
        return cls(**{name: value for name, value in found.items() if value is not None}, **others)

    def checkpoint_bound_options(self) -> dict[str, Any]:
        """The options that change the bits of a run, so that its checkpoint is bound to them."""
        return {"precision": str(self.precision), "micro_batches": self.micro_batches}


EXECUTION_OPTIONS: tuple[Option, ...] = options_of(Execution)
"""The options that have plain values, for the command line and job files."""
