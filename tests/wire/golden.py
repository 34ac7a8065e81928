"""The recorded bytes of every message."""

from functools import cache
from json import dumps
from typing import Any

import cases
from kcore.schema.kinds import Kind
from kcore.schema.structure import Struct

CHANGED = ("ReadShareGroupStateSummaryResponse", 0)  # 4.3.1 put a field into this version, which 3.9.1 had shipped.
# By message: the last version that an older release shipped with other names of fields, and the present names.
RENAMED: dict[str, tuple[int, dict[str, str]]] = {
    "VoteRequest": (
        2,
        {
            "candidateEpoch": "replicaEpoch",
            "candidateId": "replicaId",
            "candidateDirectoryId": "replicaDirectoryId",
        },
    ),
    "TxnOffsetCommitRequest": (5, {"generationId": "generationIdOrMemberEpoch"}),
    "StreamsGroupHeartbeatResponse": (0, {"acceptableRecoveryLag": "acceptableRecoveryLagLegacy"}),
}


@cache
def vectors() -> list[tuple[str, dict[str, Any]]]:
    """(message name, case) of every Kafka; once, if several releases recorded the same case."""
    old = [case for case in cases.load("golden-39") if (name_of(case), case["version"]) != CHANGED]
    found = {dumps(case | {"i": 0}): case for case in old + cases.load("golden-4")}
    return [(name_of(case), case) for case in found.values()]


def name_of(case: dict[str, Any]) -> str:
    return str(case["api"]) + (case["type"].capitalize() if case["type"] in ("request", "response") else "")


def present_names(name: str, version: int) -> dict[str, str]:
    """The present names of fields by the names in older releases."""
    last, names = RENAMED.get(name, (-1, {}))
    return names if version <= last else {}


def renamed(json: Any, names: dict[str, str]) -> Any:
    """Kafka's JSON with other names of fields."""
    if isinstance(json, list):
        return [renamed(element, names) for element in json]
    if not isinstance(json, dict):
        return json
    return {names.get(key, key): renamed(value, names) for key, value in json.items()}


def dropped_by_json(value: Any) -> tuple[list[bytes], list[list[Any]]]:
    """The values that Kafka's JSON lacks: records, in the order of the bytes, and unknown tags as [tag, hex]."""
    if isinstance(value, list):
        parts = [dropped_by_json(element) for element in value]
    elif isinstance(value, Struct):
        own = [getattr(value, field.name) for field in value.__fields__ if field.type.kind is Kind.RECORDS]
        tags = [[tag, data.hex()] for tag, data in value.unknown_tagged_fields]
        inner = [dropped_by_json(getattr(value, field.name)) for field in value.__fields__]
        parts = [([records for records in own if records is not None], tags), *inner]
    else:
        return [], []
    return [records for part in parts for records in part[0]], [tag for part in parts for tag in part[1]]


def put_back(value: Any, original: Any) -> None:
    """Put the dropped values back into a message made from JSON."""
    if isinstance(value, list):
        for element, source in zip(value, original, strict=True):
            put_back(element, source)
    elif isinstance(value, Struct):
        value.unknown_tagged_fields = original.unknown_tagged_fields
        for field in value.__fields__:
            if field.type.kind is Kind.RECORDS:
                setattr(value, field.name, getattr(original, field.name))
            put_back(getattr(value, field.name), getattr(original, field.name))
