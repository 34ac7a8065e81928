"""Refuses requests to coordinators of groups and transactions, because kcore's broker coordinates neither.

Kafka's controller may place partitions of __consumer_offsets and __transaction_state on this broker. The leader of a
partition is the coordinator of the groups or transactions that hash to it. This broker answers their requests with
UNSUPPORTED_VERSION, as 3.9.1 answers requests of KIP-848's groups while these are disabled. Clients raise this error at
once; after COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR they would retry for ever. A broker that verifies a transaction
(KIP-890) passes the error to the producer. If another broker leads the partition, the error is NOT_COORDINATOR, so
that clients find that leader.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from kcore import schema
from kcore.broker.replicas.replica import Key, Role
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.constants import INTERNAL_TOPICS
from kcore.protocol_errors import Errors
from kcore.schema.committed_offsets import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kcore.schema.consumer_groups import DescribedGroup as DescribedConsumerGroup
from kcore.schema.group_listing import DeletableGroupResult, DescribedGroup
from kcore.schema.producers import DescribeTransactionsResponseTransactionState
from kcore.schema.structure import Message, Struct
from kcore.schema.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcore.server.broker.broker_authorization import BrokerAuthorization
from kcore.server.broker.group_coordinators import GROUPS, TRANSACTIONS, coordinator_row

# The versions of 3.9.1.
APIS: Final = {
    "JoinGroup": (0, 9),
    "SyncGroup": (0, 5),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "OffsetCommit": (0, 9),
    "OffsetFetch": (0, 9),
    "OffsetDelete": (0, 0),
    "DescribeGroups": (0, 5),
    "DeleteGroups": (0, 2),
    "ConsumerGroupHeartbeat": (0, 0),
    "ConsumerGroupDescribe": (0, 0),
    "AddPartitionsToTxn": (0, 5),
    "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 4),
    "TxnOffsetCommit": (0, 4),
    "DescribeTransactions": (0, 0),
}
ErrorOf: TypeAlias = Callable[[str, int], Errors]  # The error for an id of a group or transaction, and its key type.


def refusal_of(manager: ReplicaManager, key: str, key_type: int) -> Errors:
    """The error for a request about this group or transaction."""
    row = coordinator_row(manager.cluster.table, key, key_type)
    is_ours = row is not None and manager.cluster.table.state(row).leader == manager.broker_id
    return Errors.UNSUPPORTED_VERSION if is_ours else Errors.NOT_COORDINATOR


def led_partitions(manager: ReplicaManager) -> frozenset[Key]:
    """The partitions of internal topics that this broker leads: their groups and transactions have no coordinator."""
    led = (key for key, each in manager.partitions.items() if each.role is Role.LEADER)
    return frozenset(key for key in led if key[0] in INTERNAL_TOPICS)


def refuse(
    manager: ReplicaManager, request: Message, version: int, authorization: BrokerAuthorization | None = None
) -> Message:
    """The response to a request to a coordinator; `authorization`: None if every client may do everything."""

    def error_of(key: str, key_type: int) -> Errors:
        missing = None if authorization is None else authorization.coordinator_error(request, version, key, key_type)
        return missing or refusal_of(manager, key, key_type)

    return _REFUSALS[type(request)](request, version, error_of)


def _of_commit(
    response: type[Message], topic_result: type[Struct], partition_result: type[Struct]
) -> Callable[[Any, int, ErrorOf], Message]:
    """A function that refuses a commit of offsets, with the error in each partition."""

    def refused(request: Any, version: int, error_of: ErrorOf) -> Message:
        error = error_of(request.group_id, GROUPS)
        topics = [
            topic_result(
                name=topic.name,
                partitions=[
                    partition_result(partition_index=each.partition_index, error_code=error)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response(topics=topics)

    return refused


def _offset_fetch(request: schema.OffsetFetchRequest, version: int, error_of: ErrorOf) -> Message:
    """The error is in each group from version 8 on, at the top in 2 to 7, and in each partition in 0 and 1."""
    if version >= 8:
        ids = [each.group_id for each in request.groups]
        groups = [OffsetFetchResponseGroup(group_id=each, topics=[], error_code=error_of(each, GROUPS)) for each in ids]
        return schema.OffsetFetchResponse(groups=groups)
    error = error_of(request.group_id, GROUPS)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
                for index in topic.partition_indexes
            ],
        )
        for topic in (request.topics or () if version < 2 else ())
    ]
    return schema.OffsetFetchResponse(topics=topics, error_code=error)


def _add_partitions_to_txn(request: schema.AddPartitionsToTxnRequest, version: int, error_of: ErrorOf) -> Message:
    if version < 4:
        error = error_of(request.v3_and_below_transactional_id, TRANSACTIONS)
        results = _not_added(request.v3_and_below_topics, error)
        return schema.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    by_transaction = [
        AddPartitionsToTxnResult(
            transactional_id=each.transactional_id,
            topic_results=_not_added(each.topics, error_of(each.transactional_id, TRANSACTIONS)),
        )
        for each in request.transactions
    ]
    return schema.AddPartitionsToTxnResponse(results_by_transaction=by_transaction)


def _not_added(topics: list[AddPartitionsToTxnTopic], error: Errors) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _of_groups(
    response: type[Message], field: str, result: type[Struct], ids: Callable[[Any], list[str]]
) -> Callable[[Any, int, ErrorOf], Message]:
    """A function that refuses each group of a request; `field` is the response's list of results."""

    def refused(request: Any, version: int, error_of: ErrorOf) -> Message:
        each = [result(group_id=group_id, error_code=error_of(group_id, GROUPS)) for group_id in ids(request)]
        return response(**{field: each})

    return refused


def _describe_transactions(request: schema.DescribeTransactionsRequest, version: int, error_of: ErrorOf) -> Message:
    states = [
        DescribeTransactionsResponseTransactionState(transactional_id=each, error_code=error_of(each, TRANSACTIONS))
        for each in request.transactional_ids
    ]
    return schema.DescribeTransactionsResponse(transaction_states=states)


def _of_group(response: Callable[..., Message]) -> Callable[[Any, int, ErrorOf], Message]:
    return lambda request, version, error_of: response(error_code=error_of(request.group_id, GROUPS))


def _of_transaction(response: type[Message]) -> Callable[[Any, int, ErrorOf], Message]:
    return lambda request, version, error_of: response(error_code=error_of(request.transactional_id, TRANSACTIONS))


_REFUSALS: Final[dict[type[Message], Callable[[Any, int, ErrorOf], Message]]] = {
    schema.JoinGroupRequest: _of_group(partial(schema.JoinGroupResponse, protocol_name="")),
    schema.SyncGroupRequest: _of_group(schema.SyncGroupResponse),
    schema.HeartbeatRequest: _of_group(schema.HeartbeatResponse),
    schema.LeaveGroupRequest: _of_group(schema.LeaveGroupResponse),
    schema.OffsetCommitRequest: _of_commit(
        schema.OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition
    ),
    schema.OffsetFetchRequest: _offset_fetch,
    schema.OffsetDeleteRequest: _of_group(schema.OffsetDeleteResponse),
    schema.DescribeGroupsRequest: _of_groups(
        schema.DescribeGroupsResponse, "groups", DescribedGroup, lambda each: each.groups
    ),
    schema.DeleteGroupsRequest: _of_groups(
        schema.DeleteGroupsResponse, "results", DeletableGroupResult, lambda each: each.groups_names
    ),
    schema.ConsumerGroupHeartbeatRequest: _of_group(schema.ConsumerGroupHeartbeatResponse),
    schema.ConsumerGroupDescribeRequest: _of_groups(
        schema.ConsumerGroupDescribeResponse, "groups", DescribedConsumerGroup, lambda each: each.group_ids
    ),
    schema.AddPartitionsToTxnRequest: _add_partitions_to_txn,
    schema.AddOffsetsToTxnRequest: _of_transaction(schema.AddOffsetsToTxnResponse),
    schema.EndTxnRequest: _of_transaction(schema.EndTxnResponse),
    schema.TxnOffsetCommitRequest: _of_commit(
        schema.TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
    ),
    schema.DescribeTransactionsRequest: _describe_transactions,
}
