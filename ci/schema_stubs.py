"""Writes the type stubs of the schema's files, so that type checkers see the keywords of every message.

A file in `src/kcore/schema` has the type and the versions of each field; only at run time every field has a default.
The stub beside it declares the defaults, for `typing.dataclass_transform`. The stub of the package imports all
messages, which at run time are imported when they are used. `setup.py` runs this script, so a wheel and an installed
clone have the stubs; git does not. A test compares them with the files.
"""

import ast
from pathlib import Path

SCHEMA = Path(__file__).parents[1] / "src" / "kcore" / "schema"
MESSAGES = {"Message", "MetadataRecord", "Data"}
BASES = MESSAGES | {"Struct", "RequestHeader"}
DIALECT = "kip590"  # Its messages have the names of Kafka's.
HEAD = "# Made by ci/schema_stubs.py.\n"


def sources() -> list[Path]:
    """The files that define messages or structs."""
    return [path for path in sorted(SCHEMA.rglob("*.py")) if path.name != "structure.py" and has_structs(path)]


def has_structs(path: Path) -> bool:
    return any(is_struct(node) for node in ast.parse(path.read_text(encoding="utf-8")).body)


def is_struct(node: ast.stmt, of: set[str] = BASES) -> bool:
    """Whether the node is a class with one of these bases."""
    if not isinstance(node, ast.ClassDef):
        return False
    return bool(of & {ast.unparse(base).rpartition(".")[2] for base in node.bases})


def stub(path: Path) -> str:
    """The stub of one file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [ast.unparse(imports(node)) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    blocks += [text for node in tree.body if (text := declared(node))]
    return HEAD + "\n".join(blocks) + "\n"


def imports(node: ast.Import | ast.ImportFrom) -> ast.stmt:
    """The import, without what only the values of fields need."""
    names = [each for each in node.names if each.name != "field"]
    return ast.ImportFrom(node.module, names, node.level) if isinstance(node, ast.ImportFrom) else ast.Import(names)


def declared(node: ast.stmt) -> str:
    if is_struct(node):
        assert isinstance(node, ast.ClassDef)
        head = ast.ClassDef(node.name, node.bases, node.keywords, [ast.Expr(ast.Constant(...))], [])
        return ast.unparse(head).removesuffix("...") + ("\n    ".join(members(node)) or "...")
    if isinstance(node, ast.FunctionDef):
        return signature(node)
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) != "Final":
        return f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    if isinstance(node, ast.ClassDef | ast.Assign | ast.AnnAssign):
        return ast.unparse(without_docstring(node))
    return ""


def members(node: ast.ClassDef) -> list[str]:
    found = []
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            found.append(f"{ast.unparse(member.target)}: {ast.unparse(member.annotation)} = ...")
        elif isinstance(member, ast.FunctionDef):
            found.append(signature(member).replace("\n", "\n    "))
    return found


def signature(node: ast.FunctionDef) -> str:
    node.body = [ast.Expr(ast.Constant(...))]
    return ast.unparse(node)


def without_docstring(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.ClassDef) and ast.get_docstring(node) is not None:
        node.body = node.body[1:]
    return node


def package_stub() -> str:
    """The stub of the package, with the messages of all files."""
    blocks = [f"from kcore.schema.index import {name} as {name}" for name in ("MESSAGES", "message_class")]
    for path in sources():
        if path.parent == SCHEMA and path.stem != DIALECT:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and is_struct(node, MESSAGES)]
            blocks += [f"from kcore.schema.{path.stem} import {name} as {name}" for name in names]
    return HEAD + "\n".join(blocks) + "\n"


if __name__ == "__main__":
    SCHEMA.joinpath("__init__.pyi").write_text(package_stub(), encoding="utf-8")
    for source in sources():
        source.with_suffix(".pyi").write_text(stub(source), encoding="utf-8")
