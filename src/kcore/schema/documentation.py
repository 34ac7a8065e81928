"""Makes the text that `help` shows for a schema class: its docstring, then a table of its fields with comments."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from textwrap import dedent

from kcore.schema.catalogue import message_type, table
from kcore.schema.structure import UNSET, Field, Message, Struct

Row = tuple[str, ...]


def documentation(struct: type[Struct], *, json_names: bool = False) -> str:
    """The docstring of the class and a table of its fields, with their Python names or with Kafka's JSON names."""
    parts = [_words(struct)]
    if issubclass(struct, Message) and struct.versions.highest >= 0:
        key = f"API key {struct.api_key}, " if struct.api_key >= 0 else ""
        parts.append(f"{message_type(struct)}: {key}versions {struct.versions}, flexible {struct.flexible_versions}")
    if struct.__fields__:
        parts.append(table([("field", "type", "versions", ""), *_rows(struct, "", json_names)]))
    return "\n\n".join(parts)


def _words(struct: type[Struct]) -> str:
    return inspect.cleandoc(vars(struct).get("__doc__") or "")


def _rows(struct: type[Struct], indent: str, json_names: bool) -> Iterator[Row]:
    """A row for each field, followed by indented rows for the fields of its struct."""
    for field in struct.__fields__:
        text = "  ".join(filter(None, (_properties(field), about(struct, field))))
        name = field.json_name if json_names else field.name
        yield indent + name, str(field.type), str(field.options.versions), text
        if (inner := struct_of(field)) is not None:
            yield from _rows(inner, f"{indent}  ", json_names)


def struct_of(field: Field) -> type[Struct] | None:
    """The struct of a field, or of its list's elements."""
    return (field.type.element or field.type).struct


def about(struct: type[Struct], field: Field) -> str:
    """The purpose of the field: its comment, or the first line of its struct's docstring."""
    inner = struct_of(field)
    return comments(struct).get(field.name) or (_words(inner).partition("\n")[0] if inner else "")


def _properties(field: Field) -> str:
    options = field.options
    properties = []
    if options.nullable.highest >= 0:
        properties.append(f"nullable {options.nullable}")
    if options.tag is not None:
        properties.append(f"tag {options.tag}" + (f" {options.tagged}" if options.tagged != options.versions else ""))
    if options.default is not UNSET:
        properties.append(f"default {'null' if options.default is None else repr(options.default)}")
    if options.ignorable:
        properties.append("ignorable")
    return f"[{', '.join(properties)}]" if properties else ""


@cache
def comments(struct: type[Struct]) -> dict[str, str]:
    """By field: the comments above and beside it in the source; empty if the source is missing."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base.__module__ == Struct.__module__ or not issubclass(base, Struct):
            continue
        try:
            source = dedent(inspect.getsource(base))
        except (OSError, TypeError):
            continue
        [body] = [node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = _comment(source.splitlines(), node)
    return found


def _comment(lines: list[str], node: ast.AnnAssign) -> str:
    above: list[str] = []
    at = node.lineno - 2
    while lines[at].lstrip().startswith("#"):
        above.insert(0, lines[at])
        at -= 1
    behind = lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset :].decode()
    return " ".join(line.strip().lstrip("# ") for line in (*above, behind)).strip()
