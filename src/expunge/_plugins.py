"""Parts from other packages: found through entry points, imported when they are first used.

A package offers parts by name in its own ``pyproject.toml``::

    [project.entry-points."expunge.methods"]
    push-away = "my_package.methods:PushAway"

The registries in ``GROUPS`` list them beside the built-in ones. A plug-in that cannot be used is
reported by a :class:`~expunge.PluginWarning` that names it; everything else continues without it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any

from expunge._errors import PluginWarning
from expunge._lazy import find_source

GROUPS = {
    "expunge.methods": "a subclass of `expunge.Method`",
    "expunge.addons": "a subclass of `expunge.Addon`",
    "expunge.aggregates": "a subclass of `expunge.Aggregate`",
    "expunge.attacks": "a class with the method `score` of `expunge.evaluation.Attack`",
    "expunge.data": "an `expunge.data.Format`",
    "expunge.protocols": "the path of a TOML file",
}
"""The groups of entry points, and what an entry of each leads to."""


@cache
def installed_plugins() -> tuple[EntryPoint, ...]:
    """Every entry point of :data:`GROUPS` that is installed; nothing is imported."""
    found = (sorted(entry_points(group=group), key=lambda each: each.name) for group in GROUPS)
    return tuple(itertools.chain.from_iterable(found))


def path_of(plugin: EntryPoint) -> str:
    """Where a plug-in is: ``"package.module:name"``."""
    return plugin.value.replace(" ", "")


def package_of(plugin: EntryPoint) -> str:
    """The distribution that a plug-in comes from, with its version."""
    dist = plugin.dist
    return "an unknown package" if dist is None else f"{dist.name} {dist.version}"


def usable_plugins(group: str) -> list[EntryPoint]:
    """The plug-ins of a group whose modules exist; the others are reported."""
    found = []
    for plugin in (each for each in installed_plugins() if each.group == group):
        module = path_of(plugin).partition(":")[0]
        if find_source(module) is None:
            report(plugin, f"there is no module {module}")
        else:
            found.append(plugin)
    return found


def report(plugin: EntryPoint, reason: object) -> None:
    """Warn that a plug-in is left out."""
    warnings.warn(
        f"The plug-in {plugin.name!r} ({path_of(plugin)}) of {package_of(plugin)}, in the group "
        f"{plugin.group} is left out: {reason}. Fix or uninstall it.",
        PluginWarning,
        stacklevel=2,
    )


def subclass_of(base: str) -> Callable[[str, Any], Any]:
    """A check that a plug-in is a subclass of the class at ``base``."""

    def adopt(name: str, part: Any) -> Any:
        wanted = resolve_name(base)
        if not (isinstance(part, type) and issubclass(part, wanted)):
            raise TypeError(f"it should be a subclass of {wanted.__name__}. (got {part!r})")
        return part

    return adopt


def instance_of(base: str) -> Callable[[str, Any], Any]:
    """A check that a plug-in is an instance of ``base``, or a class of which one can be made."""

    def adopt(name: str, part: Any) -> Any:
        wanted = resolve_name(base)
        made = part() if isinstance(part, type) else part
        if not isinstance(made, wanted):
            raise TypeError(f"it should be an instance of {wanted.__name__}. (got {part!r})")
        return made

    return adopt
