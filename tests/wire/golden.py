"""The recorded bytes of every message."""

from functools import cache
from typing import Any

import cases
from kcore.schema.kinds import Kind
from kcore.schema.structure import Struct

# 4.3.1 put a field into a version that 3.9.1 had shipped, and renamed those of another: the newest rules.
CHANGED = ("ReadShareGroupStateSummaryResponse", 0)
RENAMED = {
    "candidateEpoch": "replicaEpoch",
    "candidateId": "replicaId",
    "candidateDirectoryId": "replicaDirectoryId",
}


@cache
def vectors() -> list[tuple[str, dict[str, Any]]]:
    """(message name, case) of either Kafka."""
    old = [(name_of(case), case) for case in cases.load("golden-39")]
    new = [(name_of(case), case) for case in cases.load("golden-4")]
    return [(name, case) for name, case in old if (name, case["version"]) != CHANGED] + new


def name_of(case: dict[str, Any]) -> str:
    return str(case["api"]) + (case["type"].capitalize() if case["type"] in ("request", "response") else "")


def newest_names(name: str, json: Any) -> Any:
    """Kafka's JSON with the present names of the fields."""
    if name != "VoteRequest":
        return json
    if isinstance(json, list):
        return [newest_names(name, element) for element in json]
    if not isinstance(json, dict):
        return json
    return {RENAMED.get(key, key): newest_names(name, value) for key, value in json.items()}


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
