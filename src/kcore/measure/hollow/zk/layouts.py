"""Translates the schema for the compiled receivers: how they read control requests and what their answers list."""

from collections.abc import Iterator
from typing import Final, TypeAlias

from kcore.broker.zk_control.control_requests import CONTROL_REQUESTS, RequestHead
from kcore.net.versions import API_VERSIONS, answer_of, for_version
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.kinds import Kind
from kcore.schema.structure import Message
from kcore.wire.codec import encode
from kcore.wire.layout import DTYPES
from kcore.wire.plan import Step, StructPlan, plan

Program: TypeAlias = list[tuple[str, int]]
Layout: TypeAlias = tuple[int, int, bool, str, Program]

LOWEST: Final = {LeaderAndIsrRequest: 5, StopReplicaRequest: 3, UpdateMetadataRequest: 7}  # As Kafka 2.8 sends them.
_HEAD: Final = {*RequestHead._fields}
_LISTS: Final = {LeaderAndIsrRequest: "topics", StopReplicaRequest: "partitions", UpdateMetadataRequest: "nothing"}
# The request fields that an answer repeats, by what the answer lists.
_NAMED: Final = {
    "topics": {"topic_id": "topic_id", "partition_index": "partition"},
    "partitions": {"topic_name": "topic", "partition_index": "partition"},
    "nothing": {"partition_index": "partition"},
}


def layouts() -> list[Layout]:
    """API key, version, whether the head has `is_kraft_controller`, what the answer lists, the program for the rest."""
    return [
        _layout(message, version)
        for message in CONTROL_REQUESTS.values()
        for version in range(LOWEST[message], message.versions.highest + 1)
    ]


def constants() -> list[tuple[int, int, bytes]]:
    """API key, version and body of each answer to ApiVersions. It lists no other API: controllers do not request it."""
    answer = answer_of({ApiVersionsRequest: API_VERSIONS})
    return [
        (ApiVersionsRequest.api_key, version, encode(for_version(answer, version), version))
        for version in range(API_VERSIONS.lowest, API_VERSIONS.highest + 1)
    ]


def _layout(message: type[Message], version: int) -> Layout:
    whole, lists = plan(message, version), _LISTS[message]
    names = [each.field.name for each in whole.in_line]
    has_kraft = "is_kraft_controller" in names
    head = 3 + has_kraft
    assert {*names[:head]} <= _HEAD, f"{message.__name__} {version} begins with other fields"
    return message.api_key, version, has_kraft, lists, [*_joined(_program(whole, _NAMED[lists], head))]


def _program(struct: StructPlan, named: dict[str, str], begin: int = 0) -> Iterator[tuple[str, int]]:
    """The program that reads the fields from `begin` on; only flexible versions are supported."""
    assert struct.flexible
    for each in struct.in_line[begin:]:
        if each.field.name in named:
            yield named[each.field.name], 0
        else:
            yield from _field(each.step, named)
    yield "tags", 0


def _field(step: Step, named: dict[str, str]) -> Iterator[tuple[str, int]]:
    assert step.kind is Kind.STRING or not step.nullable
    if step.kind is Kind.STRING:
        yield "text", int(step.nullable)
    elif step.element is not None and step.element.struct is not None:
        yield "rows", 0
        yield from _program(step.element.struct, named)
        yield "end", 0
    elif step.element is not None:
        yield "items", DTYPES[step.element.kind].itemsize
    else:
        yield "skip", DTYPES[step.kind].itemsize


def _joined(program: Iterator[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Joins consecutive skipped fields into one skip."""
    skipped = 0
    for name, number in program:
        if name == "skip":
            skipped += number
            continue
        if skipped:
            yield "skip", skipped
            skipped = 0
        yield name, number
