"""What an ``UnlearningTrainer`` takes, and what it refuses with a reason."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from expunge._errors import InvalidInput
from expunge.methods import Method


def check_method(method: Any) -> Method:
    """Raise unless ``method`` is a method whose epoch is a pass over the forget set."""
    if not isinstance(method, Method):
        raise InvalidInput(f"`method` should be a name or a method. (got {method!r})")
    if method.epoch_over != "forget":
        raise InvalidInput(
            f"{type(method).__name__} trains on the retain set alone: use the Trainer itself."
        )
    return method


def check_arguments(trainer: Any, options: dict[str, Any]) -> None:
    """Refuse settings under which the two gradients could not be computed as they are."""
    args = trainer.args
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    refused = {
        "`model_init`: the reference would be another model; pass `model`": options.get(
            "model_init"
        ),
        "`compute_loss_func`: the method has the losses; see `loss`": options.get(
            "compute_loss_func"
        ),
        "`label_smoothing_factor`: put it into `loss`": args.label_smoothing_factor,
        "`fp16`: its loss scaling knows one loss only; use `bf16`": args.fp16,
        "`deepspeed`: it holds the gradients back; use `fsdp`": args.deepspeed,
        "version 1 of `fsdp`: its parameters are flattened; use version 2": (
            plugin is not None and plugin.fsdp_version != 2
        ),
        "several GPUs in one process: start one process each, with torchrun": args.n_gpu > 1,
        "`parallelism_config` or a model sharded on loading: use `fsdp`": (
            getattr(args, "parallelism_config", None)
            or getattr(trainer, "is_distributed_loading_by_transformers", False)
        ),
        "`train_sampling_strategy` in several processes: use random": (
            args.world_size > 1
            and getattr(args, "train_sampling_strategy", "random") not in ("random", "sequential")
        ),
        "weights that are not loaded: load them in every process": any(
            p.is_meta for p in trainer.model.parameters()
        ),
    }
    problems = [text for text, value in refused.items() if value]
    if problems:
        raise InvalidInput(f"The `UnlearningTrainer` does not take {'; nor '.join(problems)}.")


def warn_of_unreached(model: nn.Module, moving: list[nn.Parameter]) -> None:
    """Warn if recomputed activations hide parameters that should move from both losses.

    Reentrant recomputation needs inputs that require a gradient; below adapters nothing does, and
    the adapters inside silently stay as they are while others move.
    """
    if not getattr(model, "is_gradient_checkpointing", False):
        return
    chosen = {id(p) for p in moving if p.grad is None}
    names = [name for name, p in model.named_parameters() if id(p) in chosen]
    if names:
        warnings.warn(
            f"{len(names)} of {len(moving)} parameters that require a gradient get none from "
            f"either loss and will not move, such as {names[0]}. With gradient checkpointing, "
            "pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
            "model.enable_input_require_grads().",
            stacklevel=2,
        )
