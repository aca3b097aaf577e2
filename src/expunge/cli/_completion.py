"""Names that a shell offers while a command is typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from expunge._registry import Registry
from expunge.data import DATASETS, SCENARIOS
from expunge.models import MODELS

Complete = Callable[[str], list[tuple[str, str]]]
"""From what has been typed of a word to the words it may become, each with a line about it."""


def complete_names(registry: Registry[Any]) -> Complete:
    """Complete the names and short names of a registry."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        spellings = ((word, name) for name in registry for word in (name, registry.label(name)))
        return [
            (word, registry.summary(name))
            for word, name in dict(spellings).items()
            if word.lower().startswith(incomplete.lower())
        ]

    return complete


complete_data = complete_names(DATASETS)
complete_model = complete_names(MODELS)
complete_scenario = complete_names(SCENARIOS)
