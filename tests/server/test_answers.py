"""Brokers' answers as events."""

from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.zk import events
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.metadata.table.broker_table import BrokerTable
from kcore.schema.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kcore.server.zk_controller.broker_channel import event_of_answer
from kcore.wire.codec import encode
from kcore.wire.column_codec import decode_columns
from kcore.wire.columns import Columns

EPOCH = 70
PLACES = [("a", 0), ("a", 1), ("b", 0), ("b", 2)]


def asked(message: Any, version: int) -> ControlRequest:
    brokers = BrokerTable.from_arrays([1], epochs=[EPOCH])
    columns = decode_columns(type(message), version, encode(message, version))
    return ControlRequest(type(message), version, brokers.ids, brokers.epochs, columns)


def stop_answer() -> Columns:
    errors = [StopReplicaPartitionError(topic_name=name, partition_index=index) for name, index in PLACES]
    return decode_columns(s.StopReplicaResponse, 3, encode(s.StopReplicaResponse(partition_errors=errors), 3))


def test_leadership() -> None:
    led = decode_columns(s.LeaderAndIsrResponse, 7, encode(s.LeaderAndIsrResponse(), 7))
    assert event_of_answer(asked(s.LeaderAndIsrRequest(), 7), 1, EPOCH, led) == events.LeaderAndIsrResponseReceived(
        1, EPOCH, led
    )


@pytest.mark.parametrize(
    ("deleted", "left"),
    [
        ([], PLACES),
        (PLACES, PLACES),
        ([("a", 1), ("b", 2)], [("a", 1), ("b", 2)]),  # The others only stop: that is no deletion (KAFKA-9946).
    ],
)
def test_stopped_replicas_that_are_to_be_deleted_are_reported(
    deleted: list[tuple[str, int]], left: list[tuple[str, int]]
) -> None:
    states = [
        StopReplicaTopicState(
            topic_name=topic,
            partition_states=[
                StopReplicaPartitionState(partition_index=index, delete_partition=(name, index) in deleted)
                for name, index in PLACES
                if name == topic
            ],
        )
        for topic in ("a", "b")
    ]
    event = event_of_answer(asked(s.StopReplicaRequest(topic_states=states), 4), 1, EPOCH, stop_answer())
    assert isinstance(event, events.StopReplicaResponseReceived)
    assert (event.broker_id, event.broker_epoch, event.delete) == (1, EPOCH, bool(deleted))
    errors = event.response.partition_errors
    assert [*zip(errors.topic_name, errors.partition_index, strict=True)] == left


@pytest.mark.parametrize("delete", [True, False])
def test_before_version_3_the_whole_request_deletes(delete: bool) -> None:
    topics = [StopReplicaTopicV1(name="a", partition_indexes=[0, 1])]
    request = asked(s.StopReplicaRequest(topics=topics, delete_partitions=delete), 2)
    event = event_of_answer(request, 1, EPOCH, stop_answer())
    assert isinstance(event, events.StopReplicaResponseReceived) and event.delete is delete
    assert len(event.response.partition_errors) == len(PLACES)
