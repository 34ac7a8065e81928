"""The JSON form is that of Kafka's own converters."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kcore
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.jsonform import skeleton
from kcore.wire.plan import plan
from wire.every_kind import EveryKind, Part
from wire.golden import present_names, put_back, renamed, vectors
from wire.strategies import messages


@pytest.mark.recorded
def test_every_vector() -> None:
    for name, case in vectors():
        data = bytes.fromhex(case["hex"])
        message = kcore.decode(name, case["version"], data)
        wanted = renamed(case["json"], present_names(name, case["version"]))
        assert json.dumps(kcore.to_json(message, case["version"])) == json.dumps(wanted)  # In Kafka's order too.
        again = kcore.from_json(name, case["version"], case["json"])
        put_back(again, message)
        assert again == message
        assert kcore.encode(again, case["version"]) == data


def vote_request(**partition: int) -> dict[str, Any]:
    """Version 0 as JSON."""
    return {"clusterId": None, "topics": [{"topicName": "t", "partitions": [{"partitionIndex": 0} | partition]}]}


def test_names_of_older_releases() -> None:
    newest = vote_request(replicaEpoch=3, replicaId=4, lastOffsetEpoch=5, lastOffset=6)
    message = kcore.from_json("VoteRequest", 0, newest)
    assert kcore.to_json(message, 0) == newest
    old = vote_request(candidateEpoch=3, candidateId=4, lastOffsetEpoch=5, lastOffset=6)
    assert kcore.from_json("VoteRequest", 0, old) == message
    both = vote_request(candidateEpoch=3, candidateId=4, lastOffsetEpoch=5, lastOffset=6, replicaId=4)
    with pytest.raises(kcore.EncodeError, match=r"^topics\[0\]\.partitions\[0\]\.candidateId: .* as replicaId$"):
        kcore.from_json("VoteRequest", 0, both)


@given(st.integers(0, 3).flatmap(lambda version: st.tuples(st.just(version), messages(plan(EveryKind, version)))))
def test_any_message_there_and_back(drawn: tuple[int, EveryKind]) -> None:
    version, message = drawn
    text = json.dumps(kcore.to_json(message, version))
    again = kcore.from_json(EveryKind, version, json.loads(text))
    assert again == without_what_json_drops(message)


def without_what_json_drops(value: Any) -> Any:
    """Without unknown tagged fields, and with empty records."""
    if isinstance(value, list):
        return [without_what_json_drops(element) for element in value]
    if not isinstance(value, EveryKind | Part):
        return value
    for name in value.__match_args__:
        setattr(value, name, without_what_json_drops(getattr(value, name)))
    value.unknown_tagged_fields = ()
    if isinstance(value, EveryKind) and value.records is not None:
        value.records = b""
    return value


def test_how_values_look() -> None:
    message = EveryKind(some_bytes=b"\xff\x00", a_uuid=Uuid(bytes(range(16))), a_string=None, records=b"dropped")
    obj = kcore.to_json(message, 3)
    assert obj["someBytes"] == "/wA="
    assert obj["aUuid"] == "AAECAwQFBgcICQoLDA0ODw"
    assert obj["aString"] is None and obj["records"] == ""
    assert "taggedInt" not in obj and "moving" not in obj
    assert kcore.to_json(message, 2)["moving"] == 5


def test_set_fields_that_the_version_lacks() -> None:
    message = EveryKind(tagged_int=3)
    with pytest.raises(kcore.UnsupportedVersionError, match=r"^tagged_int"):
        kcore.to_json(message, 1)


FULL = kcore.to_json(EveryKind(parts=[Part()]), 3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nothing": 1}, "nothing: version 3 has no such field"),
        ({"anInt8": 128}, "anInt8: expected int8, not 128"),
        ({"anInt8": True}, "anInt8: expected int8, not True"),
        ({"anInt8": "1"}, "anInt8: expected int8, not '1'"),
        ({"aUint16": -1}, "aUint16: expected uint16, not -1"),
        ({"aFloat64": "x"}, "aFloat64: expected float64, not 'x'"),
        ({"aBool": 0}, "aBool: expected bool, not 0"),
        ({"aUuid": "short"}, "aUuid: expected uuid, not 'short'"),
        ({"aUuid": "\u00e9" * 22}, "aUuid: expected uuid, not"),
        ({"someBytes": "no base64!"}, "someBytes: expected bytes, not 'no base64!'"),
        ({"someBytes": 3}, "someBytes: expected bytes, not 3"),
        ({"names": None}, "names: not nullable"),
        ({"names": ["a", 5]}, "names[1]: expected string, not 5"),
        ({"names": "a"}, "names: expected a list, not 'a'"),
        ({"part": []}, "part: expected an object, not []"),
        ({"parts": [{}]}, "parts[0].name: missing"),
        ({"parts": [{"name": "a", "number": 1, "late": 2, "early": 3}]}, "parts[0].early: version 3 has no such field"),
    ],
)
def test_json_that_is_no_message(change: dict[str, Any], why: str) -> None:
    with pytest.raises(kcore.EncodeError) as error:
        kcore.from_json(EveryKind, 3, FULL | change)
    assert str(error.value).startswith(why)


def test_what_is_missing_is_named() -> None:
    obj = {
        "controllerId": 1, "isKRaftController": False, "controllerEpoch": 1, "brokerEpoch": 1, "type": 0,
        "liveLeaders": [], "topicStates": [{"topicName": "t", "topicId": str(Uuid()), "partitionStates": [{}]}],
    }  # fmt: skip
    with pytest.raises(kcore.EncodeError, match=r"^topicStates\[0\]\.partitionStates\[0\]\.partitionIndex: missing$"):
        kcore.from_json("LeaderAndIsrRequest", 7, obj)
    with pytest.raises(kcore.EncodeError, match=r"^LeaderAndIsrRequest: expected an object, not 5$"):
        kcore.from_json("LeaderAndIsrRequest", 7, 5)  # type: ignore[arg-type]
    with pytest.raises(kcore.UnsupportedVersionError):
        kcore.from_json("LeaderAndIsrRequest", 8, obj)
    with pytest.raises(kcore.UnknownMessageError):
        kcore.from_json("LeaderAndIsr", 7, obj)


def test_tagged_fields_may_be_missing() -> None:
    message = kcore.from_json(EveryKind, 3, FULL)
    assert isinstance(message, Message) and message == EveryKind(parts=[Part()], records=None)


@pytest.mark.parametrize("name", kcore.messages)
def test_the_skeleton_of_every_message_and_version_encodes_as_it_is(name: str) -> None:
    kind = kcore.messages[name]
    for version in range(kind.versions.lowest, kind.versions.highest + 1):
        blank = skeleton(name, version)
        message = kcore.from_json(name, version, json.loads(json.dumps(blank)))
        assert kcore.decode(name, version, kcore.encode(message, version)) == message
        steps = plan(kind, version)
        assert blank.keys() == {step.field.json_name for step in (*steps.in_line, *steps.tagged)}
