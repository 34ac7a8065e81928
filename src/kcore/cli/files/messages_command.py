"""`kcore messages`: lists messages, or shows the fields of one message and JSON that `kcore encode` takes."""

import json as json_module
from typing import Annotated, Any

import typer

from kcore.cli.console import fail, say
from kcore.errors import KcoreError
from kcore.schema.catalogue import message_type, messages, table
from kcore.schema.documentation import about, documentation, struct_of
from kcore.schema.index import MESSAGES, dialect_module, message_class
from kcore.schema.structure import UNSET, Field, Message, Struct
from kcore.schema.versions import Versions
from kcore.wire.jsonform import JsonObject, skeleton


def command(
    name: Annotated[
        str, typer.Argument(metavar="[NAME | TEXT | KEY]", help="A message; or list those with this text or API key.")
    ] = "",
    version: Annotated[int | None, typer.Option(metavar="N", help="Default: the newest version.")] = None,
    only_skeleton: Annotated[bool, typer.Option("--skeleton", help="Print the skeleton only, for a pipe.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each message.")] = False,
    dialect: Annotated[str | None, typer.Option(help="A dialect other than Kafka's own, such as kip590.")] = None,
) -> None:
    """List Kafka's messages, or show the fields of one and its JSON.

    The JSON skeleton has every field of one version at its default; `kcore encode NAME VERSION` takes this JSON.

    Exit code: 0 good, 2 there is no such message or version.
    """
    try:
        found = [message_class(each, dialect) for each in _names(name)]
        is_one = len(found) == 1 and found[0].__name__.casefold() == name.casefold()
        if not is_one and (version is not None or only_skeleton or dialect is not None):
            fail("--version, --skeleton and --dialect are for one message: give its whole name")
        lines = [_whole(found[0], version, only_skeleton, dialect, json)] if is_one else _listed(found, json)
    except KcoreError as error:
        fail(str(error))
    for line in lines:
        say(line)


def _names(text: str) -> list[str]:
    """The message of this name, ignoring case; otherwise all whose name contains the text or whose API key it is."""
    folded = text.casefold()
    same = [each for each in MESSAGES if each.casefold() == folded]
    if same:
        return same
    found = [each for each, kind in messages.items() if folded in each.casefold() or text == str(kind.api_key)]
    return found or [message_class(text).__name__]  # Raises UnknownMessageError with the closest names.


def _listed(found: list[type[Message]], json: bool) -> list[str]:
    """A line for each message: its type, API key, versions, and purpose."""
    if json:
        return [json_module.dumps(_facts(each)) for each in found]
    rows: list[tuple[str, ...]] = [("name", "type", "key", "versions", "")]
    for each in found:
        key = "" if each.api_key < 0 else str(each.api_key)
        rows.append((each.__name__, message_type(each), key, str(each.versions), _sentence(each)))
    return table(rows).splitlines()


def _whole(kind: type[Message], version: int | None, only_skeleton: bool, dialect: str | None, json: bool) -> str:
    """The text for one message: its documentation with its fields, and a JSON skeleton."""
    versions = kind.versions if dialect is None else dialect_module(dialect).versions(kind)
    chosen = versions.highest if version is None else version
    blank = skeleton(kind, chosen, dialect)
    if json:
        rest: JsonObject = {"fields": _fields(kind), "version": chosen, "skeleton": blank}
        return json_module.dumps(blank if only_skeleton else _facts(kind) | rest)
    shown = json_module.dumps(blank, indent=2)
    if only_skeleton:
        return shown
    options = "" if dialect is None else f" --dialect {dialect}"
    head = f"JSON of version {chosen}, for `kcore encode {kind.__name__} {chosen}{options}`:"
    return f"{kind.__name__}: {documentation(kind, json_names=True)}\n\n{head}\n{shown}"


def _sentence(kind: type[Message]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def _facts(kind: type[Message]) -> JsonObject:
    return {
        "name": kind.__name__,
        "type": message_type(kind),
        "apiKey": kind.api_key if kind.api_key >= 0 else None,
        "versions": str(kind.versions),
        "flexibleVersions": str(kind.flexible_versions),
        "about": _sentence(kind),
    }


def _fields(struct: type[Struct]) -> list[JsonObject]:
    return [_field(struct, each) for each in struct.__fields__]


def _field(struct: type[Struct], field: Field) -> JsonObject:
    """One field with the keys of Kafka's schema files; "fields" has the fields of its struct."""
    options, inner = field.options, struct_of(field)
    facts: dict[str, Any] = {
        "name": field.json_name,
        "type": str(field.type),
        "versions": str(options.versions),
        "nullableVersions": _some(options.nullable),
        "default": None if options.default is UNSET else json_module.dumps(options.default, default=str),
        "tag": options.tag,
        "taggedVersions": _some(options.tagged),
        "ignorable": options.ignorable or None,
        "about": about(struct, field) or None,
        "fields": _fields(inner) if inner else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _some(versions: Versions) -> str | None:
    return str(versions) if versions.highest >= 0 else None
