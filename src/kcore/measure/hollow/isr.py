"""Changes ISRs: hollow brokers that lead partitions send AlterPartition as ReplicaManager would."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.errors import TargetError
from kcore.measure.hollow.fleet import HollowBroker
from kcore.measure.hollow.quorum_client import Quorum
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.schema import alter_partition as schema
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.types import Int32s

_AT_ONCE: Final = 5_000  # The most partitions in one request.
_STALE: Final = (  # Not failures: the leader gets newer state, and asks again if its ISR still differs.
    Errors.INVALID_UPDATE_VERSION,
    Errors.FENCED_LEADER_EPOCH,
    Errors.NEW_LEADER_ELECTED,
    Errors.INELIGIBLE_REPLICA,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.STALE_BROKER_EPOCH,
)


def lacking(table: PartitionTable, broker_ids: Collection[int]) -> Int32s:
    """The rows of partitions that have a leader, and one of these brokers as a replica outside the ISR."""
    rows = table.brokers.rows(list(broker_ids))
    among = np.zeros(len(table.brokers.ids) + 1, np.bool_)
    among[rows] = True
    replicas, isr = table.replicas__ps, table.isr__pi
    wanted = among[replicas].sum(axis=1)
    there = among[isr].sum(axis=1)
    found: Int32s = np.flatnonzero((there < wanted) & (table.leader__p != NO_BROKER_ROW)).astype(np.int32)
    return found


async def alter(
    quorum: Quorum, table: PartitionTable, rows: Int32s, isrs: Sequence[Sequence[int]], brokers: dict[int, HollowBroker]
) -> int:
    """Each leader asks the controller for the new ISRs of its partitions; returns how many changes were refused.

    A refusal counts if the partition has changed meanwhile; any other refusal raises a TargetError.
    """
    leaders = table.brokers.ids[table.leader__p[rows]].tolist()
    by_leader: dict[int, list[int]] = defaultdict(list)
    for at, leader in enumerate(leaders):
        by_leader[leader].append(at)
    requests = [
        request_of(table, rows, isrs, places[first : first + _AT_ONCE], brokers, leader)
        for leader, places in by_leader.items()
        for first in range(0, len(places), _AT_ONCE)
    ]
    return sum(await asyncio.gather(*(_ask(quorum, request) for request in requests)))


def request_of(
    table: PartitionTable,
    rows: Int32s,
    isrs: Sequence[Sequence[int]],
    places: Sequence[int],
    brokers: dict[int, HollowBroker],
    leader: int,
) -> AlterPartitionRequest:
    """`leader`'s request for new ISRs of some partitions: `places` are their indexes in `rows` and `isrs`."""
    topics: dict[int, schema.AlterPartitionRequestTopicData] = {}
    for at in places:
        row = int(rows[at])
        number = int(table.topic_row__p[row])
        topic = topics.setdefault(
            number, schema.AlterPartitionRequestTopicData(topic_id=table.topics.ids[number], partitions=[])
        )
        topic.partitions.append(
            schema.AlterPartitionRequestPartitionData(
                partition_index=int(table.partition_index__p[row]),
                leader_epoch=int(table.leader_epoch__p[row]),
                partition_epoch=int(table.partition_epoch__p[row]),
                leader_recovery_state=int(table.leader_recovery_state__p[row]),
                new_isr_with_epochs=[
                    schema.BrokerState(broker_id=each, broker_epoch=brokers[each].epoch if each in brokers else -1)
                    for each in isrs[at]
                ],
            )
        )
    return AlterPartitionRequest(broker_id=leader, broker_epoch=brokers[leader].epoch, topics=[*topics.values()])


async def _ask(quorum: Quorum, request: AlterPartitionRequest) -> int:
    answer = await quorum.ask(request)
    codes = [answer.error_code, *(each.error_code for topic in answer.topics for each in topic.partitions)]
    if wrong := {Errors.of(code).name for code in codes if code and code not in _STALE}:
        raise TargetError(f"AlterPartition was refused: {', '.join(sorted(wrong))}")
    return sum(code != 0 for code in codes)
