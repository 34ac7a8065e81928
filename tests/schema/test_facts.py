"""Schema classes have the facts of Kafka's own schema files, for every version of both releases, field by field."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

import cases
from kcore.schema import MESSAGES
from kcore.schema.index import METADATA_RECORDS, REQUESTS
from kcore.schema.structure import Data, Field, Message, MetadataRecord, Struct
from kcore.schema.versions import ALL, Versions
from wire.golden import CHANGED, RENAMED, name_of

Facts = dict[str, Any]
Row = tuple[Any, ...]
SPECIAL = {"true": True, "false": False, "null": None}
PLAIN = {"bool": False, "string": "", "uuid": bytes(16), "bytes": b"", "records": None, "float64": 0.0}
STRUCT = "a struct of defaults"


def load(name: str) -> dict[str, Facts]:
    text = (cases.DATA / "wire" / name).read_text(encoding="utf-8")
    return {message["name"]: message for message in json.loads(text)["messages"]}


OLD, NEW = load("schemas-39.json"), load("schemas-4x.json")
RELEASES = [pytest.param(OLD, id="3.9.1"), pytest.param(NEW, id="4.3.1")]
ANY_MESSAGE = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


def numbers(versions: Versions) -> range:
    return range(versions.lowest, versions.highest + 1)


def facts_of(message: type[Message]) -> list[Facts]:
    """One a release that has versions of it."""
    found = [release[message.__name__] for release in (OLD, NEW) if message.__name__ in release]
    return [facts for facts in found if facts["validVersions"] != "none"]


def kafka_fields(facts: Facts, version: int) -> Iterator[tuple[str, Facts]]:
    """(path, field) of the fields that a version has: nested ones follow theirs."""
    structs = {struct["name"]: struct["fields"] for struct in facts.get("commonStructs", [])}

    def walk(fields: list[Facts], path: str) -> Iterator[tuple[str, Facts]]:
        for field in fields:
            if version in Versions.parse(field["versions"]):
                name = path + newest_name(facts["name"], field["name"])
                yield name, field
                yield from walk(field.get("fields") or structs.get(field["type"].removeprefix("[]"), []), f"{name}.")

    return walk(facts["fields"], "")


def newest_name(message: str, name: str) -> str:
    """The present name; VoteRequest has fields that 4.3.1 renamed."""
    json_name = name[0].lower() + name[1:]
    return RENAMED.get(json_name, json_name) if message == "VoteRequest" else json_name


def kafka_row(path: str, field: Facts, version: int) -> Row:
    tag = field["tag"] if version in Versions.parse(field.get("taggedVersions", "none")) else None
    nullable = version in Versions.parse(field.get("nullableVersions", "none"))
    return path, field["type"], tag, nullable, default_of(field), field.get("flexibleVersions")


def default_of(field: Facts) -> Any:
    """The default as a value; Kafka's files write it as a string, a number or a bool."""
    kind, default = field["type"], field.get("default", "")
    if default in SPECIAL or isinstance(default, bool):
        return SPECIAL.get(str(default).lower())
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return STRUCT
    if default == "":
        return PLAIN.get(kind, 0)
    return default if kind == "string" else float(default) if kind == "float64" else int(str(default), 0)


def our_fields(struct: type[Struct], version: int, path: str = "") -> Iterator[tuple[str, Field]]:
    for field in struct.__fields__:
        if version in field.options.versions:
            name = path + field.json_name
            yield name, field
            if inner := (field.type.element or field.type).struct:
                yield from our_fields(inner, version, f"{name}.")


def our_row(path: str, field: Field, version: int) -> Row:
    options = field.options
    tag = options.tag if version in options.tagged else None
    default = STRUCT if isinstance(field.default(), Struct) else field.default()
    flexible = None if options.flexible is None else str(options.flexible)
    return path, str(field.type), tag, version in options.nullable, default, flexible


def test_every_message_is_there() -> None:
    assert set(MESSAGES) == set(OLD) | set(NEW)
    assert len(MESSAGES) == 227


@pytest.mark.parametrize("release", RELEASES)
@ANY_MESSAGE
def test_fields_of_every_version(message: type[Message], release: dict[str, Facts]) -> None:
    facts = release.get(message.__name__, {"validVersions": "none"})
    for version in numbers(Versions.parse(facts["validVersions"])):
        if release is OLD and (message.__name__, version) == CHANGED:
            continue
        ours = [our_row(path, field, version) for path, field in our_fields(message, version)]
        assert ours == [kafka_row(path, field, version) for path, field in kafka_fields(facts, version)], version
        assert (version in message.flexible_versions) == (version in Versions.parse(facts["flexibleVersions"]))


@ANY_MESSAGE
def test_versions_are_those_of_both_releases(message: type[Message]) -> None:
    versions = [numbers(Versions.parse(facts["validVersions"])) for facts in facts_of(message)]
    assert set(numbers(message.versions)) == set(chain.from_iterable(versions))


@ANY_MESSAGE
def test_ignorable_in_either_release(message: type[Message]) -> None:
    """It matters if some version lacks the field, and perhaps only one release has such versions."""
    lacking, ours, found = set(), set(), set()
    for version in numbers(message.versions):
        for path, field in our_fields(message, version):
            if not set(numbers(message.versions)) <= set(numbers(field.options.versions)):
                lacking.add(path)
                ours |= {path} if field.options.ignorable else set()
    for facts in facts_of(message):
        for version in numbers(Versions.parse(facts["validVersions"])):
            found |= {path for path, field in kafka_fields(facts, version) if field.get("ignorable")}
    assert ours == found & lacking


@ANY_MESSAGE
def test_keys_and_types(message: type[Message]) -> None:
    for facts in facts_of(message):
        assert message.api_key == facts.get("apiKey", -1)
        assert issubclass(message, MetadataRecord) == (facts["type"] == "metadata")
        assert issubclass(message, Data) == (facts["type"] == "data")


def test_messages_are_found_by_their_number() -> None:
    requests = [message for message in MESSAGES.values() if message.__name__.endswith("Request")]
    assert {key: message.api_key for key, message in REQUESTS.items()} == {key: key for key in REQUESTS}
    assert set(REQUESTS) == {message.api_key for message in requests}
    records = [message for message in MESSAGES.values() if issubclass(message, MetadataRecord)]
    assert {key: message.api_key for key, message in METADATA_RECORDS.items()} == {key: key for key in METADATA_RECORDS}
    assert set(METADATA_RECORDS.values()) == set(records)


@ANY_MESSAGE
def test_names_are_the_snake_case_that_kafka_makes(message: type[Message]) -> None:
    for version in numbers(message.versions):
        for _, field in our_fields(message, version):
            assert field.name == snake_case(field.json_name[0].upper() + field.json_name[1:])


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
    for case in cases.load("golden-39") + cases.load("golden-4"):
        if case["type"] in ("request", "response"):
            assert MESSAGES[name_of(case)].header_version(case["version"]) == case["headerVersion"]
            seen += 1
    assert seen


def test_version_ranges_print_as_they_are_read() -> None:
    for text in ("0-7", "5+", "3", "none"):
        assert str(Versions.parse(text)) == text
    assert 5 in ALL and -1 not in ALL
