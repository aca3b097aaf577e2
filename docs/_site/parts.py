"""The reference pages of registered parts: one page per kind, from the registries."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from docstrings import in_table, paragraphs, to_markdown
from expunge._options import Option
from expunge._plugins import GROUPS
from expunge._registry import Registry
from expunge.cli._list import KINDS, USE
from expunge.evaluation import DIRECTIONS, Metric

INTRODUCTIONS = {
    "methods": "A method is a choice of an objective U to minimise and a constraint C not to "
    "break. Losses are means over a batch. L is the loss of the model, M₀ the model as it was "
    "given. [Choosing a method](../choosing.md) compares them by measurement.",
    "retain-losses": "The constraint C of a method for language models, whatever its U is.",
    "addons": "An add-on weights every parameter's step by how the two gradients ĝ_U and ĝ_C "
    "agree. [The update](../explanation/update.md) has the equations.",
    "aggregates": "An aggregation makes one direction out of the two gradients. Besides these, "
    "`torchjd:NAME` is any aggregator of TorchJD (extra `torchjd`).",
    "moments": "Moments estimate the noise in each entry of a batch gradient, for `prob`, "
    "`bernoulli` and `focus`.",
    "models": "Built-in models, by name. Any `torch.nn.Module` can be used from Python, and "
    "`package.module:factory` in a deletion request.",
    "language-models": "Causal language models, by name.",
    "datasets": "What `--data` and `expunge.data.load` take: a name, or a name with a path such as "
    "`cifar10:/data`.",
    "corpora": "Questions and answers to train and unlearn language models on.",
    "scenarios": "What to forget: `--forget` of the command line, `scenarios` of a protocol.",
    "metrics": "What `expunge.evaluate`, tables and records contain. [Evaluation]"
    "(../explanation/evaluation.md) says how far to trust them.",
    "attacks": "Membership attacks ask whether forgotten examples can be told from examples that "
    "the model never saw. U-LiRA, with shadow models, is run by `expunge audit --shadows`. "
    "[Which attack to believe](../how-to/which-attack.md).",
    "protocols": "Experiments of the [benchmark](../how-to/benchmark.md), by name; any other TOML "
    "file can be given by its path.",
}
TITLES = {"addons": "Add-ons", "aggregates": "Aggregations"}


def part_pages() -> dict[str, str]:
    """Every page by its path below ``reference/``."""
    return {f"{kind}.md": part_page(kind, KINDS[kind]) for kind in KINDS}


def title(kind: str) -> str:
    """What a kind of part is called."""
    return TITLES.get(kind, kind.replace("-", " ").capitalize())


def part_page(kind: str, registry: Registry[Any]) -> str:
    """The page of a kind: a table of all parts, then a section for each."""
    lines = [f"# {title(kind)}", "", INTRODUCTIONS.get(kind, ""), ""]
    lines += [f"`expunge list {kind}` prints them."]
    if registry.group:
        lines[-1] += (
            f" A plug-in adds one through the entry points `{registry.group}`: "
            f"{GROUPS[registry.group]}. [How](../how-to/plugins.md)."
        )
    lines += ["", *_table(registry), ""]
    first_of: dict[type, str] = {}
    for name in registry:
        part = registry[name]
        by_itself = isinstance(part, type) or inspect.isroutine(part)
        same = None if by_itself else first_of.setdefault(type(part), name)
        other = same if same != name and not _describes_itself(part) else None
        lines += [*_section(registry, name, other), ""]
    return "\n".join(lines) + "\n"


def _table(registry: Registry[Any]) -> list[str]:
    """Name, alias, what it is and, where any part says so, when to use it."""
    if all(isinstance(registry[name], Metric) for name in registry):
        return _metric_table(registry)
    uses = {name: use(registry, name) for name in registry}
    heads = ["name", "also", "what it is", *(["when to use it"] if any(uses.values()) else [])]
    rows = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for name in registry:
        label = registry.label(name)
        cells = [
            f"[`{name}`](#{anchor(name)})",
            "" if label == name else label,
            in_table(registry.summary(name)),
        ]
        cells += [in_table(uses[name])] if len(heads) > len(cells) else []
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _metric_table(registry: Registry[Any]) -> list[str]:
    rows = ["| name | shown as | definition | good | unit |", "| --- | --- | --- | --- | --- |"]
    for name in registry:
        metric = registry[name]
        cells = (
            f"[`{name}`](#{anchor(name)})",
            metric.label,
            metric.definition,
            DIRECTIONS[metric.direction],
            metric.unit,
        )
        rows.append(f"| {' | '.join(in_table(str(cell)) for cell in cells)} |")
    return rows


def _section(registry: Registry[Any], name: str, other: str | None) -> list[str]:
    """What a part is, in full; where ``other`` is an instance of its class, only the difference."""
    part, label = registry[name], registry.label(name)
    shown = f" ({label})" if label.lower() != name.lower() else ""
    lines = [f"## {name}{shown} {{ #{anchor(name)} }}", ""]
    if origin := registry.origin(name):
        lines += [f"From the plug-in {origin}.", ""]
    kind = part if isinstance(part, type) or inspect.isroutine(part) else type(part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type) and _describes_itself(part):
        return [*lines, *_description(registry, name), *_fields(part), "", *_data_options(part)]
    if other is not None:
        lines += [f"{in_table(registry.summary(name))} See [`{other}`](#{anchor(other)}).", ""]
        return [*lines, f"In Python: `{part!r}`."]
    lines += [to_markdown("\n\n".join(paragraphs(kind))), ""]
    if dataclasses.is_dataclass(kind) and (options := _options(kind)):
        lines += ["| option | default |", "| --- | --- |", *options, ""]
    if isinstance(part, type) or inspect.isroutine(part):
        lines += [f"In Python: {link(kind)}."] if not kind.__name__.startswith("_") else []
    else:
        lines += [f"In Python: `{part!r}`, {link(kind)}."]
    return lines


def use(registry: Registry[Any], name: str) -> str:
    """When to use a part, without the words that its docstring or description begins with."""
    text = registry.note(name, USE).removeprefix(USE).strip()
    return text[:1].upper() + text[1:]


def _description(registry: Registry[Any], name: str) -> list[str]:
    """The paragraphs of a part that describes itself: what it is, its use, where it comes from."""
    part = registry[name]
    first, *rest = part.description.split("\n\n")
    text = part.definition if isinstance(part, Metric) else first
    text = text[:1].upper() + text[1:].removesuffix(".")
    return [f"{text}.", "", *(line for each in rest for line in (to_markdown(each), ""))]


def _data_options(part: Any) -> list[str]:
    """The options of a data format, as they stand behind the path."""
    options = [each for each in getattr(part, "options", ()) if isinstance(each, Option)]
    if not options:
        return []
    rows = [f"| `{each.name}=` | {in_table(each.help)} |" for each in options]
    return ["| option | what it is |", "| --- | --- |", *rows, ""]


def _describes_itself(part: Any) -> bool:
    return hasattr(part, "description") or hasattr(part, "definition")


def _fields(part: Any) -> list[str]:
    """The plain fields of a metric, a format or a protocol."""
    shown = {
        "label": "shown as",
        "formula": "formula",
        "good": "direction",
        "unit": "unit",
        "version": "version of the definition",
        "suffixes": "recognised by its ending",
        "flip": "mirror images keep their label",
        "needs_path": "needs a path",
    }
    rows = []
    for field, head in shown.items():
        value = getattr(part, field, None)
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if isinstance(value, tuple):
            value = ", ".join(f"`{each}`" for each in value)
        if value not in (None, ""):
            text = in_table(str(value))
            rows.append(f"| {head} | {literal(text) if field == 'formula' else text} |")
    return ["| | |", "| --- | --- |", *rows] if rows else []


def literal(formula: str) -> str:
    """A formula whose stars, underlines and angles Markdown leaves alone.

    >>> literal("p*_y < 1")
    'p\\\\*\\\\_y &lt; 1'
    """
    return re.sub(r"([*_])", r"\\\1", formula).replace("<", "&lt;")


def _options(kind: Any) -> list[str]:
    """The fields of a part and their defaults."""
    rows = []
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            default = repr(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            default = f"{field.default_factory()!r}"
        else:
            default = "required"
        rows.append(f"| `{field.name}` | `{in_table(default)}` |")
    return rows


def link(kind: Any) -> str:
    """A class or function, linked to the page of the package that exports it."""
    package = ".".join(kind.__module__.split(".")[:2])
    if not kind.__module__.startswith("expunge.") or not _exported(package, kind.__name__):
        return f"`{kind.__module__}.{kind.__qualname__}`"
    return f"[`{package}.{kind.__name__}`][{package}.{kind.__name__}]"


def _exported(package: str, name: str) -> bool:
    import importlib

    return name in getattr(importlib.import_module(package), "__all__", ())


def anchor(name: str) -> str:
    """The anchor of a part's section."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
