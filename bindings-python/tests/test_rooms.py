"""How the package is built: which of its modules may import which, and where words are unpacked."""

from __future__ import annotations

import ast
import copy
import pathlib
import pickle
from collections.abc import Iterator

import pytest

import tidegate
from tidegate import events, fleet

ROOT = pathlib.Path(tidegate.__file__).parent
FILES = {
    ".".join(["tidegate", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
BELOW = {"_engine": {"_engine"}, "_call": {"_engine", "_call"}, "_http": {"_engine", "_call", "_http"}}
"""By wing: the wings that it may import. None of them imports a public module."""


def room(module: str) -> str:
    """The wing of a module, or the name of a public one."""
    return module.split(".")[1] if "." in module else ""


def imports(module: str) -> Iterator[tuple[str, bool]]:
    """The modules of this package that one imports, and whether it does so when it is imported itself."""

    def found(nodes: list[ast.stmt], at_once: bool) -> Iterator[tuple[str, bool]]:
        for node in nodes:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from found(node.orelse, at_once)
            elif isinstance(node, ast.ImportFrom):
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                base = f"{package}.{node.module}".rstrip(".") if node.level else str(node.module)
                base = base.removesuffix(".None")
                for alias in node.names:
                    one = f"{base}.{alias.name}"
                    yield one if one in FILES else base, at_once
            else:
                inside = at_once and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                for part in ("body", "orelse", "finalbody", "handlers"):
                    yield from found(getattr(node, part, []), inside)

    path = FILES[module]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return ((name, at_once) for name, at_once in found(tree.body, True) if name in FILES)


@pytest.mark.parametrize("wing", BELOW)
def test_a_wing_imports_only_what_is_below_it(wing: str) -> None:
    up = {
        (module, other)
        for module in FILES
        if room(module) == wing
        for other, _ in imports(module)
        if other != "tidegate" and room(other) not in BELOW[wing]
    }
    assert up == set()


def test_nothing_but_the_plugin_of_pytest_imports_the_tools_for_tests() -> None:
    users = {module for module in FILES for other, _ in imports(module) if other == "tidegate.testing"}
    assert users == {"tidegate._pytest"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    below = {
        module: {other for other, at_once in imports(module) if at_once} - {"tidegate"} for module in FILES
    }
    while free := {module for module, others in below.items() if not others & below.keys()}:
        for module in free:
            del below[module]
    assert below == {}


def test_private_modules_are_in_wings() -> None:
    assert {path.name for path in ROOT.glob("_*.py")} == {"__init__.py", "_pytest.py"}


def test_classes_are_named_where_they_are_imported_from() -> None:
    for name in tidegate.__all__:
        one = getattr(tidegate, name)
        if isinstance(one, type):
            assert f"{one.__module__}.{one.__qualname__}" == f"tidegate.{name}"
            assert b"tidegate\n" in pickle.dumps(one, 0)
            assert pickle.loads(pickle.dumps(one)) is one
    assert {one.__module__ for one in (events.Record, events.Hook)} == {"tidegate.events"}
    assert {one.__module__ for one in (fleet.Lost, fleet.Refused)} == {"tidegate.fleet"}
    refused = tidegate.RateLimited("no", retry_in=2.0)
    again = copy.copy(refused)
    assert (type(again), again.retry_in) == (tidegate.RateLimited, 2.0)


def test_words_are_unpacked_in_one_module() -> None:
    """Nobody else shifts a word, or masks one by a number."""
    found = {}
    for module, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.BinOp):
                continue
            numbers = [isinstance(side, ast.Constant) for side in (node.left, node.right)]
            mask = isinstance(node.op, ast.BitAnd) and any(numbers)
            shift = isinstance(node.op, (ast.LShift, ast.RShift)) and not all(
                numbers
            )  # `1 << 53` is a number
            if mask or shift:
                found.setdefault(module, []).append(ast.unparse(node))
    assert found.keys() == {"tidegate._engine.wire"}, found
