"""The frames that the loop sends, and the places where it writes into them."""

import struct

import pytest

from kcore.measure.hollow.frames import FETCH_FIELDS, HEARTBEAT_FIELDS, fetch_frame, heartbeat_frame
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message
from kcore.types import METADATA_TOPIC_ID, Uuid
from kcore.wire.codec import decode_from

FORMS = {"correlation_id": ">i", "current_leader_epoch": ">i", "last_fetched_epoch": ">i", "want_shut_down": ">?"}
LOST = Uuid(bytes(range(16)))


def written(frame: bytes, places: list[int | None], names: tuple[str, ...], values: dict[str, int]) -> bytes:
    """The frame as the loop sends it."""
    found = bytearray(frame)
    for name, place in zip(names, places, strict=True):
        if place is not None:
            struct.pack_into(FORMS.get(name, ">q"), found, place, values[name])
    return bytes(found)


def read(frame: bytes, request: type[Message], version: int) -> tuple[RequestHeader, Message]:
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    header, at = decode_from(RequestHeader, request.header_version(version), frame, 4)
    message, end = decode_from(request, version, frame, at)
    assert end == len(frame)
    assert (header.request_api_key, header.request_api_version) == (request.api_key, version)
    return header, message


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_heartbeat_says_what_was_written_into_it(version: int) -> None:
    frame, places = heartbeat_frame("me", version, 7, [LOST] if version else [])
    values = {"correlation_id": 9, "broker_epoch": 1 << 40, "current_metadata_offset": 77, "want_shut_down": True}
    header, request = read(written(frame, places, HEARTBEAT_FIELDS, values), BrokerHeartbeatRequest, version)
    assert (header.correlation_id, header.client_id) == (9, "me")
    assert (request.broker_id, request.broker_epoch, request.current_metadata_offset) == (7, 1 << 40, 77)
    assert (request.want_shut_down, request.want_fence) == (True, False)
    assert request.offline_log_dirs == ([LOST] if version else [])


@pytest.mark.parametrize("version", [15, 16, 17, 18])
def test_a_fetch_says_what_was_written_into_it(version: int) -> None:
    frame, places = fetch_frame("me", version, 7, "cluster", 1234)
    values = dict(zip(FETCH_FIELDS, (9, 3, 1 << 40, 2, 55), strict=True))
    header, request = read(written(frame, places, FETCH_FIELDS, values), FetchRequest, version)
    assert header.correlation_id == 9
    assert (request.cluster_id, request.max_bytes) == ("cluster", 1234)
    assert request.replica_state.replica_id == 7
    [topic] = request.topics
    [partition] = topic.partitions
    assert topic.topic_id == METADATA_TOPIC_ID
    assert (partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch) == (3, 1 << 40, 2)
    assert (places[-1] is None) == (version < 18)
    assert partition.high_watermark == (55 if version >= 18 else partition.high_watermark)
