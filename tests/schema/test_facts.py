"""Our schema classes say what Kafka's own schema files say, for every version, field by field."""

import json
from typing import Any

import pytest

import cases
from kcore.schema import MESSAGES
from kcore.schema.kinds import Kind
from kcore.schema.structure import Field, Message, Struct
from kcore.schema.versions import ALL, Versions

FACTS = {
    message["name"]: message for message in json.loads((cases.DATA / "wire/schemas-39.json").read_text())["messages"]
}
NUMBERS = {"true": True, "false": False, "null": None}


def kafka_rows(fields: list[dict[str, Any]], structs: dict[str, Any], version: int) -> list[tuple[Any, ...]]:
    """What the jar's schema has in that version: nested fields follow theirs."""
    rows: list[tuple[Any, ...]] = []
    for field in fields:
        if version not in Versions.parse(field["versions"]):
            continue
        tag = field["tag"] if version in Versions.parse(field.get("taggedVersions", "none")) else None
        nullable = version in Versions.parse(field.get("nullableVersions", "none"))
        rows.append((field["name"], field["type"], tag, nullable, default_of(field), field.get("ignorable", False)))
        inner = field.get("fields") or structs.get(field["type"].removeprefix("[]"), {}).get("fields", [])
        rows += kafka_rows(inner, structs, version)
    return rows


def default_of(field: dict[str, Any]) -> Any:
    """The default as a value; Kafka's files write it as a string or a number."""
    default = field.get("default", "")
    if default in NUMBERS:
        return NUMBERS[default]
    if default != "":
        return int(default)
    plain = {"bool": False, "string": "", "uuid": bytes(16)}
    return [] if field["type"].startswith("[]") else plain.get(field["type"], 0)


def our_rows(struct: type[Struct], version: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for field in struct.__fields__:
        if version not in field.options.versions:
            continue
        tag = field.options.tag if version in field.options.tagged else None
        nullable = version in field.options.nullable
        name = kafka_name(field)
        rows.append((name, str(field.type), tag, nullable, field.default(), field.options.ignorable))
        inner = field.type.element or field.type
        if inner.kind is Kind.STRUCT:
            assert inner.struct is not None
            rows += our_rows(inner.struct, version)
    return rows


def kafka_name(field: Field) -> str:
    """Kafka's JSON name is its schema name with the first letter made small."""
    name = field.json_name
    return name if name == "isKRaftController" else name[0].upper() + name[1:]


@pytest.mark.parametrize("message", MESSAGES.values(), ids=lambda message: message.__name__)
def test_fields_of_every_version(message: type[Message]) -> None:
    facts = FACTS[message.__name__]
    assert message.versions == Versions.parse(facts["validVersions"])
    assert message.api_key == facts.get("apiKey", -1)
    structs = {struct["name"]: struct for struct in facts.get("commonStructs", [])}
    for version in range(message.versions.lowest, message.versions.highest + 1):
        assert our_rows(message, version) == kafka_rows(facts["fields"], structs, version), version
        assert (version in message.flexible_versions) == (version in Versions.parse(facts["flexibleVersions"]))


@pytest.mark.parametrize("message", MESSAGES.values(), ids=lambda message: message.__name__)
def test_names_are_the_snake_case_that_kafka_makes(message: type[Message]) -> None:
    def check(struct: type[Struct]) -> None:
        for field in struct.__fields__:
            assert field.name == snake_case(field.json_name)
            inner = field.type.element or field.type
            if inner.struct is not None:
                check(inner.struct)

    check(message)


def snake_case(name: str) -> str:
    """As org.apache.kafka.message.MessageGenerator does: a run of capitals is one word."""
    words, previous_was_capital = "", True
    for letter in name:
        if letter.isupper() and not previous_was_capital:
            words += "_"
        words += letter.lower()
        previous_was_capital = letter.isupper()
    return words


@pytest.mark.recorded
def test_header_versions() -> None:
    seen = 0
    for case in cases.load("golden-39"):
        name = case["api"] + case["type"].capitalize()
        if case["type"] in ("request", "response") and name in MESSAGES:
            assert MESSAGES[name].header_version(case["version"]) == case["headerVersion"]
            seen += 1
    assert seen


def test_version_ranges_print_as_they_are_read() -> None:
    for text in ("0-7", "5+", "3", "none"):
        assert str(Versions.parse(text)) == text
    assert 5 in ALL and -1 not in ALL
