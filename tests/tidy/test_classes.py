"""Classes of the edge are small and complete when they are constructed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "kcore"
METHODS, ATTRIBUTES = 20, 12
EDGE = pytest.mark.parametrize("folder", ["net", "server"])
STATE = {"asker", "client_id"}  # Attributes that are None at first, and change with each request.


def parsed(folder: str) -> Iterator[tuple[str, ast.Module]]:
    """The name and the tree of each module."""
    for path in sorted((SRC / folder).rglob("*.py")):
        yield path.name, ast.parse(path.read_text("utf-8"))


def classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def methods(found: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_data(found: ast.ClassDef) -> bool:
    """A frozen dataclass or a NamedTuple, such as settings; or a Protocol, which has no objects."""
    bases = {ast.unparse(each).partition("[")[0] for each in found.bases}
    return bool(bases & {"NamedTuple", "Protocol"}) or any(
        "frozen=True" in ast.unparse(x) for x in found.decorator_list
    )


def is_set_on(node: ast.AST, on_self: bool) -> bool:
    """Whether a statement assigns to this attribute of `self`, or of another object."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return False
    return (ast.unparse(node.value) == "self") is on_self


def attributes(found: ast.ClassDef) -> set[str]:
    """The attributes that methods assign to `self`, and the fields of a dataclass."""
    fields = [node for node in found.body if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node)]
    nodes = [each for method in methods(found) for each in ast.walk(method)]
    of_self = {node.attr for node in nodes if isinstance(node, ast.Attribute) and is_set_on(node, on_self=True)}
    return of_self | {ast.unparse(node.target) for node in fields}


def large_classes(folder: str) -> dict[str, tuple[int, int]]:
    """Methods and attributes of classes with too many of them."""
    every = [found for _, tree in parsed(folder) for found in classes(tree) if not is_data(found)]
    sizes = {found.name: (len(methods(found)), len(attributes(found))) for found in every}
    return {name: size for name, size in sizes.items() if size[0] > METHODS or size[1] > ATTRIBUTES}


@EDGE
def test_classes_are_small(folder: str) -> None:
    assert large_classes(folder) == {}


def abstract(folder: str) -> set[str]:
    """Classes with abstract methods."""
    every = [found for _, tree in parsed(folder) for found in classes(tree)]
    return {found.name for found in every if "abstractmethod" in ast.unparse(found)}


@EDGE
def test_no_class_leaves_methods_to_subclasses(folder: str) -> None:
    assert abstract(folder) == set()


def untyped(folder: str) -> set[str]:
    """Classes, or else modules, that call `hasattr` or take keyword arguments of any type."""
    found = set()
    for name, tree in parsed(folder):
        inside = {node: each.name for each in classes(tree) for node in ast.walk(each)}
        for node in ast.walk(tree):
            calls = isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr"
            takes = isinstance(node, ast.arguments) and node.kwarg is not None and "Any" in ast.unparse(node.kwarg)
            if calls or takes:
                found.add(inside.get(node, name))
    return found


@EDGE
def test_arguments_have_names_and_attributes_exist(folder: str) -> None:
    assert untyped(folder) == set()


def empty_at_first(tree: ast.Module) -> set[str]:
    """The attributes that an `__init__` of the module sets to None."""
    made = [method for each in classes(tree) for method in methods(each) if method.name == "__init__"]
    assigned = [node for method in made for node in ast.walk(method) if isinstance(node, ast.AnnAssign | ast.Assign)]
    empty = [node for node in assigned if isinstance(node.value, ast.Constant) and node.value.value is None]
    targets = [target for node in empty for target in (node.targets if isinstance(node, ast.Assign) else [node.target])]
    return {target.attr for target in targets if isinstance(target, ast.Attribute)} - STATE


def set_later(name: str, tree: ast.Module, empty: dict[str, set[str]]) -> list[str]:
    """Assignments of a module to attributes of other objects that a class of another module has left empty."""
    of_others = {attribute for module, names in empty.items() if module != name for attribute in names}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_set_on(node, on_self=False)]
    return [f"{name}: {ast.unparse(node)}" for node in nodes if node.attr in of_others]


def test_an_object_is_complete_when_it_is_constructed() -> None:
    empty = {name: empty_at_first(tree) for name, tree in parsed("net")}
    late = [
        found for folder in ("net", "server") for name, tree in parsed(folder) for found in set_later(name, tree, empty)
    ]
    assert late == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A:\n def f(self): self.a = self.b = 1\n def g(self): x.c = 2", (2, {"a", "b"})),
        ("class A:\n a: int\n b: ClassVar[int]\n def f(self): self.c: int = 1", (1, {"a", "c"})),
    ],
)
def test_the_size_of_a_class(text: str, expected: tuple[int, set[str]]) -> None:
    [found] = classes(ast.parse(text))
    assert (len(methods(found)), attributes(found)) == expected


def test_an_attribute_that_is_set_later_is_found() -> None:
    empty = {"server.py": empty_at_first(ast.parse("class B:\n def __init__(self): self.direct = None"))}
    late = ast.parse("server.direct = handler\nserver.other = 1")
    assert set_later("user.py", late, empty) == ["user.py: server.direct"]
    assert set_later("server.py", late, empty) == []
