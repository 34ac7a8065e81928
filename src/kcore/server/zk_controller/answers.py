"""Makes events of brokers' responses to control requests."""

from typing import Any, Final

import numpy as np

from kcore.controller.zk.events import (
    Event,
    LeaderAndIsrResponseReceived,
    StopReplicaResponseReceived,
)
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.states import taken
from kcore.schema import LeaderAndIsrResponse, StopReplicaResponse
from kcore.wire.columns import Columns, Rows

DELETES_BY_PARTITION: Final = 3  # From this version on StopReplica has a delete flag for each partition (KIP-570).
IN_COLUMNS: Final = (
    LeaderAndIsrResponse,
    StopReplicaResponse,
)  # Decoded into columns, because they have every partition.


def event_of_answer(request: ControlRequest, broker_id: int, broker_epoch: int, response: Columns) -> Event:
    """The event of a response that is decoded into columns; the request was sent to `broker_epoch`."""
    if response.message is LeaderAndIsrResponse:
        return LeaderAndIsrResponseReceived(broker_id, broker_epoch, response)
    if request.version < DELETES_BY_PARTITION:
        return StopReplicaResponseReceived(broker_id, broker_epoch, request.columns.delete_partitions, response)
    delete = request.columns.topic_states.partition_states.delete_partition
    if delete.any() and not delete.all():
        response = _of_deleted(response, request.columns)
    return StopReplicaResponseReceived(broker_id, broker_epoch, bool(delete.any()), response)


def _of_deleted(response: Columns, request: Columns) -> Columns:
    """The part of the response for partitions that the request deletes; others were only stopped (KAFKA-9946)."""
    errors = response.partition_errors
    deleted = _deleted(request)
    named = zip(errors.topic_name.tolist(), errors.partition_index.tolist(), strict=True)
    rows = np.flatnonzero([each in deleted for each in named])
    left: dict[str, Any] = {
        "topic_name": taken(errors.topic_name, rows),
        "partition_index": errors.partition_index[rows],
        "error_code": errors.error_code[rows],
    }
    counts = np.array([0, len(rows)], np.int32)
    return Columns(StopReplicaResponse, error_code=response.error_code, partition_errors=Rows(counts, **left))


def _deleted(request: Columns) -> set[tuple[str | None, int]]:
    """The topics and indexes of the partitions that a StopReplica deletes."""
    topics = request.topic_states
    states = topics.partition_states
    deleted = np.flatnonzero(states.delete_partition)
    owners = np.searchsorted(states.row_offsets, deleted, side="right") - 1
    names = topics.topic_name.tolist()
    indexes = states.partition_index[deleted].tolist()
    return {(names[topic], index) for topic, index in zip(owners.tolist(), indexes, strict=True)}
