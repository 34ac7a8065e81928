"""Authorizes requests to a broker: removes refused topics from requests, and adds their errors to responses.

The active controller authorizes the requests that it answers, because an envelope has the client's principal. Errors
and their fields are those of KafkaApis of 4.3.1 and 3.9.1. Requests to coordinators are refused in any case
(`coordination.py`); the error of a missing right comes first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kcore import schema
from kcore.broker.replicas.fetch_sessions import replica_of
from kcore.broker.replicas.log_validator import has_transactional_records
from kcore.metadata.acl_codes import (
    ALTER,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kcore.net.versions import api_name, response_of
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.cluster_metadata import MetadataResponseTopic
from kcore.schema.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderTopicResult,
)
from kcore.schema.log_dirs import AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult
from kcore.schema.produce import PartitionProduceResponse, TopicProduceResponse
from kcore.schema.producers import PartitionResponse
from kcore.schema.producers import TopicResponse as ProducersTopicResponse
from kcore.schema.scram import DescribeUserScramCredentialsResult
from kcore.schema.structure import Message, Struct
from kcore.schema.topics import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from kcore.schema.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)
from kcore.server.broker.group_coordinators import TRANSACTIONS
from kcore.server.cluster_view import TopicFilter
from kcore.server.security.rights import OF_THE_CLUSTER, OF_TOPIC, Checked, Rights, refusal_of_producer

NO_TOPIC: Final = Errors.TOPIC_AUTHORIZATION_FAILED
NO_CLUSTER: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION: Final = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_GROUP: Final = Errors.GROUP_AUTHORIZATION_FAILED
OF_BROKERS_SINCE: Final = 4  # The first version of AddPartitionsToTxn that only brokers may send.
_DESCRIBE_TRANSACTIONS: Final = (schema.DescribeTransactionsRequest, schema.FindCoordinatorRequest)
_OF_GROUPS: Final[Mapping[type[Message], int]] = {  # The right by request; other requests: DESCRIBE.
    schema.JoinGroupRequest: READ,
    schema.SyncGroupRequest: READ,
    schema.HeartbeatRequest: READ,
    schema.LeaveGroupRequest: READ,
    schema.ConsumerGroupHeartbeatRequest: READ,
    schema.OffsetCommitRequest: READ,
    schema.OffsetDeleteRequest: DELETE,
    schema.DeleteGroupsRequest: DELETE,
}


class BrokerAuthorization(Rights):
    """The rights of the client that sent one request."""

    def why_refused(self, operation: int) -> str:
        """The error message for a request that lacks this right to the cluster."""
        return refusal(self.asking, operation)

    def check(self, request: Message, version: int) -> Checked | Message:
        """The allowed part of the request; or the response, if the whole request is refused."""
        check = CHECKS.get(type(request))
        return Checked(request) if check is None else check(self, request, version)

    def may_read(self, name: str) -> bool:
        """Whether a consumer may fetch from the topic."""
        return self._of_topic(READ, name)

    def coordinator_error(self, request: Message, version: int, key: str, key_type: int) -> Errors | None:
        """The error if the request lacks a right to the group or transaction that its coordinator would require."""
        if isinstance(request, schema.TxnOffsetCommitRequest | schema.AddOffsetsToTxnRequest):
            return self._transaction_error(WRITE, request.transactional_id) or self._group_error(READ, request.group_id)
        if isinstance(request, schema.AddPartitionsToTxnRequest) and version >= OF_BROKERS_SINCE:
            return None
        if key_type == TRANSACTIONS:
            return self._transaction_error(DESCRIBE if isinstance(request, _DESCRIBE_TRANSACTIONS) else WRITE, key)
        return self._group_error(_OF_GROUPS.get(type(request), DESCRIBE), key)

    def _group_error(self, operation: int, group_id: str) -> Errors | None:
        return None if self.allows(operation, GROUP, group_id) else NO_GROUP

    def _transaction_error(self, operation: int, transactional_id: str) -> Errors | None:
        return None if self.allows(operation, TRANSACTIONAL_ID, transactional_id) else NO_TRANSACTION

    def topic_filter_for_creation(self, request: schema.MetadataRequest, version: int, by_id: bool) -> TopicFilter:
        """As `topic_filter`; also refuses missing topics if the client lacks CREATE. For auto.create.topics.enable."""
        visible = self.topic_filter(request, version, by_id)
        if not request.allow_auto_topic_creation or self.allows(CREATE):
            return visible

        def hidden(topic: MetadataResponseTopic) -> MetadataResponseTopic | None:
            found = visible(topic)
            is_missing = found is not None and found.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
            if found is not None and is_missing and found.name is not None and not self._of_topic(CREATE, found.name):
                found.error_code = NO_TOPIC
            return found

        return hidden


class ZkBrokerAuthorization(BrokerAuthorization):
    """The rights in ZooKeeper mode, with the messages of 3.9.1 (AuthHelper.authorizeClusterOperation)."""

    has_group_settings = False

    def why_refused(self, operation: int) -> str:
        return f"Principal {self.asking.principal} is not authorized."


def fetch_right(
    authorization: BrokerAuthorization | None, request: schema.FetchRequest, version: int
) -> Callable[[str], bool] | None:
    """A function that says whether the sender may fetch a topic; None: all topics. Followers need CLUSTER_ACTION."""
    if authorization is None:
        return None
    if replica_of(request, version)[0] >= 0:
        return None if authorization.allows(CLUSTER_ACTION) else lambda name: False
    return authorization.may_read


# Checks by request. Each returns the allowed part of the request, or the response if the whole request is refused.


def _split(
    rights: BrokerAuthorization, topics: Sequence[Any], operation: int, name: Callable[[Any], str]
) -> tuple[list[Any], list[Any]]:
    """The allowed topics, and the refused ones."""
    allowed = {each for each in {name(topic) for topic in topics} if rights.allows(operation, TOPIC, each)}
    kept = [topic for topic in topics if name(topic) in allowed]
    return kept, [topic for topic in topics if name(topic) not in allowed]


def _topics(
    rights: BrokerAuthorization,
    request: Any,
    operation: int,
    refused: Callable[[Any], Any],
    name: Callable[[Any], str] = lambda topic: topic.name,
) -> Checked:
    """Keeps the topics to which the sender has the right; `refused` makes the results of the others."""
    kept, refused_topics = _split(rights, request.topics, operation, name)
    rows = [refused(topic) for topic in refused_topics]
    request.topics = kept
    return Checked(request, not kept, lambda response: response.topics.extend(rows))


def _produce(rights: BrokerAuthorization, request: schema.ProduceRequest, version: int) -> Checked | Message:
    """Requires WRITE for each topic, and for the transactional id of transactional batches."""
    batches = [each.records for topic in request.topic_data for each in topic.partition_data if each.records]
    own = request.transactional_id
    if _are_transactional(batches) and (own is None or not rights.allows(WRITE, TRANSACTIONAL_ID, own)):
        return schema.ProduceResponse(responses=[_not_written(each, NO_TRANSACTION) for each in request.topic_data])
    kept, refused_topics = _split(rights, request.topic_data, WRITE, lambda topic: topic.name)
    rows = [_not_written(each, NO_TOPIC) for each in refused_topics]
    request.topic_data = kept
    return Checked(request, not kept, lambda response: response.responses.extend(rows))


def _offset_for_leader_epoch(
    rights: BrokerAuthorization, request: schema.OffsetForLeaderEpochRequest, _: int
) -> Checked:
    """Brokers need CLUSTER_ACTION; consumers, since KIP-320, need DESCRIBE for each topic."""
    if rights.allows(CLUSTER_ACTION):
        return Checked(request)
    return _topics(rights, request, DESCRIBE, _no_offset, lambda topic: topic.topic)


def _write_txn_markers(
    rights: BrokerAuthorization, request: schema.WriteTxnMarkersRequest, version: int
) -> Checked | Message:
    """Brokers need CLUSTER_ACTION; administrators who abort a transaction need ALTER."""
    if rights.allows(ALTER) or rights.allows(CLUSTER_ACTION):
        return Checked(request)
    return schema.WriteTxnMarkersResponse(markers=[_not_marked(each) for each in request.markers])


def _add_partitions_to_txn(
    rights: BrokerAuthorization, request: schema.AddPartitionsToTxnRequest, version: int
) -> Checked | Message:
    """Only brokers may send version 4 and newer ones."""
    if version < OF_BROKERS_SINCE or rights.allows(CLUSTER_ACTION):
        return Checked(request)
    return schema.AddPartitionsToTxnResponse(error_code=NO_CLUSTER)


def _describe_log_dirs(
    rights: BrokerAuthorization, request: schema.DescribeLogDirsRequest, version: int
) -> Checked | Message:
    return Checked(request) if rights.allows(DESCRIBE) else response_of(type(request))(error_code=NO_CLUSTER)


def _alter_replica_log_dirs(
    rights: BrokerAuthorization, request: schema.AlterReplicaLogDirsRequest, version: int
) -> Checked | Message:
    if rights.allows(ALTER):
        return Checked(request)
    rows = [
        AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=_rows(AlterReplicaLogDirPartitionResult, topic.partitions, NO_CLUSTER),
        )
        for directory in request.dirs
        for topic in directory.topics
    ]
    return schema.AlterReplicaLogDirsResponse(results=rows)


def _of_the_cluster(rights: BrokerAuthorization, request: Message, version: int) -> Checked | Message:
    """Refuses the whole request with Kafka's message if the sender lacks the right to the cluster."""
    operation = OF_THE_CLUSTER[api_name(type(request))]
    return Checked(request) if rights.allows(operation) else refused(request, NO_CLUSTER, rights.why_refused(operation))


def _describe_scram(
    rights: BrokerAuthorization, request: schema.DescribeUserScramCredentialsRequest, version: int
) -> Checked | Message:
    if rights.allows(DESCRIBE):
        return Checked(request)
    rows = [
        DescribeUserScramCredentialsResult(user="", error_code=NO_CLUSTER, error_message=None)
        for _ in request.users or ()
    ]
    return schema.DescribeUserScramCredentialsResponse(error_code=NO_CLUSTER, error_message=None, results=rows)


def _are_transactional(batches: Sequence[Any]) -> bool:
    try:
        return has_transactional_records(batches)
    except ApiException:  # `on_produce` refuses the malformed request.
        return False


def _not_written(topic: Any, error: Errors) -> TopicProduceResponse:
    rows = [
        PartitionProduceResponse(index=each.index, error_code=error, base_offset=-1) for each in topic.partition_data
    ]
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows)


def _rows(result: Callable[..., Struct], indexes: Iterable[int], error: Errors = NO_TOPIC) -> list[Any]:
    """A result with the error for each partition index."""
    return [result(partition_index=index, error_code=error) for index in indexes]


def _not_listed(topic: Any) -> ListOffsetsTopicResponse:
    indexes = (each.partition_index for each in topic.partitions)
    return ListOffsetsTopicResponse(name=topic.name, partitions=_rows(ListOffsetsPartitionResponse, indexes))


def _no_offset(topic: Any) -> OffsetForLeaderTopicResult:
    rows = [EpochEndOffset(partition=each.partition, error_code=NO_TOPIC) for each in topic.partitions]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows)


def _not_deleted(topic: Any) -> DeleteRecordsTopicResult:
    indexes = (each.partition_index for each in topic.partitions)
    rows = _rows(partial(DeleteRecordsPartitionResult, low_watermark=-1), indexes)
    return DeleteRecordsTopicResult(name=topic.name, partitions=rows)


def _producers_hidden(topic: Any) -> ProducersTopicResponse:
    hidden = partial(PartitionResponse, error_message=OF_TOPIC[1], active_producers=[])
    rows = _rows(hidden, topic.partition_indexes)
    return ProducersTopicResponse(name=topic.name, partitions=rows)


def _not_marked(marker: Any) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=each.name, partitions=_rows(WritableTxnMarkerPartitionResult, each.partition_indexes, NO_CLUSTER)
        )
        for each in marker.topics
    ]
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


CHECKS: Final[dict[type[Message], Callable[[BrokerAuthorization, Any, int], Checked | Message]]] = {
    schema.ProduceRequest: _produce,
    schema.ListOffsetsRequest: lambda rights, request, _: _topics(rights, request, DESCRIBE, _not_listed),
    schema.OffsetForLeaderEpochRequest: _offset_for_leader_epoch,
    schema.DeleteRecordsRequest: lambda rights, request, _: _topics(rights, request, DELETE, _not_deleted),
    schema.DescribeProducersRequest: lambda rights, request, _: _topics(rights, request, READ, _producers_hidden),
    schema.InitProducerIdRequest: lambda rights, request, _: refusal_of_producer(rights, request) or Checked(request),
    schema.WriteTxnMarkersRequest: _write_txn_markers,
    schema.AddPartitionsToTxnRequest: _add_partitions_to_txn,
    schema.DescribeLogDirsRequest: _describe_log_dirs,
    schema.AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    schema.DescribeConfigsRequest: lambda rights, request, _: rights.describe_configs(request),
    schema.AlterConfigsRequest: lambda rights, request, _: rights.alter_configs(request),  # From here: ZooKeeper mode.
    schema.IncrementalAlterConfigsRequest: lambda rights, request, _: rights.alter_configs(request),
    schema.CreateAclsRequest: _of_the_cluster,
    schema.DeleteAclsRequest: _of_the_cluster,
    schema.AlterClientQuotasRequest: _of_the_cluster,
    schema.DescribeClientQuotasRequest: _of_the_cluster,
    schema.DescribeAclsRequest: _of_the_cluster,
    schema.DescribeUserScramCredentialsRequest: _describe_scram,
}
