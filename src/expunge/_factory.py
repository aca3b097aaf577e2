"""Functions in a user's code, named as ``package.module:factory``, found and called."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from expunge._errors import InvalidInput

_SPEC = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_factory(spec: str) -> bool:
    """Whether ``spec`` has the form ``package.module:factory``."""
    return bool(_SPEC.fullmatch(spec))


def has_module(spec: str) -> bool:
    """Whether the package of a factory can be found, from here too; nothing of it is run."""
    top = spec.partition(":")[0].partition(".")[0]
    with importable_from_here():
        return top in sys.modules or importlib.util.find_spec(top) is not None


@contextmanager
def importable_from_here() -> Iterator[None]:
    """Let modules be imported from the current directory, as under ``python -m``."""
    here = str(Path.cwd())
    if here in sys.path or "" in sys.path:
        yield
        return
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def find_factory(spec: str, what: str) -> Callable[..., Any]:
    """Import the callable that ``spec`` names; ``what`` it makes is for messages."""
    module_name, _, name = spec.partition(":")
    if not _SPEC.fullmatch(spec):
        raise InvalidInput(f"The {what} factory should read package.module:factory. (got {spec!r})")
    if module_name.endswith(".py"):
        plain = f"{module_name.removesuffix('.py')}:{name}"
        raise InvalidInput(f"The {what} factory should leave out `.py`: {plain}. (got {spec!r})")
    _refuse_standard_library(module_name, spec, what)
    importlib.invalidate_caches()
    try:
        target: Any = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing runs the user's code
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and (module_name == missing or module_name.startswith(f"{missing}.")):
            why = (
                f"there is no module {missing!r}, neither installed nor in the current directory "
                f"{Path.cwd()}."
            )
        else:
            why = f"importing {module_name} failed: {type(error).__name__}: {error}"
        raise InvalidInput(f"The {what} factory {spec}: {why}") from error
    for part in name.split("."):
        if not hasattr(target, part):
            near = difflib.get_close_matches(part, dir(target), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidInput(f"The {what} factory {spec}: {module_name} has no {part!r}.{hint}")
        target = getattr(target, part)
    if inspect.isclass(target) or inspect.isroutine(target):
        _refuse_standard_library(target.__module__ or "builtins", spec, what)
    if not callable(target):
        raise InvalidInput(
            f"The {what} factory {spec} should be a function or a class. "
            f"(got {type(target).__name__})"
        )
    factory: Callable[..., Any] = target
    return factory


def _refuse_standard_library(module: str, spec: str, what: str) -> None:
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise InvalidInput(
            f"The {what} factory {spec} should be a function or class of your code. (got one of "
            f"Python's own module {module!r})"
        )


def call_factory(spec: str, what: str, **options: Any) -> Any:
    """Call the factory; whatever it raises becomes an :class:`InvalidInput` that explains it."""
    with importable_from_here():
        factory = find_factory(spec, what)
        try:
            return factory(**options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the code is the user's: anything can happen
            raise InvalidInput(
                f"The {what} factory {spec} failed: {type(error).__name__}: {error}"
            ) from error
