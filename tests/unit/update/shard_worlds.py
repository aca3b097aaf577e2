"""Models sharded over two processes, and the same models whole, for ``shard_checks.py``.

Each check compares a model sharded over the processes, each with its half of every batch, with the
same model whole on the whole batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from expunge.update import Term, Update

WORLD = 2
BATCH = 12
CHECKS: dict[str, Callable[..., None]] = {}


def check(function: Callable[..., None]) -> Callable[..., None]:
    CHECKS[function.__name__] = function
    return function


class Net(nn.Module):
    """Uneven shapes: 7 rows and 3 outputs over two processes, and a norm of one element."""

    def __init__(self, recompute: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(6, 300)
        self.block = nn.Sequential(nn.Linear(300, 131), nn.Tanh(), nn.Linear(131, 7))
        self.scale = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(7, 3)
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        block = self.block
        x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(torch.tanh(x) * self.scale)


def net(dtype: torch.dtype = torch.float64, *, recompute: bool = False) -> Net:
    torch.manual_seed(0)
    return Net(recompute).to(dtype)


def sharded(model: Net, mesh: Any = None, **options: Any) -> Net:
    mesh = mesh or init_device_mesh("cpu", (WORLD,))
    fully_shard(model.block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def data(step: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    forget, retain = (torch.randn(BATCH, 6, generator=generator).to(dtype) for _ in range(2))
    return forget, retain, torch.arange(BATCH) % 3


def rows(rank: int | None) -> Tensor:
    """A process's examples: every other one; None has all."""
    return torch.arange(BATCH) if rank is None else torch.arange(rank, BATCH, WORLD)


def losses(
    model: Net, step: int, rank: int | None, dtype: torch.dtype, parts: int = 1
) -> tuple[Any, Any]:
    """U with the plain loss beside it, and C, in ``parts`` made lazily."""
    forget, retain, y = data(step, dtype)
    # Part k of the whole batch is what the processes' parts k are together.
    pieces = [
        torch.cat(
            [
                indices.chunk(parts)[k]
                for indices in ([rows(rank)] if rank is not None else [rows(0), rows(1)])
            ]
        )
        for k in range(parts)
    ]

    def objective() -> Any:
        for piece in pieces:
            logits = model(forget[piece])
            wrong = F.cross_entropy(logits, (y[piece] + 1) % 3)
            yield Term(wrong, saliency=F.cross_entropy(logits, y[piece]))

    def constraint() -> Any:
        for piece in pieces:
            yield F.cross_entropy(model(retain[piece]), y[piece])

    return objective(), constraint()


def train(
    model: Net,
    update: Update,
    rank: int | None,
    *,
    dtype: torch.dtype = torch.float64,
    steps: range = range(3),
    parts: int = 1,
    constrained: bool = True,
    eager: bool = False,
    optimizer: torch.optim.Optimizer | None = None,
) -> list[dict[str, float]]:
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-2)
    watched = []
    params = list(model.parameters())
    for step in steps:
        u, c = losses(model, step, rank, dtype, parts)
        if eager:  # both forward passes before either backward
            u, c = list(u), list(c)
        update.backward(u, c if constrained else None, params=params)
        update.step(optimizer)
        if update.keeps_diagnostics:
            watched.append(update.diagnostics.as_dict())
    return watched


def full(model: Net) -> dict[str, Tensor]:
    return {
        name: (p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone()
        for name, p in model.named_parameters()
    }


def assert_alike(model: Net, whole: Net, **tolerance: float) -> None:
    tolerance = tolerance or {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(full(model), full(whole), **tolerance)


def assert_equal_runs(rank: int, arguments: dict[str, Any], **options: Any) -> None:
    dtype = options.get("dtype", torch.float64)
    whole, model = net(dtype), sharded(net(dtype))
    want = train(whole, Update(**arguments), None, **options)
    got = train(model, Update(**arguments), rank, **options)
    exact = dtype == torch.float64
    assert_alike(model, whole, **({} if exact else {"rtol": 1e-3, "atol": 1e-4}))
    for a, b in zip(got, want, strict=True):
        for name, value in b.items():
            error = f"{name}: {a[name]} and {value}"
            assert abs(a[name] - value) <= (1e-9 if exact else 1e-3) * max(1, abs(value)) or (
                a[name] != a[name] and value != value
            ), error


def run_check(name: str) -> None:
    """Run one of ``CHECKS`` in this process of a team."""
    import tests.unit.update.shard_checks  # noqa: F401  (fills CHECKS)

    with warnings.catch_warnings():
        warnings.simplefilter("default")  # those of torch's sharding itself
        CHECKS[name](dist.get_rank())
