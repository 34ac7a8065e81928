"""DescribeTopicPartitions of a KRaft broker: topics page by page, with eligible leader replicas (KIP-966).

Source: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse of 4.3.1.
"""

from collections.abc import Collection, Sequence
from typing import Final

from kcore.constants import INTERNAL_TOPICS
from kcore.metadata.acl_codes import TOPIC
from kcore.metadata.topic_names import reason_invalid
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kcore.server.cluster_view import TOPIC_OPERATIONS, ClusterView
from kcore.server.security.rights import Rights
from kcore.types import Int32s

MOST: Final = 2000
"""The limit of partitions in a page: the default of Kafka's max.request.partition.size.limit."""


def describe_topic_partitions(
    view: ClusterView, request: DescribeTopicPartitionsRequest, rights: Rights | None = None
) -> DescribeTopicPartitionsResponse:
    """A page of topics in the order of their names, from the cursor on, with the cursor of the next page.

    `rights`: a requested topic without the right DESCRIBE is refused; other topics are left out. None: no checks.
    """
    cursor = request.cursor or Cursor(topic_name="", partition_index=0)
    asked = [each.name for each in request.topics]
    if cursor.partition_index < 0 or (asked and request.cursor and cursor.topic_name not in asked):
        return _refused(asked)
    named = {*(asked or filter(None, view.table.topics.names))}
    names = {each for each in named if rights is None or rights.may_describe_topic(each)}
    response = _page(view, request, cursor, names)
    if rights is not None:
        for topic in response.topics:
            topic.topic_authorized_operations = rights.operations(topic.topic_authorized_operations, TOPIC, topic.name)
    unseen = sorted(each for each in named - names if each >= cursor.topic_name) if asked else ()
    response.topics += [
        DescribeTopicPartitionsResponseTopic(name=each, error_code=Errors.TOPIC_AUTHORIZATION_FAILED) for each in unseen
    ]
    return response


def _page(
    view: ClusterView, request: DescribeTopicPartitionsRequest, cursor: Cursor, names: Collection[str]
) -> DescribeTopicPartitionsResponse:
    """The page with these topics."""
    response, asked = DescribeTopicPartitionsResponse(), bool(request.topics)
    left = max(1, min(MOST, request.response_partition_limit))
    for name in sorted(each for each in names if each >= cursor.topic_name):
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = _topic(view, name)
        if topic.error_code:
            if asked:
                response.topics.append(topic)
            continue
        begin = cursor.partition_index if name == cursor.topic_name else 0
        rows = view.table.rows_of_topic(name)
        topic.partitions = _partitions(view, rows[begin : begin + left])
        response.topics.append(topic)
        if len(rows) > begin + left:
            response.next_cursor = Cursor(topic_name=name, partition_index=begin + left)
            break
        left -= len(topic.partitions)
    return response


def _refused(asked: Sequence[str]) -> DescribeTopicPartitionsResponse:
    """The response to an invalid cursor: its topic was not requested, or its partition is negative."""
    error = Errors.INVALID_REQUEST
    topics = [DescribeTopicPartitionsResponseTopic(name=name, error_code=error) for name in asked]
    return DescribeTopicPartitionsResponse(topics=topics)


def _topic(view: ClusterView, name: str) -> DescribeTopicPartitionsResponseTopic:
    """The topic's result without partitions; with an error if the topic does not exist."""
    topics = view.table.topics
    topic = DescribeTopicPartitionsResponseTopic(
        name=name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=TOPIC_OPERATIONS
    )
    if name in topics:
        topic.topic_id = topics.ids[topics.row(name)]
    else:
        is_invalid = reason_invalid(name) is not None
        topic.error_code = Errors.INVALID_TOPIC_EXCEPTION if is_invalid else Errors.UNKNOWN_TOPIC_OR_PARTITION
    return topic


def _partitions(view: ClusterView, rows: Int32s) -> list[DescribeTopicPartitionsResponsePartition]:
    """The partitions as in Metadata, without errors, and with their eligible leader replicas."""
    registered = map(view.table.registration, rows.tolist())
    return [
        DescribeTopicPartitionsResponsePartition(
            partition_index=each.partition_index,
            leader_id=each.leader_id,
            leader_epoch=each.leader_epoch,
            replica_nodes=each.replica_nodes,
            isr_nodes=each.isr_nodes,
            offline_replicas=each.offline_replicas,
            eligible_leader_replicas=[*known.elr],
            last_known_elr=[*known.last_known_elr],
        )
        for each, known in zip(view.partitions(rows), registered, strict=True)
    ]
