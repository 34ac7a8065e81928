"""The right that each request to a broker needs; every request must be listed."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from kcore.metadata.acl_codes import (
    ALTER,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    OPERATIONS,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.request_context import ClientSession
from kcore.net.versions import api_name, response_of
from kcore.node.authorization import Authorizer
from kcore.protocol_errors import Errors
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.classic_groups import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kcore.schema.cluster_metadata import MetadataRequest, MetadataResponseTopic
from kcore.schema.committed_offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kcore.schema.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.group_listing import DeleteGroupsRequest, DescribeGroupsRequest
from kcore.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcore.schema.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from kcore.schema.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kcore.schema.producers import DescribeProducersRequest, DescribeTransactionsRequest, TopicRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest, UserName
from kcore.schema.structure import Message
from kcore.schema.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcore.schema.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kcore.server.broker import coordination
from kcore.server.broker.broker_authorization import CHECKS, BrokerAuthorization, fetch_right
from kcore.server.broker.broker_request_handlers import BrokerRequestHandlers, _no_coordinator
from kcore.server.broker.forwarding import forwarded_apis
from kcore.server.broker.group_coordinators import GROUPS, TRANSACTIONS
from kcore.server.kraft_broker import kraft_broker_request_handlers as kraft_handlers
from kcore.server.security.rights import Checked
from kcore.server.zk_broker import zk_broker_request_handlers as zk_handlers
from kcore.wire.record_batch import TRANSACTIONAL
from storage import building

ELSEWHERE: Final = {  # Where the right is looked at, if not before the request is handled.
    "Metadata": "Rights.cut",
    "DescribeCluster": "Rights.cut",
    "Fetch": "fetch_right",
    "FindCoordinator": "BrokerAuthorization.coordinator_error",
    "DescribeTopicPartitions": "describe_topic_partitions",
    "DescribeDelegationToken": "KraftBrokerRequestHandlers._describe_tokens, SecurityAdmin",
    "CreateDelegationToken": "SecurityAdmin",
    "RenewDelegationToken": "its owner and renewers alone",
    "ExpireDelegationToken": "its owner and renewers alone",
}
NONE_NEEDED: Final = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListGroups", "ListTransactions"}
OF_CONTROLLERS: Final = {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}  # ControlRequestAuthorization.
NO_CLUSTER: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
NO_GROUP: Final = Errors.GROUP_AUTHORIZATION_FAILED
NO_TRANSACTION: Final = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OF_GROUP, OF_TRANSACTION = (GROUP, "g"), (TRANSACTIONAL_ID, "x")
Right = tuple[int, int, str]


class Granted(Authorizer):
    """These rights and no others: none implies another."""

    def __init__(self, *rights: Right) -> None:
        self.rights = {*rights}

    def allows(
        self,
        principal: KafkaPrincipal,
        client_address: str,
        operation: int,
        resource_type: int = CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:
        return (operation, resource_type, name) in self.rights

    def allows_on_any(self, principal: KafkaPrincipal, client_address: str, operation: int, resource_type: int) -> bool:
        return any(each[:2] == (operation, resource_type) for each in self.rights)


def granted(*rights: Right) -> BrokerAuthorization:
    return BrokerAuthorization(Granted(*rights), ClientSession("L", "10.0.0.1"))


def test_every_request_is_looked_at() -> None:
    checked = {api_name(kind) for kind in CHECKS} | {*ELSEWHERE} | NONE_NEEDED | {*coordination.APIS}
    assert {*kraft_handlers.APIS} - {*forwarded_apis()} <= checked
    assert {*zk_handlers.APIS} - OF_CONTROLLERS <= checked


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        *[(kind, READ) for kind in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)],
        *[(kind, READ) for kind in (ConsumerGroupHeartbeatRequest, OffsetCommitRequest)],
        *[(kind, DELETE) for kind in (OffsetDeleteRequest, DeleteGroupsRequest)],
        *[(kind, DESCRIBE) for kind in (OffsetFetchRequest, DescribeGroupsRequest, ConsumerGroupDescribeRequest)],
        (FindCoordinatorRequest, DESCRIBE),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_request_about_a_group_needs_one_right_to_it(kind: type[Message], right: int) -> None:
    """As KafkaApis asks for it."""
    for operation in OPERATIONS:
        found = granted((operation, *OF_GROUP)).coordinator_error(kind(), 0, "g", GROUPS)
        assert found is (None if operation == right else NO_GROUP), OPERATIONS[operation]
    assert granted((right, GROUP, "another"), (right, TRANSACTIONAL_ID, "g")).coordinator_error(kind(), 0, "g", GROUPS)


@pytest.mark.parametrize(
    ("request_", "version", "right"),
    [
        (EndTxnRequest(), 3, WRITE),
        (AddPartitionsToTxnRequest(), 3, WRITE),
        (DescribeTransactionsRequest(), 0, DESCRIBE),
        (FindCoordinatorRequest(), 4, DESCRIBE),
    ],
)
def test_a_request_about_a_transaction_needs_one_right_to_it(request_: Message, version: int, right: int) -> None:
    for operation in OPERATIONS:
        found = granted((operation, *OF_TRANSACTION)).coordinator_error(request_, version, "x", TRANSACTIONS)
        assert found is (None if operation == right else NO_TRANSACTION), OPERATIONS[operation]


@pytest.mark.parametrize("kind", [TxnOffsetCommitRequest, AddOffsetsToTxnRequest])
def test_offsets_in_a_transaction_need_rights_to_it_and_to_the_group(kind: Any) -> None:
    request = kind(transactional_id="x", group_id="g")
    write, read = (WRITE, *OF_TRANSACTION), (READ, *OF_GROUP)
    for rights, error in (((), NO_TRANSACTION), ((read,), NO_TRANSACTION), ((write,), NO_GROUP), ((write, read), None)):
        assert granted(*rights).coordinator_error(request, 3, "x", TRANSACTIONS) is error


def test_partitions_are_added_to_transactions_by_brokers_since_version_4() -> None:
    request = AddPartitionsToTxnRequest()
    assert granted().coordinator_error(request, 4, "x", TRANSACTIONS) is None, "asked for before"
    assert isinstance(granted().check(request, 3), Checked), "asked for behind it"
    refused: Any = granted((WRITE, *OF_TRANSACTION)).check(request, 4)
    assert refused.error_code == NO_CLUSTER
    assert isinstance(granted((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)).check(request, 4), Checked)


def test_markers_are_written_by_brokers_and_who_may_alter_the_cluster() -> None:
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, 7])]
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=9, topics=topics)])
    for operation in OPERATIONS:
        found: Any = granted((operation, CLUSTER, CLUSTER_NAME)).check(request, 1)
        assert isinstance(found, Checked) is (operation in (ALTER, CLUSTER_ACTION)), OPERATIONS[operation]
    [marker] = granted().check(request, 1).markers  # type: ignore[union-attr]
    [topic] = marker.topics
    rows = [(each.partition_index, each.error_code) for each in topic.partitions]
    assert (marker.producer_id, topic.name, rows) == (9, "t", [(0, NO_CLUSTER), (7, NO_CLUSTER)])


@pytest.mark.parametrize("own", [None, "x"])
def test_records_of_a_transaction_need_the_right_to_it(own: str | None) -> None:
    """A request without a transactional id has no transaction."""

    def produced(*rights: Right, transactional: bool = True) -> Checked | Message:
        how = {"attributes": TRANSACTIONAL, "producer": (1, 0, 0)} if transactional else {}
        records = building.batch(0, **how)
        topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=records)])
        return granted(*rights).check(ProduceRequest(transactional_id=own, topic_data=[topic]), 9)

    write = WRITE, TOPIC, "t"
    refused = produced(write)
    assert isinstance(refused, ProduceResponse)
    [row] = refused.responses[0].partition_responses
    assert (row.index, row.error_code, row.base_offset) == (3, NO_TRANSACTION, -1)
    assert isinstance(produced(write, (WRITE, *OF_TRANSACTION)), Checked) is (own == "x")
    assert isinstance(produced(write, transactional=False), Checked)


def test_a_transactional_producer_needs_the_right_to_its_transaction() -> None:
    for operation in OPERATIONS:
        rights = (operation, *OF_TRANSACTION), (operation, CLUSTER, CLUSTER_NAME), (operation, TOPIC, "t")
        found: Any = granted(*rights).check(InitProducerIdRequest(transactional_id="x"), 4)
        assert isinstance(found, Checked) is (operation == WRITE), OPERATIONS[operation]
        assert isinstance(found, Checked) or (found.error_code, found.producer_id) == (NO_TRANSACTION, -1)


def test_a_producer_without_a_transaction_needs_a_right_to_the_cluster_or_to_any_topic() -> None:
    for operation in OPERATIONS:
        request = InitProducerIdRequest(transactional_id=None)
        for resource, right in (((CLUSTER, CLUSTER_NAME), IDEMPOTENT_WRITE), ((TOPIC, "any"), WRITE)):
            found: Any = granted((operation, *resource)).check(request, 4)
            assert isinstance(found, Checked) is (operation == right), OPERATIONS[operation]
            if not isinstance(found, Checked):
                assert (found.error_code, found.producer_id, found.producer_epoch) == (NO_CLUSTER, -1, -1)


def test_settings_of_a_group_need_the_right_to_it() -> None:
    kind = ConfigResourceType.GROUP
    described = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name="g")])
    altered = AlterConfigsRequest(
        resources=[AlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name="g")]
    )
    for request in (described, altered):
        refused = granted((DESCRIBE_CONFIGS, GROUP, "another"), (DESCRIBE, *OF_GROUP)).check(request, 1)
        assert isinstance(refused, Checked) and refused.is_empty
    assert granted((DESCRIBE_CONFIGS, *OF_GROUP)).check(described, 1).request.resources  # type: ignore[union-attr]
    assert granted((DESCRIBE_CONFIGS, *OF_GROUP)).check(altered, 1).is_empty  # type: ignore[union-attr]


def test_a_refused_question_for_credentials_has_a_row_a_user() -> None:
    """DescribeUserScramCredentialsRequest.getErrorResponse"""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name="a"), UserName(name="b")])
    refused: Any = granted().check(request, 0)
    assert [refused.error_code, *(each.error_code for each in refused.results)] == [NO_CLUSTER] * 3


# Requests about topics.

INDEXES = (0, 7)
Parts = list[tuple[int, int]]


def offsets(*names: str) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(partition_index=each) for each in INDEXES]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=parts) for name in names])


def epochs(*names: str) -> OffsetForLeaderEpochRequest:
    parts = [OffsetForLeaderPartition(partition=each) for each in INDEXES]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=parts) for name in names])


def deletion(*names: str) -> DeleteRecordsRequest:
    parts = [DeleteRecordsPartition(partition_index=each) for each in INDEXES]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=parts) for name in names])


def producers(*names: str) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[*INDEXES]) for name in names])


def records(*names: str) -> ProduceRequest:
    parts = [PartitionProduceData(index=each, records=None) for each in INDEXES]
    return ProduceRequest(topic_data=[TopicProduceData(name=name, partition_data=parts) for name in names])


def rows_of(response: Any) -> list[tuple[str, Parts]]:
    """By topic: each partition's index and error."""
    topics = getattr(response, "responses", None) or response.topics
    return [
        (
            getattr(topic, "topic", None) or topic.name,
            [
                (
                    getattr(each, "index", getattr(each, "partition_index", getattr(each, "partition", -9))),
                    each.error_code,
                )
                for each in getattr(topic, "partition_responses", None) or topic.partitions
            ],
        )
        for topic in topics
    ]


@pytest.mark.parametrize(
    ("make", "right"),
    [(offsets, DESCRIBE), (epochs, DESCRIBE), (deletion, DELETE), (producers, READ), (records, WRITE)],
)
def test_topics_are_kept_by_one_right_to_each_and_the_others_are_refused(make: Any, right: int) -> None:
    for operation in OPERATIONS:
        checked = granted((operation, TOPIC, "t"), (right, GROUP, "u")).check(make("u", "t"), 1)
        assert isinstance(checked, Checked)
        kept = getattr(checked.request, "topic_data", None) or getattr(checked.request, "topics", [])
        assert len(kept) == (operation == right) and checked.is_empty is (operation != right), OPERATIONS[operation]
        response = response_of(type(checked.request))()
        checked.complete(response)
        error = Errors.TOPIC_AUTHORIZATION_FAILED
        refused = ["u"] if operation == right else ["u", "t"]
        assert rows_of(response) == [(name, [(each, error) for each in INDEXES]) for name in refused]


def test_brokers_ask_for_epochs_of_any_topic() -> None:
    checked: Any = granted((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)).check(epochs("t", "u"), 4)
    assert [each.topic for each in checked.request.topics] == ["t", "u"]


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        (DescribeLogDirsRequest(topics=None), DESCRIBE),
        (DescribeAclsRequest(), DESCRIBE),
        (DescribeUserScramCredentialsRequest(users=None), DESCRIBE),
        (
            AlterReplicaLogDirsRequest(
                dirs=[AlterReplicaLogDir(topics=[AlterReplicaLogDirTopic(name="t", partitions=[*INDEXES])])]
            ),
            ALTER,
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_request_about_the_cluster_needs_one_right_to_it(request_: Message, right: int) -> None:
    for operation in OPERATIONS:
        found: Any = granted((operation, CLUSTER, CLUSTER_NAME)).check(request_, 1)
        assert isinstance(found, Checked) is (operation == right), OPERATIONS[operation]
        if isinstance(found, AlterReplicaLogDirsResponse):
            [topic] = found.results
            rows = [(each.partition_index, each.error_code) for each in topic.partitions]
            assert (topic.topic_name, rows) == ("t", [(each, NO_CLUSTER) for each in INDEXES])
        else:
            assert isinstance(found, Checked) or found.error_code == NO_CLUSTER
    answer: Any = granted().check(DescribeAclsRequest(), 1)
    assert answer.error_message == "Principal User:ANONYMOUS needs DESCRIBE permission."


@pytest.mark.parametrize(
    ("rights", "may_create", "error"),
    [
        ((), True, Errors.TOPIC_AUTHORIZATION_FAILED),
        (((CREATE, TOPIC, "another"), (DESCRIBE, TOPIC, "t")), True, Errors.TOPIC_AUTHORIZATION_FAILED),
        (((CREATE, TOPIC, "t"),), True, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (((CREATE, CLUSTER, CLUSTER_NAME),), True, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ((), False, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_topic_that_is_not_there_is_refused_to_who_may_not_make_it(
    rights: tuple[Right, ...], may_create: bool, error: Errors
) -> None:
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    topics = [(unknown, "t"), (unknown, None), (Errors.NONE, "there"), (Errors.INVALID_TOPIC_EXCEPTION, "a b")]
    described = [(DESCRIBE, TOPIC, name) for _, name in topics if name is not None]
    request = MetadataRequest(allow_auto_topic_creation=may_create)
    answer = granted(*rights, *described).topic_filter_for_creation(request, 12, False)
    rows = [answer(MetadataResponseTopic(error_code=code, name=name)) for code, name in topics]
    assert [row and row.error_code for row in rows] == [error, unknown, Errors.NONE, topics[-1][0]]
    without = granted(*rights).topic_filter_for_creation(MetadataRequest(topics=None), 12, False)
    assert without(MetadataResponseTopic(error_code=unknown, name="hidden")) is None


def test_followers_fetch_as_brokers_and_others_topic_by_topic() -> None:
    consumer, follower = FetchRequest(replica_id=-1), FetchRequest(replica_id=2)
    assert fetch_right(None, follower, 12) is None and fetch_right(None, consumer, 12) is None
    reader, broker = granted((READ, TOPIC, "t")), granted((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
    assert fetch_right(broker, follower, 12) is None
    for authorization, request, expected in (
        (reader, consumer, [True, False]),
        (reader, follower, [False, False]),
        (broker, consumer, [False, False]),
    ):
        allows = fetch_right(authorization, request, 12)
        assert allows is not None and [allows(each) for each in ("t", "u")] == expected


@pytest.mark.parametrize("rights", [(), ((DESCRIBE, *OF_GROUP),)], ids=["unauthorized", "authorized"])
def test_only_a_client_that_may_describe_a_group_makes_the_broker_create_its_topic(rights: tuple[Right, ...]) -> None:
    created: list[str] = []

    async def may_coordinate() -> bool:
        return True

    handlers: Any = SimpleNamespace(
        mode=SimpleNamespace(view=lambda listener: SimpleNamespace(nodes=dict), may_coordinate=may_coordinate),
        _manager=SimpleNamespace(cluster=SimpleNamespace(table=SimpleNamespace(topics=()))),
        _topic_creation=SimpleNamespace(create=created.extend),
        _coordinator=lambda key, kind, nodes, may_come: _no_coordinator(key, Errors.COORDINATOR_NOT_AVAILABLE, None),
    )
    context: Any = SimpleNamespace(listener_name="L", version=4)
    request = FindCoordinatorRequest(key_type=GROUPS, coordinator_keys=["g"])
    answer = asyncio.run(BrokerRequestHandlers._find_coordinator(handlers, context, request, granted(*rights)))
    [found] = answer.coordinators
    assert found.error_code == (Errors.COORDINATOR_NOT_AVAILABLE if rights else NO_GROUP)
    assert created == (["__consumer_offsets"] if rights else [])
