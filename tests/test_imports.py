"""Imports between the rooms of the package point downwards only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import firstspike

FLOORS = [
    {"errors", "threads"},
    {"config"},
    {"data"},
    {"functional"},
    {"kernels"},
    {"nn"},
    {"models"},
    {"measure"},
    {"training", "inference"},
    {"export"},
    {"paper"},
    {"cli"},
    {"__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
PACKAGE = Path(firstspike.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(source: str, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and full name of every import at any depth, other than those for type checkers.

    `package` is where the module lives, for relative imports.
    """

    def visit(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*base, *filter(None, [node.module])])
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)
        children = node.orelse if only_for_types(node) else ast.iter_child_nodes(node)
        for child in children:
            yield from visit(child)

    yield from visit(ast.parse(source))


def upward(source: str, room: str, package: tuple[str, ...]) -> list[str]:
    """What is wrong with a module's imports, a line each."""
    wrong = []
    for line, name in imported(source, package):
        parts = name.split(".")
        if parts[0] != "firstspike" or name == "firstspike.__version__":
            continue
        target = parts[1] if len(parts) > 1 else ""
        if target not in FLOOR:
            wrong.append(f"line {line}: {name} goes through the front door: import it from its own room")
        elif target != room and FLOOR[target] >= FLOOR[room]:
            wrong.append(f"line {line}: {name} points upwards (or sideways) from {room}")
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards_only(path: Path) -> None:
    assert room_of(path) in FLOOR, f"{path.name} is in none of the rooms: say on which floor it is"
    package = ("firstspike", *path.relative_to(PACKAGE).parts[:-1])
    wrong = upward(path.read_text(encoding="utf-8"), room_of(path), package)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("from firstspike.models import build", True),
        ("import firstspike.training.loop", True),
        ("from firstspike import models", True),
        ("from firstspike import build", True),
        ("import firstspike as fs", True),
        ("def f():\n    from firstspike.models.grammar import parse", True),
        ("class A:\n    def f(self):\n        if x:\n            from firstspike.cli import main", True),
        ("from ..models import build", True),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from firstspike.models import Network",
            False,
        ),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from firstspike.models import Network", True),
        ("from firstspike.functional import amos", False),
        ("from firstspike import kernels, __version__", False),
        ("from firstspike.nn.neuron import AMOS", False),
        ("from .neuron import AMOS", False),
        ("from ..functional import amos", False),
        ("import torch", False),
    ],
)
def test_the_test_sees_what_it_should(source: str, caught: bool) -> None:
    """As if the line stood in the room `nn`."""
    assert bool(upward(source, "nn", ("firstspike", "nn"))) == caught
