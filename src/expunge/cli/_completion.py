"""Names that a shell offers while a command is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from expunge._registry import Registry

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


def complete_words(words: Iterable[str]) -> Complete:
    """Complete one of a few words."""
    known = tuple(words)

    def complete(incomplete: str) -> list[tuple[str, str]]:
        return [(word, "") for word in known if word.startswith(incomplete)]

    return complete


def complete_data(incomplete: str) -> list[tuple[str, str]]:
    """Complete the formats of data, with a colon where a path follows; and files that are there."""
    from expunge.data import DATASETS

    kind, colon, path = incomplete.partition(":")
    if colon and kind in DATASETS:
        return [(f"{kind}:{place}", "") for place in _places(path)]
    formats = [
        (f"{name}:" if DATASETS[name].needs_path else name, DATASETS.summary(name))
        for name in DATASETS
        if name.startswith(incomplete)
    ]
    return formats or [(place, "") for place in _places(incomplete)]


def complete_scenario(incomplete: str) -> list[tuple[str, str]]:
    """Complete the kinds of scenarios, and the file of ids."""
    from expunge.data import SCENARIOS

    kind, colon, path = incomplete.partition(":")
    if colon and kind == "ids":
        return [(f"ids:{place}", "") for place in _places(path)]
    return [
        (f"{name}:", SCENARIOS.summary(name)) for name in SCENARIOS if name.startswith(incomplete)
    ]


def complete_model(incomplete: str) -> list[tuple[str, str]]:
    """Complete the built-in models, and those of transformers."""
    from expunge.models import MODELS

    names = complete_names(MODELS)(incomplete)
    return names + [("hf:", "a folder of transformers")] * "hf:".startswith(incomplete)


def complete_protocol(incomplete: str) -> list[tuple[str, str]]:
    """Complete the registered protocols, and TOML files."""
    from expunge.bench.protocols import PROTOCOLS

    names = [(name, "") for name in PROTOCOLS if name.startswith(incomplete)]
    files = (place for place in _places(incomplete) if place.endswith((".toml", "/")))
    return names + [(place, "") for place in files]


def _places(beginning: str) -> list[str]:
    """Files and folders whose path begins so; folders end in a slash."""
    folder, _, name = beginning.rpartition("/")
    base = Path(f"{folder}/" if folder or beginning.startswith("/") else ".").expanduser()
    prefix = f"{folder}/" if "/" in beginning else ""
    try:
        found = sorted(place for place in base.iterdir() if place.name.startswith(name))
    except OSError:
        return []
    hidden = name.startswith(".")
    return [
        f"{prefix}{place.name}{'/' if place.is_dir() else ''}"
        for place in found
        if hidden or not place.name.startswith(".")
    ]
