"""A decoded full UpdateMetadata or LeaderAndIsr, in columns, read as a cluster."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from kcore.constants import LEADER_DURING_DELETE, NO_EPOCH
from kcore.metadata.arrays import Array, padded
from kcore.metadata.broker_table import SECURITY_PROTOCOLS, BrokerTable, Endpoint
from kcore.metadata.table_arrays import TableArrays
from kcore.metadata.topics import TopicTable
from kcore.types import Bools, Int8s, Int32s, Uuid

Ragged: TypeAlias = tuple[Int32s, Int32s]  # Offsets (p + 1) and values: row k is values[offsets[k]:offsets[k + 1]].


class EndpointFields(Protocol):
    """UpdateMetadataEndpoint."""

    port: int
    host: str
    listener: str
    security_protocol: int


class BrokerFields(Protocol):
    """UpdateMetadataBroker."""

    id: int
    v0_host: str
    v0_port: int
    endpoints: Sequence[EndpointFields]
    rack: str | None


class LiveLeaderFields(Protocol):
    """LeaderAndIsrLiveLeader."""

    broker_id: int
    host_name: str
    port: int


class StateColumns(Protocol):
    """What both requests say of partitions; p in all, topic t has rows topic_offsets[t]:topic_offsets[t + 1]."""

    topic_names: Sequence[str]
    topic_ids: Sequence[Uuid] | None
    topic_offsets: Int32s
    partition_index: Int32s
    partition_controller_epoch: Int32s
    leader: Int32s
    leader_epoch: Int32s
    partition_epoch: Int32s  # UpdateMetadata calls it zk_version.
    isr: Ragged
    replicas: Ragged


class LeaderAndIsrColumns(StateColumns, Protocol):
    """A decoded LeaderAndIsrRequest."""

    live_leaders: Sequence[LiveLeaderFields]
    adding_replicas: Ragged
    removing_replicas: Ragged
    leader_recovery_state: Int8s


@runtime_checkable
class UpdateMetadataColumns(StateColumns, Protocol):
    """A decoded UpdateMetadataRequest."""

    live_brokers: Sequence[BrokerFields]


def arrays_of_request(columns: UpdateMetadataColumns | LeaderAndIsrColumns) -> TableArrays:
    """The cluster that the request shows."""
    if isinstance(columns, UpdateMetadataColumns):
        return _arrays_of_update_metadata(columns)
    return _arrays_of_leader_and_isr(columns)


def _arrays_of_update_metadata(columns: UpdateMetadataColumns) -> TableArrays:
    """The cluster that an UpdateMetadata shows. Partitions being deleted are left out, as in Kafka's MetadataCache.

    Brokers that are named as replicas and not listed as live are not live; no broker's epoch is known.
    """
    arrays = _arrays_of_states(columns, columns.leader != LEADER_DURING_DELETE)
    live = {broker.id: broker for broker in columns.live_brokers}
    ids = sorted(live.keys() | _named(columns))
    arrays["brokers"] = BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker in live for broker in ids], np.bool_),
        racks=[live[broker].rack if broker in live else None for broker in ids],
        endpoints=[_endpoints(live[broker]) if broker in live else () for broker in ids],
    )
    return arrays


def _arrays_of_leader_and_isr(columns: LeaderAndIsrColumns) -> TableArrays:
    """The part of the cluster that a LeaderAndIsr shows: the partitions of the broker it was sent to.

    It lists no live brokers; whoever leads or is in an ISR counts as live.
    """
    arrays = _arrays_of_states(columns, np.ones(len(columns.leader), np.bool_))
    leaders = {each.broker_id: Endpoint(each.port, each.host_name, "", NO_EPOCH) for each in columns.live_leaders}
    ids = sorted(leaders.keys() | _named(columns))
    live = leaders.keys() | _distinct(columns.isr[1])
    arrays["brokers"] = BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker in live for broker in ids], np.bool_),
        endpoints=[(leaders[broker],) if broker in leaders else () for broker in ids],
    )
    arrays["leader_recovery_states"] = columns.leader_recovery_state
    arrays["adding"] = _sparse(columns.adding_replicas)
    arrays["removing"] = _sparse(columns.removing_replicas)
    return arrays


def _arrays_of_states(columns: StateColumns, kept: Bools) -> TableArrays:
    topic_rows = np.repeat(np.arange(len(columns.topic_names)), np.diff(columns.topic_offsets))
    return TableArrays(
        replicas=padded(*columns.replicas)[kept],
        isr=padded(*columns.isr)[kept],
        leaders=columns.leader[kept],
        leader_epochs=columns.leader_epoch[kept],
        partition_epochs=columns.partition_epoch[kept],
        controller_epochs=columns.partition_controller_epoch[kept],
        topics=TopicTable(columns.topic_names, columns.topic_ids),
        topic_rows=topic_rows[kept],
        partition_indexes=columns.partition_index[kept],
    )


def _named(columns: StateColumns) -> set[int]:
    named = _distinct(columns.replicas[1]) | _distinct(columns.isr[1]) | _distinct(columns.leader)
    return {broker for broker in named if broker >= 0}


def _distinct(ids: Array) -> set[int]:
    return set(np.unique(ids).tolist())


def _endpoints(broker: BrokerFields) -> list[Endpoint]:
    if broker.endpoints:
        return [Endpoint(each.port, each.host, each.listener, each.security_protocol) for each in broker.endpoints]
    return [Endpoint(broker.v0_port, broker.v0_host, "PLAINTEXT", SECURITY_PROTOCOLS["PLAINTEXT"])]


def _sparse(ragged: Ragged) -> dict[int, list[int]]:
    offsets, values = ragged
    rows = np.flatnonzero(np.diff(offsets)).tolist()
    return {row: values[offsets[row] : offsets[row + 1]].tolist() for row in rows}
