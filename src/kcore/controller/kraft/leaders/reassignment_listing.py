"""ListPartitionReassignments: the reassignments in progress (KIP-455).

Source: ControllerApis.handleListPartitionReassignments, ReplicationControlManager.listPartitionReassignments.
"""

from collections.abc import Generator, Sequence
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.controller.kraft.authorization import is_authorized
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, pause_if_many
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.named import rows_named, topic_rows_by_name
from kcore.controller.rules.authorization import refusal
from kcore.controller.rules.error_responses import refused
from kcore.metadata.acl_codes import DESCRIBE
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.schema.partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kcore.types import Int32s

_LISTED_AT_ONCE: Final = 4 * AT_ONCE
_Found: TypeAlias = Generator[None, None, list[OngoingTopicReassignment]]


def on_list_partition_reassignments(
    context: ControllerContext, request: ListPartitionReassignmentsRequest, info: RequestInfo
) -> Steps:
    """The reassignments of the named partitions, or all. The cost grows with the named or moving partitions."""
    if not is_authorized(context, info, DESCRIBE):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, DESCRIBE)))
    table = context.image.table
    topics = yield from (_all_moving(table) if request.topics is None else _these(table, request.topics))
    return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _all_moving(table: PartitionTable) -> _Found:
    """Topics and partitions in the order in which the table lists their reassignments."""
    rows = np.fromiter(dict.fromkeys((*table.adding, *table.removing)), np.int32)
    by_topic: dict[int, list[OngoingPartitionReassignment]] = {}
    ongoing = yield from _ongoing(table, rows)
    for topic_row, moving in zip(table.topic_row__p[rows].tolist(), ongoing, strict=True):
        by_topic.setdefault(topic_row, []).append(moving)
    names = table.topics.names
    return [OngoingTopicReassignment(name=names[row], partitions=each) for row, each in by_topic.items()]


def _these(table: PartitionTable, topics: Sequence[ListPartitionReassignmentsTopics]) -> _Found:
    topic_rows = topic_rows_by_name(table, [each.name for each in topics])
    sizes = [len(each.partition_indexes) for each in topics]
    rows = rows_named(table, topic_rows, sizes, [index for each in topics for index in each.partition_indexes])
    is_moving = [row in table.adding or row in table.removing for row in rows.tolist()]
    yield from pause_if_many(len(rows))
    ongoing, flags = iter((yield from _ongoing(table, rows[is_moving]))), iter(is_moving)
    found = [
        OngoingTopicReassignment(name=topic.name, partitions=list(islice(ongoing, sum(islice(flags, size)))))
        for topic, size in zip(topics, sizes, strict=True)
    ]
    return [each for each in found if each.partitions]


def _ongoing(table: PartitionTable, rows: Int32s) -> Generator[None, None, list[OngoingPartitionReassignment]]:
    ids = np.append(table.brokers.ids, np.int32(NO_BROKER_ROW)).tolist()
    found: list[OngoingPartitionReassignment] = []
    for begin in range(0, len(rows), _LISTED_AT_ONCE):
        part = rows[begin : begin + _LISTED_AT_ONCE]
        columns = part.tolist(), table.partition_index__p[part].tolist(), table.replicas__ps[part].tolist()
        found += [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=[ids[each] for each in replicas if each != NO_BROKER_ROW],
                adding_replicas=[ids[each] for each in table.adding.get(row, ())],
                removing_replicas=[ids[each] for each in table.removing.get(row, ())],
            )
            for row, index, replicas in zip(*columns, strict=True)
        ]
        yield from pause_if_many(len(part))
    return found
