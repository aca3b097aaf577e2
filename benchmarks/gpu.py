"""The rows that are missing for GPUs: run it on yours, and send what it prints.

    python benchmarks/gpu.py                 # the accelerator that torch finds; minutes
    python benchmarks/gpu.py --device mps    # a Mac
    python benchmarks/gpu.py --device cpu --small --steps 2   # a dry run, with a tiny network

A ResNet18 (or VGG16) unlearns random images of 32x32 with SRL, in batches of 256, once per row:
with and without add-on, in bfloat16, in micro-batches, compiled, and
resumed from a checkpoint. Nothing is downloaded. A row that fails states the error, and the others
go on. The table has, for each row:

- **ms/step**: milliseconds of a step, the median over epochs after the first, without set-up;
- **ratio**: to the row without add-on;
- **peak MiB**: the highest memory of the device, as torch reports it;
- **vs CPU**: ‖θ - θ'‖ / ‖θ' - θ₀‖ after ``--steps`` steps, θ' being the same run on the CPU in
  float32: 0 is equal, rounding gives 1e-3 or less, bfloat16 up to a tenth;
- **again**: whether the same seed gives the same bits a second time (resumed: as without a stop).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import platform
import statistics
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import expunge
from expunge.engine import Callback, Run

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("none", {}),
    "FOCUS": ("focus", {}),
    "PROB": ("prob", {}),
    "SalUn": ("saliency", {}),
    "FOCUS, bf16": ("focus", {"precision": "bf16"}),
    "FOCUS, 4 micro-batches": ("focus", {"micro_batches": 4}),
    "FOCUS, compiled": ("focus", {"compile": True}),
    "FOCUS, resumed": ("focus", {"checkpoint": "run.ckpt"}),
}
"""By label: the add-on, and options of the execution."""
HEAD = ("row", "ms/step", "ratio", "peak MiB", "vs CPU", "again")


class StopHalfway(Callback):
    """Ends a run in its second epoch, as a kill would; the first is in the checkpoint."""

    def on_epoch(self, run: Run) -> None:
        if run.epoch == 2:
            raise KeyboardInterrupt


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().cpu().double().flatten() for p in model.parameters()])


def unlearn(
    model: nn.Module, images: TensorDataset, batch: int, row: str, device: str, epochs: int
) -> expunge.Result:
    addon, options = ROWS[row]
    forget, retain = (
        TensorDataset(*(t[rows] for t in images.tensors))
        for rows in (slice(batch), slice(batch, None))
    )
    chosen = {"device": device, "progress": False} | options
    call: dict[str, Any] = {"forget": forget, "retain": retain, "addon": addon}
    call |= {"method": "SRL", "epochs": epochs, "batch_size": batch, "lr": 1e-4}
    with tempfile.TemporaryDirectory() as folder:
        if "checkpoint" in options:
            chosen |= {"checkpoint": Path(folder) / options["checkpoint"], "checkpoint_every": 1}
            stopped = expunge.Execution(**chosen, callbacks=[StopHalfway()])
            with contextlib.suppress(KeyboardInterrupt):
                expunge.unlearn(model, **call, execution=stopped)
        return expunge.unlearn(model, **call, execution=expunge.Execution(**chosen))


def peak(device: str) -> float | None:
    """The highest memory of a CUDA device, in MiB, since the last call; None elsewhere."""
    if not device.startswith("cuda"):
        return None
    found = torch.cuda.max_memory_allocated(device) / 2**20
    torch.cuda.reset_peak_memory_stats(device)
    return found


def measure(device: str, arch: str, batch: int, steps: int, small: bool) -> list[list[str]]:
    """The table: one line per row."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    size, model = (32, expunge.build_model(arch)) if not small else (8, nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    ))  # fmt: skip
    pixels = torch.randn(2 * batch, 3, size, size, generator=generator)
    images = TensorDataset(pixels, torch.randint(10, (len(pixels),), generator=generator))
    start, lines, plain = flat(model), [], None
    references: dict[str, Tensor] = {}
    for row, (addon, _) in ROWS.items():
        try:
            if addon not in references:  # the first row of an add-on is its plain one
                references[addon] = flat(unlearn(model, images, batch, row, "cpu", steps).model)
            peak(device)
            result = unlearn(model, images, batch, row, device, steps)
            memory, found = peak(device), flat(result.model)
            second = "FOCUS" if row.endswith("resumed") else row
            again = unlearn(model, images, batch, second, device, steps)
            same = torch.equal(found, flat(again.model))
            ends = [0.0, *(epoch["seconds"] for epoch in result.history.epochs)]
            each = [1e3 * (b - a) for a, b in itertools.pairwise(ends)]
            step = statistics.median(each[1:] or each)
            plain = step if plain is None else plain
            far = float((found - references[addon]).norm() / (references[addon] - start).norm())
            shown = "" if memory is None else f"{memory:.0f}"
            lines.append([row, f"{step:.1f}", f"{step / plain:.2f}", shown, f"{far:.1e}",
                          "same" if same else "differs"])  # fmt: skip
        except Exception as error:
            text = str(error).splitlines()[0] if str(error) else ""
            lines.append([row, f"{type(error).__name__}: {text}"[:100].replace("|", "/")])
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The rows that are missing for GPUs.")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1, mps or cpu")
    parser.add_argument("--arch", default="resnet18", choices=("resnet18", "vgg16"))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4, help="steps per run, two or more")
    parser.add_argument("--small", action="store_true", help="a tiny network, to try the script")
    chosen = parser.parse_args(arguments)
    if chosen.steps < 2 or chosen.batch < 4:
        parser.error("--steps should be 2 or more, and --batch 4 or more.")
    device = chosen.device
    if device == "auto":
        found = torch.accelerator.is_available() and torch.accelerator.current_accelerator()
        device = found.type if found else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        parser.error(f"The device {device} cannot be used here: {str(error).splitlines()[0]}")
    warnings.simplefilter("ignore", UserWarning)  # of runs that are too short to forget anything
    lines = measure(device, chosen.arch, chosen.batch, chosen.steps, chosen.small)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    print(f"{name} ({device}), {platform.system()}, Python {platform.python_version()}, torch "
          f"{torch.__version__}, CUDA {torch.version.cuda}, expunge {expunge.__version__}: "
          f"{'tiny network' if chosen.small else chosen.arch}, batches of {chosen.batch}, "
          f"{chosen.steps} steps\n")  # fmt: skip
    print("\n".join("| " + " | ".join(line + [""] * (len(HEAD) - len(line))) + " |"
                    for line in [list(HEAD), ["---"] * len(HEAD), *lines]))  # fmt: skip
    if device == "cpu":
        print("\nThis was a dry run on the CPU: nothing to send.")
    else:
        print("\nPlease send this table in an issue of the repository: it ends 'untested' there.")


if __name__ == "__main__":
    main()
