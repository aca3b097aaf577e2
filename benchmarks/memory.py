"""How much memory does a step take, from 11 M to 8 B parameters?

    python benchmarks/memory.py                  # the table, computed
    python benchmarks/memory.py --measure        # and the points that this machine can hold

Computed are the tensors that live from step to step or through one: parameters, the two gradients,
the two moments, and the optimizer's state, all float32, divided by the number of
shards. Not in it: activations; the block of parameters that FSDP gathers, with its gradient; the
update's scratch of a few MB; and what the allocator wastes.

Measured is the peak of the resident set over two steps, in fresh processes, less what each held
before it made the model, which is a stack of 1024 x 1024 layers. Two shards are two processes over
gloo with FSDP2, a block for every layer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from expunge.update import Update

SIZES = {"11 M": 11.17e6, "138 M": 138.4e6, "1 B": 1.0e9, "8 B": 8.03e9}
SHARDS = (1, 2, 8)
OPTIMIZERS = {"adam": 8, "sgd": 0}
"""Bytes of an optimizer's state for each parameter."""
SIDE = 1024


class Memory(NamedTuple):
    """Bytes of one process, on its device."""

    parameters: float
    gradients: float
    moments: float
    optimizer: float

    @property
    def total(self) -> float:
        return sum(self)


def memory(params: float, shards: int, optimizer: str) -> Memory:
    """The tensors of a step with ``params`` parameters in all, over ``shards`` processes.

    >>> memory(1e9, 8, "adam").total / 1e9  # 28 bytes a parameter
    3.5
    """
    own = params / shards
    return Memory(4 * own, 8 * own, 8 * own, OPTIMIZERS[optimizer] * own)


def table() -> str:
    """Markdown: GB of each process, by size and number of shards."""
    lines = [
        "| parameters | shards | parameters | two gradients | two moments | Adam |"
        " total, Adam | total, SGD |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, params in SIZES.items():
        for shards in SHARDS:
            cells = [name, f"{shards}", *map(_gb, memory(params, shards, "adam"))]
            cells += [_gb(memory(params, shards, each).total) for each in OPTIMIZERS]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _gb(value: float) -> str:
    return f"{value / 1e9:.3g}" if value else "0"


def resident(field: str) -> int:
    """Bytes that the process holds now (VmRSS), or held at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


class Stack(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(SIDE, SIDE, bias=False) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def child(order: dict[str, str | float], rank: int, folder: str) -> None:
    """Take two steps and print the growth of the peak."""
    torch.set_num_threads(1)
    shards, layers = int(order["shards"]), round(float(order["params"]) / SIDE**2)
    if shards > 1:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        store = dist.FileStore(f"{folder}/store", shards)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=shards)
        mesh = init_device_mesh("cpu", (shards,))
    _step(Stack(1), order)  # what is loaded at first use is not the model's
    before = resident("VmRSS")
    if shards > 1:
        with torch.device("meta"):
            model = Stack(layers)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        model.to_empty(device="cpu")
        for p in model.parameters():
            nn.init.normal_(p.to_local(), std=SIDE**-0.5)
    else:
        model = Stack(layers)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making it
    _step(model, order)
    print(json.dumps({"bytes": resident("VmHWM") - before, "params": layers * SIDE**2}))
    if shards > 1:
        dist.destroy_process_group()


def _step(model: nn.Module, order: dict[str, str | float]) -> None:
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    params = list(model.parameters())
    optimizer = kinds[str(order["optimizer"])](params, lr=1e-4)
    update = Update("focus", compile=False)
    x = torch.randn(2, SIDE)
    for _ in range(2):
        losses = ((sign * model(x).square().mean() for _ in range(1)) for sign in (-1.0, 1.0))
        update.backward(*losses, params=params)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def measure(params: float, shards: int, optimizer: str) -> tuple[float, float]:
    """(measured, computed) bytes of one process: the larger of the processes'."""
    order = {"params": params, "shards": shards, "optimizer": optimizer}
    # Large tensors go back to the system when they are freed, as on a device.
    variables = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "MALLOC_MMAP_THRESHOLD_": "65536",
    }
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--child", json.dumps(order), str(rank), folder],
                env=variables,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(shards)
        ]
        said = [json.loads(p.communicate()[0].splitlines()[-1]) for p in processes]
    exact = memory(said[0]["params"], shards, optimizer).total
    return max(s["bytes"] for s in said), exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="also measure what fits here")
    parser.add_argument("--params", type=float, nargs="+", default=[11.5e6, 100e6])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        order, rank, folder = chosen.child
        child(json.loads(order), int(rank), folder)
        return
    print(table())
    if not chosen.measure:
        return
    print("\n| parameters | shards | optimizer | measured | computed | ratio |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for params in chosen.params:
        for shards in (1, 2):
            for optimizer in ("adam", "sgd"):
                found, exact = measure(params, shards, optimizer)
                cells = [f"{params / 1e6:.0f} M", f"{shards}", optimizer]
                cells += [f"{found / 1e9:.3f} GB", f"{exact / 1e9:.3f} GB", f"{found / exact:.2f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
