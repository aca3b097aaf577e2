"""What the Trainer is given: rows to collate, and settings that it does not take."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge import data
from expunge._errors import InvalidInput
from expunge.data.text import IGNORED


class Collator:
    """The Trainer's collator; with ``pads``, ours for pairs and for rows of different lengths."""

    def __init__(self, collate: Any, *, pads: bool) -> None:
        self.collate, self.pads = collate, pads

    def __call__(self, items: list[Any]) -> dict[str, Any]:
        paired = isinstance(items[0], tuple | list)
        rows = [data.named(item) if paired else dict(item) for item in items]
        positions = [row.pop(data.POSITION) for row in rows if data.POSITION in row]
        shapes = {np.shape(row["labels"]) for row in rows if "labels" in row}
        uneven = paired or bool(positions) or len(shapes) > 1
        if self.pads and uneven and shapes and all(len(shape) == 1 for shape in shapes):
            batch = _cut(data.pad_sequences(rows))
        else:
            batch = self.collate(rows if positions else items)
        return batch | {data.POSITION: torch.tensor(positions)} if positions else batch


def _cut(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """A batch without the columns after its last label, which no loss depends on."""
    own, preferred = data.split_preferred(batch)
    labelled = (own["labels"] != IGNORED).any(dim=0).nonzero()
    if preferred or not len(labelled):
        return batch
    return {name: part[:, : 1 + int(labelled.max())] for name, part in own.items()}


def refuse_options(trainer: Any, given: Collection[str]) -> None:
    """Refuse settings under which the two gradients could not be computed as they are."""
    args = trainer.args
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    sampling = getattr(args, "train_sampling_strategy", "random")
    sharded = getattr(trainer, "is_distributed_loading_by_transformers", False)
    refused = {
        "`model_init`: the reference would be another model; pass `model`": "model_init" in given,
        "`compute_loss_func`: the method has the losses; see `loss`": "compute_loss_func" in given,
        "`label_smoothing_factor`: put it into `loss`": args.label_smoothing_factor,
        "`fp16`: its loss scaling knows one loss only; use `bf16`": args.fp16,
        "`deepspeed`: it holds the gradients back; use `fsdp`": args.deepspeed,
        "version 1 of `fsdp`: its parameters are flattened; use version 2": (
            plugin is not None and plugin.fsdp_version != 2
        ),
        f"`fsdp` with {type(trainer.method).__name__}, which asks about whole sets: leave it out": (
            trainer.is_fsdp_enabled and trainer.prepares_epochs
        ),
        "several GPUs in one process: start one process each, with torchrun": args.n_gpu > 1,
        "`parallelism_config` or a model sharded on loading: use `fsdp`": (
            getattr(args, "parallelism_config", None) or sharded
        ),
        "`train_sampling_strategy` in several processes: use random": (
            args.world_size > 1 and sampling not in ("random", "sequential")
        ),
        "weights that are not loaded: load them in every process": any(
            p.is_meta for p in trainer.model.parameters()
        ),
    }
    problems = [text for text, value in refused.items() if value]
    if problems:
        raise InvalidInput(f"The `UnlearningTrainer` does not take {'; nor '.join(problems)}.")
