"""The facts in the jars of a release: messages, errors, APIs, metadata versions, features and settings."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from recorder.java_program import printed

Json = dict[str, Any]
_COMMENT: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_OF_TEXTS: Final = ("about",)  # Members of a schema that only people read.
SETTING_FACTS: Final = ("type", "default", "validator", "range", "takes", "internal")


def facts_of(jars: list[Path], class_path: str) -> Json:
    """All facts of a release, as JSON has them. `jars`: the files that `class_path` names."""
    found: Json = {"messages": messages_in(jars), **json.loads(_line(printed("ReleaseFacts.java", class_path)))}
    return {**found, **_settings(printed("ConfigFacts.java", class_path))}


def messages_in(jars: list[Path]) -> Json:
    """The schemas in the jars by name, without texts for people. `class` names the class that the generator made."""
    schemas: Json = {}
    classes: dict[str, str] = {}
    for path in sorted(jars):
        with zipfile.ZipFile(path) as jar:
            for entry in jar.namelist():
                if entry.startswith("org/apache/kafka/") and entry.endswith(".class") and "$" not in entry:
                    name = entry.removesuffix(".class").replace("/", ".")
                    classes.setdefault(name.rpartition(".")[2], name)
                elif entry.endswith(".json") and entry.startswith("common/"):
                    schema = _without_texts(json.loads(without_comments(jar.read(entry).decode())))
                    if "validVersions" in schema:
                        schemas[schema["name"]] = schema
    for name, schema in schemas.items():
        schema["class"] = classes.get(f"{name}Data") or classes.get(name)
    return dict(sorted(schemas.items()))


def without_comments(text: str) -> str:
    """JSON without the comments that Kafka's schemas have."""
    return _COMMENT.sub(lambda match: match[1] or "", text)


def _without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_texts(each) for key, each in value.items() if key not in _OF_TEXTS}
    return [_without_texts(each) for each in value] if isinstance(value, list) else value


def _line(text: str) -> str:
    """The line that is JSON: a logger may print another one before it."""
    return next(line for line in text.splitlines() if line.startswith("{"))


def _settings(text: str) -> Json:
    """Settings by group and name, and the names of the dynamic ones."""
    first, *rest = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    settings: Json = {}
    for row in rest:
        settings.setdefault(row["of"], {})[row["name"]] = {key: row[key] for key in SETTING_FACTS if key in row}
    return {"settings": settings, "probes": first["probes"], "dynamic": first["dynamic"]}


def fields_of(schema: Json) -> Iterator[tuple[str, Json]]:
    """(path, field) of a schema's fields, whatever their versions; nested fields follow theirs."""
    structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}

    def walk(fields: list[Json], path: str) -> Iterator[tuple[str, Json]]:
        for field in fields:
            name = f"{path}{field['name']}"
            yield name, {key: value for key, value in field.items() if key != "fields"}
            yield from walk(field.get("fields") or structs.get(field["type"].removeprefix("[]"), []), f"{name}.")

    return walk(schema.get("fields", []), "")
