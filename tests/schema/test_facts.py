"""Our schema classes say what Kafka's own schema files say, for every version of three releases, field by field."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest

import cases
from kcore.schema import MESSAGES
from kcore.schema.index import METADATA_RECORDS, REQUESTS
from kcore.schema.structure import Data, Field, Message, MetadataRecord, Struct
from kcore.schema.versions import ALL, Versions
from wire.golden import CHANGED, name_of, present_names

Facts = dict[str, Any]
Row = tuple[Any, ...]
SPECIAL = {"true": True, "false": False, "null": None}
PLAIN = {"bool": False, "string": "", "uuid": bytes(16), "bytes": b"", "records": None, "float64": 0.0}
STRUCT = "a struct of defaults"


parse = cache(Versions.parse)


def load(name: str) -> dict[str, Facts]:
    text = (cases.DATA / "wire" / name).read_text(encoding="utf-8")
    return {message["name"]: message for message in json.loads(text)["messages"]}


OLD = load("schemas-39.json")
FACTS = {"3.9.1": OLD, "4.3.1": load("schemas-4x.json"), "4.4.0": load("schemas-44.json")}


def numbers(versions: Versions) -> range:
    return range(versions.lowest, versions.highest + 1)


def facts_of(message: type[Message]) -> list[Facts]:
    """One a release that has versions of it."""
    found = [release[message.__name__] for release in FACTS.values() if message.__name__ in release]
    return [facts for facts in found if facts["validVersions"] != "none"]


def kafka_fields(facts: Facts, version: int) -> Iterator[tuple[str, Facts]]:
    """(path, field) of the fields that a version has: nested ones follow theirs."""
    structs = {struct["name"]: struct["fields"] for struct in facts.get("commonStructs", [])}

    def walk(fields: list[Facts], path: str) -> Iterator[tuple[str, Facts]]:
        for field in fields:
            if version in parse(field["versions"]):
                name = path + newest_name(facts["name"], version, field["name"])
                yield name, field
                yield from walk(field.get("fields") or structs.get(field["type"].removeprefix("[]"), []), f"{name}.")

    return walk(facts["fields"], "")


def newest_name(message: str, version: int, name: str) -> str:
    """As in JSON; newer releases have renamed fields of versions that older releases shipped."""
    json_name = name[0].lower() + name[1:]
    return present_names(message, version).get(json_name, json_name)


def kafka_row(path: str, field: Facts, version: int) -> Row:
    tag = field["tag"] if version in parse(field.get("taggedVersions", "none")) else None
    nullable = version in parse(field.get("nullableVersions", "none"))
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
    assert set(MESSAGES) == set().union(*FACTS.values())
    assert len(MESSAGES) == 233


def version_rows(message: type[Message], facts: Facts, version: int) -> tuple[list[Row], list[Row]]:
    """The rows of ours and of Kafka's fields, whether the version is flexible first."""
    ours = [our_row(path, field, version) for path, field in our_fields(message, version)]
    kafkas = [kafka_row(path, field, version) for path, field in kafka_fields(facts, version)]
    is_flexible = version in parse(facts["flexibleVersions"])
    return [(version in message.flexible_versions,), *ours], [(is_flexible,), *kafkas]


@pytest.mark.parametrize("release", FACTS)
def test_fields_of_every_version(release: str) -> None:
    compared, wrong = 0, []
    for name, message in MESSAGES.items():
        facts = FACTS[release].get(name, {"validVersions": "none"})
        for version in numbers(parse(facts["validVersions"])):
            if FACTS[release] is OLD and (name, version) == CHANGED:
                continue
            ours, kafkas = version_rows(message, facts, version)
            compared += 1
            if ours != kafkas:
                wrong.append((name, version, ours, kafkas))
    assert wrong == [] and compared > 500


def test_versions_are_those_of_all_releases() -> None:
    for name, message in MESSAGES.items():
        versions = [numbers(parse(facts["validVersions"])) for facts in facts_of(message)]
        assert set(numbers(message.versions)) == set(chain.from_iterable(versions)), name


def test_ignorable_in_any_release() -> None:
    """It counts where some version lacks the field, and only one release may have such versions."""
    sides = {name: ignorable_paths(message) for name, message in MESSAGES.items()}
    assert {name: (ours, kafkas) for name, (ours, kafkas) in sides.items() if ours != kafkas} == {}


def ignorable_paths(message: type[Message]) -> tuple[set[str], set[str]]:
    """The fields that some version lacks and that are ignorable: by our schema, and by Kafka's."""
    lacking, ours, found = set(), set(), set()
    for version in numbers(message.versions):
        for path, field in our_fields(message, version):
            if not all(each in field.options.versions for each in numbers(message.versions)):
                lacking.add(path)
                ours |= {path} if field.options.ignorable else set()
    for facts in facts_of(message):
        for version in numbers(parse(facts["validVersions"])):
            found |= {path for path, field in kafka_fields(facts, version) if field.get("ignorable")}
    return ours, found & lacking


def test_keys_and_types() -> None:
    for name, message in MESSAGES.items():
        for facts in facts_of(message):
            assert message.api_key == facts.get("apiKey", -1), name
            assert issubclass(message, MetadataRecord) == (facts["type"] == "metadata"), name
            assert issubclass(message, Data) == (facts["type"] == "data"), name


def test_messages_are_found_by_their_number() -> None:
    requests = [message for message in MESSAGES.values() if message.__name__.endswith("Request")]
    assert {key: message.api_key for key, message in REQUESTS.items()} == {key: key for key in REQUESTS}
    assert set(REQUESTS) == {message.api_key for message in requests}
    records = [message for message in MESSAGES.values() if issubclass(message, MetadataRecord)]
    assert {key: message.api_key for key, message in METADATA_RECORDS.items()} == {key: key for key in METADATA_RECORDS}
    assert set(METADATA_RECORDS.values()) == set(records)


def test_names_are_the_snake_case_that_kafka_makes() -> None:
    fields = {
        (name, field.name, field.json_name)
        for name, message in MESSAGES.items()
        for version in numbers(message.versions)
        for _, field in our_fields(message, version)
    }
    wanted = {each: snake_case(each[2][0].upper() + each[2][1:]) for each in fields}
    assert [each for each, name in wanted.items() if each[1] != name] == []


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
        assert str(parse(text)) == text
    assert 5 in ALL and -1 not in ALL
