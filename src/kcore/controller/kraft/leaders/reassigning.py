"""ListPartitionReassignments: what is on the move (KIP-455).

Source: ControllerApis.handleListPartitionReassignments, ReplicationControlManager.listPartitionReassignments.
"""

from collections.abc import Iterable, Sequence

from kcore.controller.kraft.authorization import DESCRIBE, is_authorized, refusal
from kcore.controller.kraft.context import ControllerContext, RequestInfo
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.error_responses import refused
from kcore.controller.kraft.leaders.named import topic_rows_by_name
from kcore.metadata.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.schema.partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def on_list_partition_reassignments(
    context: ControllerContext, request: ListPartitionReassignmentsRequest, info: RequestInfo
) -> Decision:
    """The cost is that of what moves, or of what the request names."""
    if not is_authorized(context, info, DESCRIBE):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, DESCRIBE)))
    table = context.image.table
    topics = _all_moving(table) if request.topics is None else _these(table, request.topics)
    return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _all_moving(table: PartitionTable) -> list[OngoingTopicReassignment]:
    """Partitions in the order in which they began to move, as far as the table knows it."""
    by_topic: dict[int, list[int]] = {}
    for row in dict.fromkeys((*table.adding, *table.removing)):
        by_topic.setdefault(int(table.topic_row__p[row]), []).append(row)
    return [_topic(table, table.topics.names[topic_row], rows) for topic_row, rows in by_topic.items()]


def _these(table: PartitionTable, topics: Sequence[ListPartitionReassignmentsTopics]) -> list[OngoingTopicReassignment]:
    found: list[OngoingTopicReassignment] = []
    for topic, topic_row in zip(topics, topic_rows_by_name(table, [each.name for each in topics]), strict=True):
        rows = [table.row_at(topic_row, index) for index in topic.partition_indexes]
        moving = [row for row in rows if row in table.adding or row in table.removing]
        if moving:
            found.append(_topic(table, topic.name, moving))
    return found


def _topic(table: PartitionTable, name: str, rows: Iterable[int]) -> OngoingTopicReassignment:
    partitions = []
    for row in rows:
        state = table.state(row)
        partitions.append(
            OngoingPartitionReassignment(
                partition_index=state.partition,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
        )
    return OngoingTopicReassignment(name=name, partitions=partitions)
