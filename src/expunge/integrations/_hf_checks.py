"""What an unlearning ``Trainer`` cannot do, said before the first step."""

from __future__ import annotations

from typing import Any

from expunge._errors import InvalidInput
from expunge.methods import Method


def check_method(method: Any) -> Method:
    """A method whose epoch goes over the forget set."""
    if not isinstance(method, Method):
        raise InvalidInput(f"`method` should be a name or a method. (got {method!r})")
    if method.epoch_over != "forget":
        raise InvalidInput(
            f"{type(method).__name__} trains on the retain set alone: use the Trainer itself."
        )
    return method


def check_arguments(args: Any, options: dict[str, Any]) -> None:
    """Settings under which both gradients could not be taken as they are."""
    refused = {
        "`model_init`: the reference would be another model; pass `model`": options.get(
            "model_init"
        ),
        "`compute_loss_func`: the method has the losses; see `loss`": options.get(
            "compute_loss_func"
        ),
        "`label_smoothing_factor`: put it into `loss`": args.label_smoothing_factor,
        "`fp16`: its loss scaling knows one loss only; use `bf16`": args.fp16,
        "`deepspeed` or `fsdp`: one process has all weights here": args.deepspeed or args.fsdp,
        "several processes or GPUs: use one, or a loop of your own with `Update`": (
            args.world_size > 1 or args.n_gpu > 1
        ),
    }
    found = [text for text, value in refused.items() if value]
    if found:
        raise InvalidInput(f"The `UnlearningTrainer` does not take {'; nor '.join(found)}.")
