"""Tasks of lm-evaluation-harness, which ``expunge[lm-eval]`` installs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import InvalidInput
from expunge._lazy import import_extra

ROWS = 16
"""Of a batch."""


def harness_scores(model: nn.Module, tokenizer: Any, task: str) -> dict[str, float]:
    """What a task says of a causal model of transformers: ``{"arc_easy acc": 0.5, …}``.

    The task is one that the harness has by that name, or a YAML file. Prompts are its own.
    """
    what = "Tasks of lm-evaluation-harness"
    harness, causal, tasks = (
        import_extra(f"lm_eval{module}", "lm-eval", what)
        for module in ("", ".models.huggingface", ".tasks")
    )
    try:
        # Reading all tasks that come with it takes half a minute.
        manager = tasks.TaskManager(include_defaults=not Path(task).is_file())
        found = harness.simple_evaluate(
            causal.HFLM(pretrained=model, tokenizer=tokenizer, batch_size=ROWS),
            tasks=[task],
            task_manager=manager,
            log_samples=False,
        )
    except Exception as error:  # tasks and their data raise what they like
        raise InvalidInput(f"lm-evaluation-harness cannot run {task}: {error!r}.") from error
    return {
        f"{name} {metric.removesuffix(',none')}": float(value)
        for name, values in found["results"].items()
        for metric, value in values.items()
        if "," in metric and isinstance(value, int | float)
    }
