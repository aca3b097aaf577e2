"""The tree is what CONTRIBUTING.md says it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, UNIT = ROOT / "src" / "expunge", ROOT / "tests" / "unit"
OF_THE_TREE = {
    *("test_structure", "test_startup", "test_public"),
    *("test_benchmarks", "test_ci", "test_docs", "test_examples", "test_packages"),
}


LAZY_IMPORT = r"^expunge(?:\.\w+)*\._\w+:\w+$"


def dotted(path: Path) -> str:
    """``expunge.data._images`` for its file, ``expunge.data`` for the package's ``__init__``."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if path.stem == "__init__" else parts)


MODULES = {dotted(path): path for path in SOURCE.rglob("*.py")}


def top(module: str) -> str:
    """The package or top-level module that a module belongs to."""
    return module.split(".")[1] if "." in module else "expunge"


def imports(tree: ast.AST, *, registered: bool = True) -> Iterator[str]:
    """Everything of this package that a module imports, in functions too, for types alone not.

    With ``registered``, also what it names to be imported on first use.
    """
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.dump(tree.test):
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        assert not tree.level, "imports should be absolute"
        yield from (f"{tree.module}.{alias.name}" for alias in tree.names)
    elif registered and isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield from (name.replace(":", ".") for name in re.findall(LAZY_IMPORT, tree.value))
    for child in ast.iter_child_nodes(tree):
        yield from imports(child, registered=registered)


def test_imports_point_one_way() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (chain,) = re.findall(r"^```text\n(cli →.*?)```$", text, flags=re.MULTILINE | re.DOTALL)
    order = re.findall(r"\w+", chain)
    assert sorted(order) == sorted({top(module) for module in MODULES} - {"expunge", "__main__"})
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imports(ast.parse(path.read_text()))
        if name.split(".")[0] == "expunge" and name != "expunge.__version__"
        if top(module) in order and top(module) != top(name)
        if top(name) not in order[order.index(top(module)) :]
    ]
    assert wrong == []


def node(name: str) -> str:
    """What a folder inside a package is taken as in one piece; other modules are their own."""
    while name not in MODULES:
        name = name.rpartition(".")[0]
    folder = name if MODULES[name].stem == "__init__" else name.rpartition(".")[0]
    return folder if folder.count(".") > 1 else name


def test_folders_inside_a_package_are_in_no_circle_of_imports() -> None:
    needed: dict[str, set[str]] = {node(module): set() for module in MODULES}
    for module, path in MODULES.items():
        names = imports(ast.parse(path.read_text()), registered=False)
        found = {node(name) for name in names if name.split(".")[0] == "expunge"}
        needed[node(module)] |= found - {node(module)}

    def reached(start: str) -> set[str]:
        known: set[str] = set()
        waiting = [start]
        while waiting:
            new = needed[waiting.pop()] - known
            known |= new
            waiting += new
        return known

    folders = [name for name in needed if name.count(".") > 1 and MODULES[name].stem == "__init__"]
    assert [folder for folder in folders if folder in reached(folder)] == []


def test_packages_import_from_packages_rather_than_from_their_private_modules() -> None:
    found = [
        f"{module} imports {node.module}"
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("expunge.")
        if top(module) not in ("expunge", top(node.module or ""))
        if "._" in (node.module or "") and not top(node.module or "").startswith("_")
    ]
    assert len(found) <= 60, found


def test_modules_are_private_and_packages_export() -> None:
    public = [name for name, path in MODULES.items() if not path.stem.startswith("_")]
    assert public == []


def test_no_module_shares_its_name_with_an_attribute_of_its_package() -> None:
    for package, path in MODULES.items():
        bound: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())) if path.stem == "__init__" else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound.add(node.name)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            if isinstance(node, ast.ImportFrom) and node.module != package:
                bound |= {alias.asname or alias.name for alias in node.names}
        assert {name for name in bound if f"{package}.{name}" in MODULES} == set()


def test_unit_tests_mirror_the_source() -> None:
    tests = {path.relative_to(UNIT).with_suffix("") for path in UNIT.rglob("test_*.py")}
    unmirrored = [
        str(test)
        for test in sorted(tests - {Path(name) for name in OF_THE_TREE})
        for name in [test.name.removeprefix("test_")]
        if not (SOURCE / test.parent / f"_{name}.py").exists()
        if not (SOURCE / test.parent / name / "__init__.py").exists()
    ]
    assert unmirrored == []
