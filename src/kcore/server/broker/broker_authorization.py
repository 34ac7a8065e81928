"""Authorizes requests to a broker: removes refused topics from requests, and adds their errors to responses.

The active controller authorizes the requests that it answers, because an envelope has the client's principal. Errors
and their fields are those of KafkaApis of 4.3.1 and 3.9.1. Requests to coordinators are refused in any case
(`coordination.py`); the error of a missing right comes first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kcore.broker.replicas.fetch_sessions import replica_of
from kcore.broker.replicas.log_validator import has_transactional_records
from kcore.controller.rules.authorization import refusal
from kcore.controller.rules.error_responses import refused
from kcore.metadata.acl_codes import (
    ALTER,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    READ,
    TRANSACTIONAL_ID,
    WRITE,
)
from kcore.net.versions import api_name, response_of
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kcore.schema.classic_groups import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kcore.schema.cluster_metadata import MetadataRequest, MetadataResponseTopic
from kcore.schema.committed_offsets import OffsetCommitRequest, OffsetDeleteRequest
from kcore.schema.configs import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kcore.schema.consumer_groups import ConsumerGroupHeartbeatRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.group_listing import DeleteGroupsRequest
from kcore.schema.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopicResult,
)
from kcore.schema.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsRequest,
)
from kcore.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from kcore.schema.producers import DescribeProducersRequest, DescribeTransactionsRequest, PartitionResponse
from kcore.schema.producers import TopicResponse as ProducersTopicResponse
from kcore.schema.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kcore.schema.scram import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kcore.schema.structure import Message, Struct
from kcore.schema.topics import DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsTopicResult
from kcore.schema.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcore.server.broker.group_coordinators import TRANSACTIONS
from kcore.server.cluster_view import TopicFilter
from kcore.server.security.rights import OF_THE_CLUSTER, OF_TOPIC, Checked, Rights, refusal_of_producer

NO_TOPIC: Final = Errors.TOPIC_AUTHORIZATION_FAILED
NO_CLUSTER: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION: Final = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_GROUP: Final = Errors.GROUP_AUTHORIZATION_FAILED
OF_BROKERS_SINCE: Final = 4  # The first version of AddPartitionsToTxn that only brokers may send.
_DESCRIBE_TRANSACTIONS: Final = (DescribeTransactionsRequest, FindCoordinatorRequest)
_OF_GROUPS: Final[Mapping[type[Message], int]] = {  # The other requests need DESCRIBE.
    JoinGroupRequest: READ,
    SyncGroupRequest: READ,
    HeartbeatRequest: READ,
    LeaveGroupRequest: READ,
    ConsumerGroupHeartbeatRequest: READ,
    OffsetCommitRequest: READ,
    OffsetDeleteRequest: DELETE,
    DeleteGroupsRequest: DELETE,
}


class BrokerAuthorization(Rights):
    """The rights of one request's sender."""

    def why_refused(self, operation: int) -> str:
        """The error message for a request without that right to the cluster."""
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
        if isinstance(request, TxnOffsetCommitRequest | AddOffsetsToTxnRequest):
            return self._transaction_error(WRITE, request.transactional_id) or self._group_error(READ, request.group_id)
        if isinstance(request, AddPartitionsToTxnRequest) and version >= OF_BROKERS_SINCE:
            return None
        if key_type == TRANSACTIONS:
            return self._transaction_error(DESCRIBE if isinstance(request, _DESCRIBE_TRANSACTIONS) else WRITE, key)
        return self._group_error(_OF_GROUPS.get(type(request), DESCRIBE), key)

    def _group_error(self, operation: int, group_id: str) -> Errors | None:
        return None if self.allows(operation, GROUP, group_id) else NO_GROUP

    def _transaction_error(self, operation: int, transactional_id: str) -> Errors | None:
        return None if self.allows(operation, TRANSACTIONAL_ID, transactional_id) else NO_TRANSACTION

    # Checks by request.

    def _split(self, topics: Sequence[Any], operation: int, name: Callable[[Any], str]) -> tuple[list[Any], list[Any]]:
        """The allowed topics, and the refused ones."""
        allowed = {each for each in {name(topic) for topic in topics} if self._of_topic(operation, each)}
        kept = [topic for topic in topics if name(topic) in allowed]
        return kept, [topic for topic in topics if name(topic) not in allowed]

    def _topics(
        self,
        request: Any,
        operation: int,
        refused: Callable[[Any], Any],
        name: Callable[[Any], str] = lambda topic: topic.name,
    ) -> Checked:
        """Keeps the topics to which the sender has the right; `refused` makes the results of the others."""
        kept, refused_topics = self._split(request.topics, operation, name)
        rows = [refused(topic) for topic in refused_topics]
        request.topics = kept
        return Checked(request, not kept, lambda response: response.topics.extend(rows))

    def _produce(self, request: ProduceRequest, version: int) -> Checked | Message:
        """Requires WRITE for each topic, and for the transactional id of transactional batches."""
        batches = [each.records for topic in request.topic_data for each in topic.partition_data if each.records]
        own = request.transactional_id
        if _are_transactional(batches) and (own is None or not self.allows(WRITE, TRANSACTIONAL_ID, own)):
            return ProduceResponse(responses=[_not_written(each, NO_TRANSACTION) for each in request.topic_data])
        kept, refused_topics = self._split(request.topic_data, WRITE, lambda topic: topic.name)
        rows = [_not_written(each, NO_TOPIC) for each in refused_topics]
        request.topic_data = kept
        return Checked(request, not kept, lambda response: response.responses.extend(rows))

    def _list_offsets(self, request: ListOffsetsRequest, version: int) -> Checked:
        return self._topics(request, DESCRIBE, _not_listed)

    def _offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest, version: int) -> Checked:
        """Brokers need CLUSTER_ACTION; consumers, since KIP-320, need DESCRIBE for each topic."""
        if self.allows(CLUSTER_ACTION):
            return Checked(request)
        return self._topics(request, DESCRIBE, _no_offset, lambda topic: topic.topic)

    def _delete_records(self, request: DeleteRecordsRequest, version: int) -> Checked:
        return self._topics(request, DELETE, _not_deleted)

    def _describe_producers(self, request: DescribeProducersRequest, version: int) -> Checked:
        return self._topics(request, READ, _producers_hidden)

    def _init_producer_id(self, request: InitProducerIdRequest, version: int) -> Checked | Message:
        return refusal_of_producer(self, request) or Checked(request)

    def _write_txn_markers(self, request: WriteTxnMarkersRequest, version: int) -> Checked | Message:
        """Brokers need CLUSTER_ACTION; administrators who abort a transaction need ALTER."""
        if self.allows(ALTER) or self.allows(CLUSTER_ACTION):
            return Checked(request)
        return WriteTxnMarkersResponse(markers=[_not_marked(each) for each in request.markers])

    def _add_partitions_to_txn(self, request: AddPartitionsToTxnRequest, version: int) -> Checked | Message:
        """Only brokers may send the newer versions."""
        if version < OF_BROKERS_SINCE or self.allows(CLUSTER_ACTION):
            return Checked(request)
        return AddPartitionsToTxnResponse(error_code=NO_CLUSTER)

    def _describe_log_dirs(self, request: DescribeLogDirsRequest, version: int) -> Checked | Message:
        return Checked(request) if self.allows(DESCRIBE) else response_of(type(request))(error_code=NO_CLUSTER)

    def _alter_replica_log_dirs(self, request: AlterReplicaLogDirsRequest, version: int) -> Checked | Message:
        if self.allows(ALTER):
            return Checked(request)
        rows = [
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=_rows(AlterReplicaLogDirPartitionResult, topic.partitions, NO_CLUSTER),
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
        return AlterReplicaLogDirsResponse(results=rows)

    def _of_the_cluster(self, request: Message, version: int) -> Checked | Message:
        """Refuses the whole request without the right to the cluster, with Kafka's message."""
        operation = OF_THE_CLUSTER[api_name(type(request))]
        return Checked(request) if self.allows(operation) else refused(request, NO_CLUSTER, self.why_refused(operation))

    def _describe_scram(self, request: DescribeUserScramCredentialsRequest, version: int) -> Checked | Message:
        if self.allows(DESCRIBE):
            return Checked(request)
        rows = [
            DescribeUserScramCredentialsResult(user="", error_code=NO_CLUSTER, error_message=None)
            for _ in request.users or ()
        ]
        return DescribeUserScramCredentialsResponse(error_code=NO_CLUSTER, error_message=None, results=rows)

    def _configs(self, request: DescribeConfigsRequest, version: int) -> Checked:
        return self._describe_configs(request)

    def _changes_of_configs(self, request: AlterConfigsRequest | IncrementalAlterConfigsRequest, _: int) -> Checked:
        """Used in ZooKeeper mode, where brokers change settings; in KRaft mode the controller does."""
        return self._alter_configs(request)

    def topic_filter_for_creation(self, request: MetadataRequest, version: int, by_id: bool) -> TopicFilter:
        """As `topic_filter`, with auto.create.topics.enable: refuses missing topics without the right CREATE."""
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
    authorization: "BrokerAuthorization | None", request: FetchRequest, version: int
) -> Callable[[str], bool] | None:
    """Whether a topic may be fetched; None: all topics may be. Followers need CLUSTER_ACTION."""
    if authorization is None:
        return None
    if replica_of(request, version)[0] >= 0:
        return None if authorization.allows(CLUSTER_ACTION) else lambda name: False
    return authorization.may_read


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


def _rows(result: type[Struct], indexes: Iterable[int], error: Errors = NO_TOPIC, **fields: Any) -> list[Any]:
    """A result with the error for each partition."""
    return [result(partition_index=index, error_code=error, **fields) for index in indexes]


def _not_listed(topic: Any) -> ListOffsetsTopicResponse:
    indexes = (each.partition_index for each in topic.partitions)
    return ListOffsetsTopicResponse(name=topic.name, partitions=_rows(ListOffsetsPartitionResponse, indexes))


def _no_offset(topic: Any) -> OffsetForLeaderTopicResult:
    rows = [EpochEndOffset(partition=each.partition, error_code=NO_TOPIC) for each in topic.partitions]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows)


def _not_deleted(topic: Any) -> DeleteRecordsTopicResult:
    indexes = (each.partition_index for each in topic.partitions)
    rows = _rows(DeleteRecordsPartitionResult, indexes, low_watermark=-1)
    return DeleteRecordsTopicResult(name=topic.name, partitions=rows)


def _producers_hidden(topic: Any) -> ProducersTopicResponse:
    rows = _rows(PartitionResponse, topic.partition_indexes, error_message=OF_TOPIC[1], active_producers=[])
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
    ProduceRequest: BrokerAuthorization._produce,
    ListOffsetsRequest: BrokerAuthorization._list_offsets,
    OffsetForLeaderEpochRequest: BrokerAuthorization._offset_for_leader_epoch,
    DeleteRecordsRequest: BrokerAuthorization._delete_records,
    DescribeProducersRequest: BrokerAuthorization._describe_producers,
    InitProducerIdRequest: BrokerAuthorization._init_producer_id,
    WriteTxnMarkersRequest: BrokerAuthorization._write_txn_markers,
    AddPartitionsToTxnRequest: BrokerAuthorization._add_partitions_to_txn,
    DescribeLogDirsRequest: BrokerAuthorization._describe_log_dirs,
    AlterReplicaLogDirsRequest: BrokerAuthorization._alter_replica_log_dirs,
    DescribeConfigsRequest: BrokerAuthorization._configs,
    AlterConfigsRequest: BrokerAuthorization._changes_of_configs,
    IncrementalAlterConfigsRequest: BrokerAuthorization._changes_of_configs,
    CreateAclsRequest: BrokerAuthorization._of_the_cluster,  # From here on: ZooKeeper mode only.
    DeleteAclsRequest: BrokerAuthorization._of_the_cluster,
    AlterClientQuotasRequest: BrokerAuthorization._of_the_cluster,
    DescribeClientQuotasRequest: BrokerAuthorization._of_the_cluster,
    DescribeAclsRequest: BrokerAuthorization._of_the_cluster,
    DescribeUserScramCredentialsRequest: BrokerAuthorization._describe_scram,
}
