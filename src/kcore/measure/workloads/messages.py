"""The whole cluster as control requests in columns, and the memory of columns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kcore.controller.zk.requests.states import (
    ReplicaAvailability,
    TopicStates,
    leader_and_isr_states,
    update_metadata_states,
)
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.types import Int32s
from kcore.wire.columns import Columns, Rows, Strings, Vectors

HEAD: dict[str, Any] = {"controller_id": 1, "controller_epoch": 1}


def leader_and_isr(table: PartitionTable) -> Columns:
    """Every partition in one LeaderAndIsr request, as if one broker had a replica of each."""
    first = [endpoints[0] for endpoints in table.brokers.endpoints if endpoints]
    live_leaders = Rows(
        _one_list(first),
        broker_id=table.brokers.ids[[bool(endpoints) for endpoints in table.brokers.endpoints]],
        host_name=Strings.of(endpoint.host for endpoint in first),
        port=np.array([endpoint.port for endpoint in first], np.int32),
    )
    states = _topic_states(table, leader_and_isr_states)
    return Columns(LeaderAndIsrRequest, **HEAD, topic_states=states, live_leaders=live_leaders)


def update_metadata(table: PartitionTable) -> Columns:
    """Every partition and broker in one UpdateMetadata request, as a starting broker gets it."""
    lists = table.brokers.endpoints
    endpoints = [endpoint for each in lists for endpoint in each]
    live_brokers = Rows(
        _one_list(lists),
        id=table.brokers.ids,
        endpoints=Rows(
            np.cumsum([0, *map(len, lists)], dtype=np.int32),
            port=np.array([endpoint.port for endpoint in endpoints], np.int32),
            host=Strings.of(endpoint.host for endpoint in endpoints),
            listener=Strings.of(endpoint.listener for endpoint in endpoints),
            security_protocol=np.array([endpoint.security_protocol for endpoint in endpoints], np.int16),
        ),
        rack=Strings.of(table.brokers.racks),
    )
    healthy = ReplicaAvailability(table, (), {})
    states = _topic_states(table, lambda table, rows: update_metadata_states(table, rows, healthy))
    return Columns(UpdateMetadataRequest, **HEAD, topic_states=states, live_brokers=live_brokers)


def stop_replica(table: PartitionTable) -> Columns:
    """Every partition in one StopReplica request, with the fields that all its versions have."""
    states = _topic_states(table, leader_and_isr_states)
    partitions = states.partition_states
    numbers = Rows(partitions.row_offsets, partition_index=partitions.column("partition_index"))
    topics = Rows(states.row_offsets, topic_name=states.topic_name, partition_states=numbers)
    return Columns(StopReplicaRequest, **HEAD, topic_states=topics)


def memory_of(column: Any) -> int:
    """The bytes of the arrays in a message of columns or in a part of it; unset parts have none."""
    if isinstance(column, np.ndarray):
        return column.nbytes
    if isinstance(column, Vectors):
        return memory_of(column.offsets) + memory_of(column.values) + memory_of(column.valid)
    if isinstance(column, Rows):
        return memory_of(column.row_offsets) + sum(memory_of(column.column(name)) for name in dir(column))
    return 0


def _topic_states(table: PartitionTable, states: Callable[[PartitionTable, Int32s], dict[str, Any]]) -> Rows:
    rows = np.arange(len(table), dtype=np.int32)
    return TopicStates(table, rows, np.array([0, len(rows)], np.int32), states(table, rows)).of(0, 1)


def _one_list(items: list[Any]) -> Int32s:
    return np.array([0, len(items)], np.int32)
