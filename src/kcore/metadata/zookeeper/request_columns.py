"""Reads a decoded UpdateMetadata or LeaderAndIsr, which is in columns, as the arrays of a partition table."""

from typing import Any, Protocol

import numpy as np

from kcore.constants import LEADER_DURING_DELETE, NO_BROKER_ROW
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array, padded
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, BrokerTable, Endpoint
from kcore.metadata.table.table_arrays import TableArrays
from kcore.metadata.table.topic_table import TopicTable
from kcore.schema.structure import Message
from kcore.types import Bools, Uuid

_PLAINTEXT = SECURITY_PROTOCOLS["PLAINTEXT"]


class RequestColumns(Protocol):
    """A message in columns: each field is an attribute, such as `topic_states.partition_states.isr`.

    Lists have `offsets` and `values`, structs `row_offsets`; strings are iterable; a uuid is a row of 16 bytes.
    """

    @property
    def message(self) -> type[Message]: ...

    def __getattr__(self, name: str) -> Any: ...


def arrays_of_request(columns: RequestColumns) -> TableArrays:
    """The arrays of the cluster in the request. TableError for another message."""
    message = getattr(columns, "message", None)
    name = message.__name__ if isinstance(message, type) else type(columns).__name__
    if name == "UpdateMetadataRequest":
        return _arrays_of_update_metadata(columns)
    if name == "LeaderAndIsrRequest":
        return _arrays_of_leader_and_isr(columns)
    raise TableError(f"a table is made from an UpdateMetadataRequest or a LeaderAndIsrRequest, not from a {name}")


def _arrays_of_update_metadata(columns: RequestColumns) -> TableArrays:
    """The cluster in an UpdateMetadata, without partitions being deleted, as in Kafka's MetadataCache.

    Replicas that are not listed as live brokers are not live. The epochs of brokers are unknown.
    """
    states = columns.topic_states.partition_states
    brokers = columns.live_brokers
    endpoints = _endpoints(brokers)
    live = dict(zip(brokers.id.tolist(), zip(brokers.rack, endpoints, strict=True), strict=True))
    ids = sorted(live.keys() | _named(states))
    arrays = _arrays_of_states(columns, states.zk_version, states.leader != LEADER_DURING_DELETE)
    arrays["brokers"] = BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker in live for broker in ids], np.bool_),
        racks=[live[broker][0] or None if broker in live else None for broker in ids],  # Versions 0 and 1 decode as "".
        endpoints=[live[broker][1] if broker in live else () for broker in ids],
    )
    return arrays


def _arrays_of_leader_and_isr(columns: RequestColumns) -> TableArrays:
    """The partitions of the broker that receives a LeaderAndIsr.

    Leaders and ISR members count as live, because the request lists no other brokers.
    """
    states = columns.topic_states.partition_states
    leaders = columns.live_leaders
    named_leaders = zip(leaders.broker_id.tolist(), leaders.host_name, leaders.port.tolist(), strict=True)
    known = {broker: Endpoint(port, host, "PLAINTEXT", _PLAINTEXT) for broker, host, port in named_leaders}
    live = known.keys() | _distinct(states.isr.values)
    ids = sorted(live | _named(states))
    arrays = _arrays_of_states(columns, states.partition_epoch, np.ones(len(states.leader), np.bool_))
    arrays["brokers"] = BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker in live for broker in ids], np.bool_),
        endpoints=[(known[broker],) if broker in known else () for broker in ids],
    )
    arrays["leader_recovery_states"] = states.leader_recovery_state
    arrays["adding"] = _sparse(states.adding_replicas)
    arrays["removing"] = _sparse(states.removing_replicas)
    return arrays


def _arrays_of_states(columns: RequestColumns, partition_epochs: Array, kept: Bools) -> TableArrays:
    topics, states = columns.topic_states, columns.topic_states.partition_states
    # Before KIP-380 grouped topics, a request may have a topic several times; its partitions share a topic row.
    names = list(topics.topic_name)
    rows = {name: row for row, name in enumerate(dict.fromkeys(names))}
    ids = dict(zip(names, (Uuid(each.tobytes()) for each in topics.topic_id), strict=True))
    row_of_state = np.array([rows[name] for name in names], np.int32)
    return TableArrays(
        replicas=padded(states.replicas.offsets, states.replicas.values)[kept],
        isr=padded(states.isr.offsets, states.isr.values)[kept],
        leaders=states.leader[kept],
        leader_epochs=states.leader_epoch[kept],
        partition_epochs=partition_epochs[kept],
        controller_epochs=states.controller_epoch[kept],
        topics=TopicTable(list(rows), [ids[name] for name in rows]),
        topic_rows=np.repeat(row_of_state, np.diff(states.row_offsets))[kept],
        partition_indexes=states.partition_index[kept],
    )


def _named(states: Any) -> set[int]:
    named = _distinct(states.replicas.values) | _distinct(states.isr.values) | _distinct(states.leader)
    return named - {NO_BROKER_ROW, LEADER_DURING_DELETE}


def _distinct(ids: Array) -> set[int]:
    return set(np.unique(ids).tolist())


def _endpoints(brokers: Any) -> list[list[Endpoint]]:
    """The listeners of each broker (UpdateMetadataRequest.liveBrokers).

    Before version 3 a listener has the name of its protocol, and version 0 has one plaintext listener.
    """
    each = brokers.endpoints
    listeners = zip(each.port.tolist(), each.host, each.listener, each.security_protocol.tolist(), strict=True)
    flat = [Endpoint(port, host, name or _protocol_name(id_), id_) for port, host, name, id_ in listeners]
    first = zip(brokers.v0_port.tolist(), brokers.v0_host, strict=True)
    bounds = zip(each.row_offsets[:-1].tolist(), each.row_offsets[1:].tolist(), first, strict=True)
    return [flat[start:end] or [Endpoint(port, host, "PLAINTEXT", _PLAINTEXT)] for start, end, (port, host) in bounds]


def _protocol_name(protocol: int) -> str:
    for name, known in SECURITY_PROTOCOLS.items():
        if known == protocol:
            return name
    raise TableError(f"unknown security protocol {protocol}")


def _sparse(lists: Any) -> dict[int, list[int]]:
    rows = np.flatnonzero(np.diff(lists.offsets)).tolist()
    return {row: lists[row].tolist() for row in rows}
