"""Which event a broker's answer to a control request is."""

from typing import Final

import numpy as np

from kcore.controller.events import (
    Event,
    LeaderAndIsrResponseReceived,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from kcore.controller.requests.builder import ControlRequest
from kcore.schema import StopReplicaResponse, UpdateMetadataResponse
from kcore.schema.structure import Message
from kcore.wire.columns import Columns

DELETES_BY_PARTITION: Final = 3  # StopReplica's version from which each partition says so (KIP-570).


def event_of_answer(request: ControlRequest, broker_id: int, broker_epoch: int, response: Message | Columns) -> Event:
    """`broker_epoch`: of the incarnation that was asked; a LeaderAndIsrResponse comes as columns."""
    if isinstance(response, Columns):
        return LeaderAndIsrResponseReceived(broker_id, broker_epoch, response)
    if isinstance(response, UpdateMetadataResponse):
        return UpdateMetadataResponseReceived(broker_id, broker_epoch, response)
    assert isinstance(response, StopReplicaResponse)
    if request.version < DELETES_BY_PARTITION:
        return StopReplicaResponseReceived(broker_id, broker_epoch, request.columns.delete_partitions, response)
    deleted = _deleted(request.columns)
    if deleted:
        response.partition_errors = [
            each for each in response.partition_errors if (each.topic_name, each.partition_index) in deleted
        ]
    return StopReplicaResponseReceived(broker_id, broker_epoch, bool(deleted), response)


def _deleted(columns: Columns) -> set[tuple[str | None, int]]:
    """Topic and index of the partitions that a StopReplica had a broker delete; it may name others beside them."""
    topics = columns.topic_states
    states = topics.partition_states
    deleted = np.flatnonzero(states.delete_partition)
    owners = np.searchsorted(states.row_offsets, deleted, side="right") - 1
    return {
        (topics.topic_name[topic], int(states.partition_index[row])) for topic, row in zip(owners, deleted, strict=True)
    }
