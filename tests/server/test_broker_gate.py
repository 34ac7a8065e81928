"""What each request to a broker needs; a new one is not let through because nobody thought of it."""

from typing import Any, Final

import pytest

from kcore.metadata.acl_codes import (
    ALTER,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    OPERATIONS,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.request_context import ClientSession
from kcore.net.versions import api_name
from kcore.protocol_errors import Errors
from kcore.schema.classic_groups import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kcore.schema.committed_offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kcore.schema.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.group_listing import DeleteGroupsRequest, DescribeGroupsRequest
from kcore.schema.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kcore.schema.producers import DescribeTransactionsRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest, UserName
from kcore.schema.structure import Message
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
from kcore.server.broker import coordination, kraft_front, zk_front
from kcore.server.broker.forwarding import forwarded_apis
from kcore.server.broker.gate import CHECKS, BrokerGate
from kcore.server.broker.group_coordinators import GROUPS, TRANSACTIONS
from kcore.server.rights import Checked
from kcore.wire.record_building import TRANSACTIONAL
from storage import building

ELSEWHERE: Final = {  # Where the right is looked at, if not before the request is handled.
    "Metadata": "Rights.cut",
    "DescribeCluster": "Rights.cut",
    "Fetch": "fetch_right",
    "FindCoordinator": "BrokerGate.coordinator_error",
    "DescribeTopicPartitions": "describe_topic_partitions",
    "DescribeDelegationToken": "KraftFront._describe_tokens",
}
NONE_NEEDED: Final = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListGroups", "ListTransactions"}
OF_CONTROLLERS: Final = {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}  # ControlDoor.
NO_CLUSTER: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
NO_GROUP: Final = Errors.GROUP_AUTHORIZATION_FAILED
NO_TRANSACTION: Final = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OF_GROUP, OF_TRANSACTION = (GROUP, "g"), (TRANSACTIONAL_ID, "x")
Right = tuple[int, int, str]


class Granted:
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


def a_gate(*rights: Right) -> BrokerGate:
    return BrokerGate(Granted(*rights), ClientSession("L", "10.0.0.1"))


def test_every_request_is_looked_at() -> None:
    checked = {api_name(kind) for kind in CHECKS} | {*ELSEWHERE} | NONE_NEEDED | {*coordination.APIS}
    assert {*kraft_front.APIS} - {*forwarded_apis()} <= checked
    relayed = {"AlterConfigs", "IncrementalAlterConfigs"}
    assert {*zk_front.APIS} - OF_CONTROLLERS - relayed <= checked


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
        found = a_gate((operation, *OF_GROUP)).coordinator_error(kind(), 0, "g", GROUPS)
        assert found is (None if operation == right else NO_GROUP), OPERATIONS[operation]
    assert a_gate((right, GROUP, "another"), (right, TRANSACTIONAL_ID, "g")).coordinator_error(kind(), 0, "g", GROUPS)


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
        found = a_gate((operation, *OF_TRANSACTION)).coordinator_error(request_, version, "x", TRANSACTIONS)
        assert found is (None if operation == right else NO_TRANSACTION), OPERATIONS[operation]


@pytest.mark.parametrize("kind", [TxnOffsetCommitRequest, AddOffsetsToTxnRequest])
def test_offsets_in_a_transaction_need_rights_to_it_and_to_the_group(kind: Any) -> None:
    request = kind(transactional_id="x", group_id="g")
    write, read = (WRITE, *OF_TRANSACTION), (READ, *OF_GROUP)
    for rights, error in (((), NO_TRANSACTION), ((read,), NO_TRANSACTION), ((write,), NO_GROUP), ((write, read), None)):
        assert a_gate(*rights).coordinator_error(request, 3, "x", TRANSACTIONS) is error


def test_partitions_are_added_to_transactions_by_brokers_since_version_4() -> None:
    request = AddPartitionsToTxnRequest()
    assert a_gate().coordinator_error(request, 4, "x", TRANSACTIONS) is None, "asked for before"
    assert isinstance(a_gate().check(request, 3), Checked), "asked for behind it"
    refused: Any = a_gate((WRITE, *OF_TRANSACTION)).check(request, 4)
    assert refused.error_code == NO_CLUSTER
    assert isinstance(a_gate((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)).check(request, 4), Checked)


def test_markers_are_written_by_brokers_and_who_may_alter_the_cluster() -> None:
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, 7])]
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=9, topics=topics)])
    for operation in OPERATIONS:
        found: Any = a_gate((operation, CLUSTER, CLUSTER_NAME)).check(request, 1)
        assert isinstance(found, Checked) is (operation in (ALTER, CLUSTER_ACTION)), OPERATIONS[operation]
    [marker] = a_gate().check(request, 1).markers  # type: ignore[union-attr]
    [topic] = marker.topics
    rows = [(each.partition_index, each.error_code) for each in topic.partitions]
    assert (marker.producer_id, topic.name, rows) == (9, "t", [(0, NO_CLUSTER), (7, NO_CLUSTER)])


@pytest.mark.parametrize("own", [None, "x"])
def test_records_of_a_transaction_need_the_right_to_it(own: str | None) -> None:
    """Whoever names no transaction has none."""

    def produced(*rights: Right, transactional: bool = True) -> Checked | Message:
        how = {"attributes": TRANSACTIONAL, "producer": (1, 0, 0)} if transactional else {}
        records = building.batch(0, **how)
        topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=records)])
        return a_gate(*rights).check(ProduceRequest(transactional_id=own, topic_data=[topic]), 9)

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
        found: Any = a_gate(*rights).check(InitProducerIdRequest(transactional_id="x"), 4)
        assert isinstance(found, Checked) is (operation == WRITE), OPERATIONS[operation]
        assert isinstance(found, Checked) or (found.error_code, found.producer_id) == (NO_TRANSACTION, -1)


def test_settings_of_a_group_need_the_right_to_it() -> None:
    kind = ConfigResourceType.GROUP
    described = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name="g")])
    altered = AlterConfigsRequest(
        resources=[AlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name="g")]
    )
    for request in (described, altered):
        refused = a_gate((DESCRIBE_CONFIGS, GROUP, "another"), (DESCRIBE, *OF_GROUP)).check(request, 1)
        assert isinstance(refused, Checked) and refused.is_empty
    assert a_gate((DESCRIBE_CONFIGS, *OF_GROUP)).check(described, 1).request.resources  # type: ignore[union-attr]
    assert a_gate((DESCRIBE_CONFIGS, *OF_GROUP)).check(altered, 1).is_empty  # type: ignore[union-attr]


def test_a_refused_question_for_credentials_has_a_row_a_user() -> None:
    """DescribeUserScramCredentialsRequest.getErrorResponse"""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name="a"), UserName(name="b")])
    refused: Any = a_gate().check(request, 0)
    assert [refused.error_code, *(each.error_code for each in refused.results)] == [NO_CLUSTER] * 3
