"""Builds a hollow broker's frames, and finds the positions of the fields that the loop rewrites."""

from collections.abc import Sequence
from typing import Final

from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message
from kcore.types import METADATA_TOPIC_ID, Uuid
from kcore.wire.frame_places import Frame, frame, with_places

MAX_WAIT_MS: Final = 500  # As in the fetches of Kafka's own observers.
HEARTBEAT_FIELDS: Final = ("correlation_id", "broker_epoch", "current_metadata_offset", "want_shut_down")
FETCH_FIELDS: Final = ("correlation_id", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "high_watermark")


def client_id_of(broker_id: int) -> str:
    """The client id of a hollow broker's requests."""
    return f"hollow-{broker_id:06}"


def heartbeat_frame(
    client_id: str, version: int, broker_id: int, offline: Sequence[Uuid] = (), *, wants_fence: bool = False
) -> Frame:
    """A BrokerHeartbeat frame, with the positions of HEARTBEAT_FIELDS."""

    def build(correlation_id: int = 0, **changing: int) -> bytes:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=0, want_fence=wants_fence, offline_log_dirs=[*offline]
        )
        if version >= 2:
            request.cordoned_log_dirs = []
        for name, value in changing.items():
            setattr(request, name, bool(value) if name == "want_shut_down" else value)
        return frame(_header(client_id, version, correlation_id, request), request, version)

    return with_places(build, HEARTBEAT_FIELDS)


def fetch_frame(client_id: str, version: int, broker_id: int, cluster_id: str, max_bytes: int) -> Frame:
    """An observer's Fetch of the metadata log, with the positions of FETCH_FIELDS."""

    def build(correlation_id: int = 0, **changing: int) -> bytes:
        partition = FetchPartition(partition=0)
        for name, value in changing.items():
            setattr(partition, name, value)
        request = FetchRequest(
            cluster_id=cluster_id,
            replica_state=ReplicaState(replica_id=broker_id),
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=max_bytes,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )
        return frame(_header(client_id, version, correlation_id, request), request, version)

    return with_places(build, FETCH_FIELDS)


def request_frame(client_id: str, version: int, correlation_id: int, request: Message) -> bytes:
    """The frame of a request that is sent once."""
    return frame(_header(client_id, version, correlation_id, request), request, version)


def _header(client_id: str, version: int, correlation_id: int, request: Message) -> RequestHeader:
    return RequestHeader(
        request_api_key=type(request).api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
