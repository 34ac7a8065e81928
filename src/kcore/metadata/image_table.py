"""From an image's parts to a PartitionTable."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kcore.constants import NO_LEADER, UNKNOWN_BROKER_EPOCH
from kcore.metadata.arrays import Array
from kcore.metadata.broker_table import BrokerTable, Endpoint
from kcore.metadata.image_partitions import PartitionStates
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.table_arrays import BrokerLists
from kcore.metadata.topics import TopicTable
from kcore.types import Uuid

if TYPE_CHECKING:
    from kcore.metadata.image import BrokerRegistration


def table_of_image(
    partitions: PartitionStates,
    topics: Sequence[tuple[Uuid, tuple[str, int]]],
    registrations: Sequence["BrokerRegistration"],
) -> PartitionTable:
    """The table of the partitions of `topics` (id, name and number), by topic as given and partition index."""
    rows = partitions.living_rows()
    replicas, isr = partitions.replicas.padded(rows), partitions.isr.padded(rows)
    leaders = np.array(partitions.leader, np.int32)[rows]
    # Numbers only rise, so the topics that are left have theirs in order.
    numbers = np.array([number for _, (_, number) in topics], np.int32)
    topic_rows = np.searchsorted(numbers, np.array(partitions.topic, np.int32)[rows])
    places = np.full(len(partitions.topic), -1, np.int64)
    places[rows] = np.arange(len(rows))
    return PartitionTable.from_arrays(
        replicas,
        isr=isr,
        leaders=leaders,
        leader_epochs=np.array(partitions.leader_epoch, np.int32)[rows],
        partition_epochs=np.array(partitions.partition_epoch, np.int32)[rows],
        leader_recovery_states=np.array(partitions.recovery, np.int8)[rows],
        topics=TopicTable([name for _, (name, _) in topics], [topic_id for topic_id, _ in topics]),
        topic_rows=topic_rows,
        partition_indexes=np.array(partitions.index, np.int32)[rows],
        brokers=_brokers(registrations, replicas, isr, leaders),
        adding=_moves(partitions.adding, places),
        removing=_moves(partitions.removing, places),
    )


def _moves(moves: dict[int, tuple[int, ...]], places: Array) -> BrokerLists:
    return {int(places[row]): brokers for row, brokers in moves.items()}


def _brokers(registrations: Sequence["BrokerRegistration"], *named: Array) -> BrokerTable:
    """All brokers that registered or are named, by id."""
    registered = {broker.id: broker for broker in registrations}
    found = {int(broker) for each in named for broker in np.unique(each)} | registered.keys()
    ids = sorted(found - {NO_LEADER})
    known = [registered.get(broker) for broker in ids]
    return BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker is not None and not broker.fenced for broker in known], np.bool_),
        shutting_down=np.array([broker is not None and broker.in_controlled_shutdown for broker in known], np.bool_),
        epochs=np.array([UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch for broker in known], np.int64),
        racks=[None if broker is None else broker.rack for broker in known],
        endpoints=[
            ()
            if broker is None
            else tuple(Endpoint(each.port, each.host, each.name, each.security_protocol) for each in broker.listeners)
            for broker in known
        ],
    )
