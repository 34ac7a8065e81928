"""Listeners, authentication and rights at brokers of a KRaft cluster, over real sockets and TLS."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kcore.errors import AuthenticationError, DisconnectedError
from kcore.metadata.acl_codes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kcore.net.connect import authenticate, connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Sasl
from kcore.protocol_errors import Errors
from kcore.schema.acls import DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from kcore.schema.classic_groups import HeartbeatRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from kcore.schema.configs import DescribeConfigsRequest, DescribeConfigsResource
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.find_coordinator import FindCoordinatorRequest
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
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.producers import DescribeProducersRequest, DescribeTransactionsRequest, TopicRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kcore.schema.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kcore.server.kraft_broker.kraft_broker_settings import broker_settings_of
from net.authority import Authority
from net.loops import story, until
from server.secure_cluster import OF_BROKER, PASSWORD, SecureCluster, secure_cluster
from storage import building

NO_TOPIC: Final = Errors.TOPIC_AUTHORIZATION_FAILED
NO_CLUSTER: Final = Errors.CLUSTER_AUTHORIZATION_FAILED
NO_GROUP: Final = Errors.GROUP_AUTHORIZATION_FAILED
NO_TRANSACTION: Final = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
Right = tuple[int, int, str]
OF_CLUSTER: Final = (CLUSTER, CLUSTER_NAME)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def creation(name: str = "t") -> CreateTopicsRequest:
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5_000)


async def create(cluster: SecureCluster, name: str = "t") -> None:
    response = await cluster.ask("admin", creation(name))
    assert response.topics[0].error_code == 0
    image = cluster.controller.controller.image
    await until(lambda: image.partition(name, 0).isr == [1, 2] or {*image.partition(name, 0).isr} == {1, 2})
    await until(lambda: all((name, 0) in each.runtime.manager.partitions for each in cluster.brokers.values()))


def produce(*values: bytes, topic: str = "t", acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=building.batch(0, values or (b"v",)))]
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fetch(replica_id: int = -1) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, topics=topics)


@story
async def test_each_listener_has_its_protocol_and_its_clients_get_its_endpoints(
    tmp_path: Path, authority: Authority
) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        brokers = cluster.controller.controller.image.brokers
        found = {each.listener: each for each in brokers.endpoints[brokers.row(1)]}
        ports = cluster.brokers[1].listening.ports
        assert {name: (each.host, each.port, each.security_protocol) for name, each in found.items()} == {
            "SECURE": ("127.0.0.1", ports["SECURE"], 3),
            "CLIENTS": ("localhost", ports["CLIENTS"], 2),
            "OPEN": ("127.0.0.1", ports["OPEN"], 0),
        }
        await until(lambda: cluster.brokers[1].link.loader.image == cluster.controller.controller.image)
        for listener, host in (("SECURE", "127.0.0.1"), ("CLIENTS", "localhost")):
            async with await cluster.connect(1, "admin", listener) as connection:
                for request in (MetadataRequest(topics=[]), DescribeClusterRequest(endpoint_type=1)):
                    response = (await connection.send(request)).brokers
                    places = {
                        getattr(each, "node_id", None) or each.broker_id: (each.host, each.port) for each in response
                    }
                    assert places == {
                        node: (host, broker.listening.ports[listener]) for node, broker in cluster.brokers.items()
                    }
        async with await connect("127.0.0.1", ports["OPEN"]) as stranger:
            response = await stranger.send(creation())
            assert response.topics[0].error_code == NO_TOPIC
        with pytest.raises(AuthenticationError):
            await cluster.connect(1, "alice", word="wrong")
        with pytest.raises((DisconnectedError, AuthenticationError)):
            await connect("127.0.0.1", ports["SECURE"])


@story
async def test_replicas_follow_over_sasl_and_authenticate_again_in_time(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session lasts a minute; clients of this test begin another after 1.2 s, on the connection that they have."""
    monkeypatch.setattr("kcore.net.connect.AGAIN_AFTER", 0.02)
    renewed: list[str] = []

    async def counted(connection: Connection, sasl: Sasl) -> None:
        await authenticate(connection, sasl)
        renewed.append(connection.peer)

    monkeypatch.setattr("kcore.server.broker.broker_connections.authenticate", counted)
    async with secure_cluster(tmp_path, authority, reauth_ms=60_000) as cluster:
        await create(cluster)
        await cluster.ask("admin", produce(), 9)  # The follower has connected.
        metrics = cluster.brokers[1].listening.servers[0].metrics
        opened, asked = metrics.connections_opened, 0
        while len(renewed) < 2:
            response = await cluster.ask("admin", produce(), 9)
            assert response.responses[0].partition_responses[0].error_code == 0
            asked += 1
            await asyncio.sleep(0.2)
        assert {*cluster.controller.controller.image.partition("t", 0).isr} == {1, 2}
        assert metrics.connections_opened - opened == asked, "those of the administrator alone"


@story
async def test_new_certificates_are_shown_without_a_restart(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        assert await subject_of(cluster) == "node-1"
        path = cluster.keystore(1)
        path.write_bytes(authority.keystore("replaced").read_bytes())
        while await subject_of(cluster) != "replaced":
            await asyncio.sleep(0.1)
        await create(cluster)
        response = await cluster.ask("admin", produce(), 9)
        assert response.responses[0].partition_responses[0].error_code == 0
        path.unlink()


async def subject_of(cluster: SecureCluster) -> str:
    """The principal of broker 1's certificate."""
    context = ssl.create_default_context(cafile=cluster.authority.trusted)
    _, writer = await asyncio.open_connection("127.0.0.1", cluster.brokers[1].listening.ports["SECURE"], ssl=context)
    names = dict(pair for [pair] in writer.get_extra_info("peercert")["subject"])
    writer.close()
    return str(names["commonName"])


@story
async def test_a_broker_that_has_not_caught_up_refuses_no_user_as_unknown(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's clients give up after a failed authentication: until the broker is ready it closes connections."""
    async with secure_cluster(tmp_path, authority) as cluster:
        broker = cluster.brokers[1]
        monkeypatch.setattr(broker._follower, "follow", lambda **_: None)
        broker.link.image, image = None, broker.link.image
        for word in (PASSWORD, "wrong"):
            with pytest.raises(DisconnectedError):
                await cluster.connect(1, "alice", word=word)
        broker.link.image = image
        monkeypatch.undo()
        async with await cluster.connect(1, "alice"):
            pass


@story
async def test_an_envelope_says_whose_the_request_is(tmp_path: Path, authority: Authority) -> None:
    """Brokers may do everything; the client's rights decide whether a topic is created."""
    async with secure_cluster(tmp_path, authority) as cluster:
        for _ in range(2):
            response = await cluster.ask("alice", creation("alices"))
            assert response.topics[0].error_code == NO_TOPIC
        await cluster.allow(CREATE, TOPIC, "alices")
        response = await cluster.ask("alice", creation("alices"))
        assert response.topics[0].error_code == 0


# The right that each request needs, or several of which one is enough.


def first_error(answer: Any) -> Errors:
    """The first error in the answer, from its top down."""
    code = getattr(answer, "error_code", 0) or getattr(answer, "partition_error_code", 0)
    if code:
        return Errors.of(code)
    for name in type(answer).__slots__:
        value = getattr(answer, name, None)
        for each in value if isinstance(value, list) else ():
            if hasattr(type(each), "__slots__") and (error := first_error(each)) is not Errors.NONE:
                return error
    return Errors.NONE


def described(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource])


T_WRITE, T_READ, T_DESCRIBE = (WRITE, TOPIC, "t"), (READ, TOPIC, "t"), (DESCRIBE, TOPIC, "t")
METADATA_OF_TOPIC: Final = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
TABLE: Final[list[tuple[str, Callable[[], Message], int | None, Errors, tuple[Right, ...]]]] = [
    ("Produce", produce, 9, NO_TOPIC, (T_WRITE,)),
    ("Fetch", fetch, 12, NO_TOPIC, (T_READ,)),
    ("Fetch of a follower", lambda: fetch(2), 12, NO_TOPIC, ((CLUSTER_ACTION, *OF_CLUSTER),)),
    (
        "ListOffsets",
        lambda: ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        ),
        None,
        NO_TOPIC,
        (T_DESCRIBE, T_READ),
    ),
    (
        "OffsetForLeaderEpoch",
        lambda: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
            ],
        ),
        None,
        NO_TOPIC,
        (T_DESCRIBE, (CLUSTER_ACTION, *OF_CLUSTER)),
    ),
    ("Metadata", lambda: METADATA_OF_TOPIC, 12, NO_TOPIC, (T_DESCRIBE,)),
    (
        "DeleteRecords",
        lambda: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=5_000,
        ),
        None,
        NO_TOPIC,
        ((DELETE, TOPIC, "t"),),
    ),
    (
        "DescribeProducers",
        lambda: DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]),
        None,
        NO_TOPIC,
        (T_READ,),
    ),
    (
        "InitProducerId",
        lambda: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
        4,
        NO_CLUSTER,
        ((IDEMPOTENT_WRITE, *OF_CLUSTER), (WRITE, TOPIC, "another")),
    ),
    (
        "WriteTxnMarkers",
        lambda: WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[])],
                )
            ]
        ),
        1,
        Errors.NONE,  # A request without partitions has no refusals.
        ((ALTER, *OF_CLUSTER),),
    ),
    ("DescribeLogDirs", lambda: DescribeLogDirsRequest(topics=None), None, NO_CLUSTER, ((DESCRIBE, *OF_CLUSTER),)),
    ("DescribeConfigs of a topic", lambda: described(2, "t"), None, NO_TOPIC, ((DESCRIBE_CONFIGS, TOPIC, "t"),)),
    (
        "DescribeConfigs of a broker",
        lambda: described(4, "1"),
        None,
        NO_CLUSTER,
        ((DESCRIBE_CONFIGS, *OF_CLUSTER), (ALTER_CONFIGS, *OF_CLUSTER)),
    ),
    (
        "DescribeAcls",
        lambda: DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
        None,
        NO_CLUSTER,
        ((DESCRIBE, *OF_CLUSTER),),
    ),
    (
        "DescribeUserScramCredentials",
        lambda: DescribeUserScramCredentialsRequest(users=None),
        None,
        NO_CLUSTER,
        ((DESCRIBE, *OF_CLUSTER),),
    ),
]


@story
async def test_each_request_needs_its_right(tmp_path: Path, authority: Authority) -> None:
    """Without it the error, with it none; a DENY takes it away again."""
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        await cluster.ask("admin", produce(), 9)
        async with await cluster.connect(1, "alice") as alice:
            for name, make, version, error, _ in TABLE:
                assert first_error(await alice.send(make(), version)) is error, name
        for name, make, version, error, rights in TABLE:
            for right in rights:
                await cluster.allow(*right)
                async with await cluster.connect(1, "alice") as alice:
                    found = first_error(await alice.send(make(), version))
                    assert found in (Errors.NONE, Errors.UNKNOWN_LEADER_EPOCH), (name, right, found)
                    await cluster.allow(*right, permission=DENY)
                    if len(rights) == 1:
                        assert first_error(await alice.send(make(), version)) is error, (name, right)
                await forget_acls(cluster)


async def forget_acls(cluster: SecureCluster) -> None:
    every = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    response = await cluster.ask("admin", DeleteAclsRequest(filters=[every]))
    assert first_error(response) is Errors.NONE, response
    await until(lambda: not any(each.link.loader.image.acls for each in cluster.brokers.values()))


COORDINATED: Final[list[tuple[Message, int | None, Errors]]] = [
    (FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), None, NO_GROUP),
    (FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), None, NO_TRANSACTION),
    (FindCoordinatorRequest(key_type=0, key="g"), 3, NO_GROUP),
    (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), None, NO_GROUP),
    (EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), None, NO_TRANSACTION),
    (AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"), None, NO_TRANSACTION),
    (AddPartitionsToTxnRequest(transactions=[]), 4, NO_CLUSTER),
    (DescribeTransactionsRequest(transactional_ids=["x"]), None, NO_TRANSACTION),
]


@story
async def test_coordinators_ask_for_rights_too(tmp_path: Path, authority: Authority) -> None:
    """Requests to coordinators are refused as by one, so that clients cannot probe groups or transactions."""
    async with secure_cluster(tmp_path, authority) as cluster:
        async with await cluster.connect(1, "alice") as alice:
            for request, version, error in COORDINATED:
                assert first_error(await alice.send(request, version)) is error, type(request).__name__
        await cluster.allow(READ, GROUP, "g")
        await cluster.allow(WRITE, TRANSACTIONAL_ID, "x")
        await cluster.allow(CLUSTER_ACTION)
        async with await cluster.connect(1, "alice") as alice:
            for request, version, error in COORDINATED:
                assert first_error(await alice.send(request, version)) is not error, type(request).__name__


@story
async def test_unauthorized_resources_are_left_out_of_descriptions(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        await create(cluster, "u")
        await cluster.allow(READ, TOPIC, "t")
        async with await cluster.connect(1, "alice") as alice:
            response = await alice.send(MetadataRequest(topics=None, include_topic_authorized_operations=True), 12)
            assert [each.name for each in response.topics] == ["t"]
            assert response.topics[0].topic_authorized_operations == 1 << READ | 1 << DESCRIBE
            missing = MetadataRequest(topics=[MetadataRequestTopic(name="no-such")], allow_auto_topic_creation=True)
            assert first_error(await alice.send(missing, 12)) is NO_TOPIC
            mixed = produce(topic="u")
            mixed.topic_data += produce().topic_data
            answer = await alice.send(mixed, 9)
            assert {each.name: each.partition_responses[0].error_code for each in answer.responses} == {
                "t": NO_TOPIC,
                "u": NO_TOPIC,
            }
        await cluster.allow(DESCRIBE, TOPIC, "no-such")
        async with await cluster.connect(1, "alice") as alice:
            assert first_error(await alice.send(missing, 12)) is NO_TOPIC, "it may not make the topic"
            missing.allow_auto_topic_creation = False
            assert first_error(await alice.send(missing, 12)) is Errors.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.allow(WRITE, TOPIC, "u")
        async with await cluster.connect(1, "alice") as alice:
            mixed = produce(topic="u")
            mixed.topic_data += produce().topic_data
            answer = await alice.send(mixed, 9)
            assert {each.name: each.partition_responses[0].error_code for each in answer.responses} == {
                "t": NO_TOPIC,
                "u": 0,
            }
        assert cluster.brokers[1].runtime.manager.partitions["t", 0].log.end_offset == 0


@story
async def test_a_refused_produce_with_acks_0_closes_the_connection(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        with pytest.raises(DisconnectedError):
            async with await cluster.connect(1, "alice") as alice:
                await alice.send(produce(acks=0), 9)
                await alice.send(MetadataRequest(topics=[]))
        assert cluster.brokers[1].runtime.manager.partitions["t", 0].log.end_offset == 0


@story
async def test_a_produce_with_acks_0_that_is_refused_in_part_closes_the_connection(
    tmp_path: Path, authority: Authority
) -> None:
    """The allowed part is written (KafkaApis.handleProduceRequest, errorInResponse)."""
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        await create(cluster, "u")
        await cluster.allow(WRITE, TOPIC, "u")
        mixed = produce(topic="u", acks=0)
        mixed.topic_data += produce().topic_data
        async with await cluster.connect(1, "alice") as alice:
            with pytest.raises(DisconnectedError):
                await alice.send(mixed, 9)
        partitions = cluster.brokers[1].runtime.manager.partitions
        assert [partitions[name, 0].log.end_offset for name in ("t", "u")] == [0, 1]


@story
async def test_alter_replica_log_dirs_needs_alter(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])])
        assert first_error(await cluster.ask("alice", request)) is NO_CLUSTER
        await cluster.allow(ALTER)
        assert first_error(await cluster.ask("alice", request)) is Errors.LOG_DIR_NOT_FOUND


def test_no_setting_is_shown(tmp_path: Path, authority: Authority) -> None:
    settings = broker_settings_of(SecureCluster(tmp_path, authority).properties(OF_BROKER, 1))
    assert PASSWORD not in repr(settings) and "a secret" not in repr(settings)
    assert PASSWORD not in repr(settings.listeners) + repr(settings.controllers)
