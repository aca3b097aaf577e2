"""Package attributes that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from expunge._errors import InvalidInput


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` for the ``__init__.py`` of ``package``.

    The names are those that the file lists in its two blocks ``if TYPE_CHECKING:``, so each is
    written down once. The second block is for other packages of expunge, and is not in ``__all__``.
    """
    public, *internal = listed_exports(package)
    exports = {name: place for block in (public, *internal) for name, place in block.items()}

    def load(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = exports[name]
        if module == package:  # a subpackage
            return importlib.import_module(f"{module}.{attribute}")
        value = getattr(importlib.import_module(module), attribute)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(public), list(public)


def deferred(path: str) -> Callable[..., Any]:
    """The function at ``"package.module:name"``, imported when it is called."""
    return lambda *args, **options: resolve_name(path)(*args, **options)


def import_extra(module: str, extra: str, what: str) -> Any:
    """A module that comes with an optional extra of this package; ``what`` needs it.

    >>> import_extra("no_such_module", "hf", "Datasets")
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Datasets need the package no_such_module, which cannot be \
imported: No module named 'no_such_module'. Install it: pip install 'expunge[hf]'.
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # a package that does not fit the others fails in any way
        package = module.partition(".")[0]
        raise InvalidInput(
            f"{what} need the package {package}, which cannot be imported: {error}. Install it: "
            f"pip install 'expunge[{extra}]'."
        ) from error


def read_docstring(path: str) -> str:
    """The docstring of what is at ``"package.module:name"``, read from its source."""
    module, _, name = path.partition(":")
    statements = _parse(module).body
    for node, below in itertools.zip_longest(statements, statements[1:]):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if name in [target.id for target in targets if isinstance(target, ast.Name)]:
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return inspect.cleandoc(str(below.value.value))
            return ""
    return ""


def find_source(module: str) -> Path | None:
    """The file of a module, or None. Neither it nor its parent packages are imported."""
    spec, places = None, None
    words = module.split(".")
    for depth in range(1, len(words) + 1):
        name = ".".join(words[:depth])
        finders = (finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next(filter(None, (find(name, places) for find in finders)), None)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return Path(spec.origin) if spec is not None and spec.origin else None


def listed_exports(package: str) -> list[dict[str, tuple[str, str]]]:
    """For every block ``if TYPE_CHECKING:``, exported name to (module, attribute)."""
    return [
        {
            alias.asname or alias.name: (node.module, alias.name)
            for node in block.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for block in _parse(package).body
        if isinstance(block, ast.If)
    ]


@cache
def _parse(module: str) -> ast.Module:
    """The syntax tree of a module, which is not imported."""
    source = find_source(module)
    assert source is not None
    return ast.parse(source.read_text(encoding="utf-8"))
