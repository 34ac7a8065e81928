"""kcore's brokers beside Kafka's, over SASL_SSL with SCRAM, under Kafka's controllers and kcore's: who may do what.

Brokers 1 and 2 are kcore's, broker 3 is Kafka's. The table has requests of users without rights, and with a few: both
kinds of broker must answer them alike. Under Kafka's controllers broker 3 answers as in a cluster that is all Kafka's.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kcore import schema as s
from kcore.errors import ClusterFileError, NetworkError
from kcore.net.connect import connect
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.protocol_errors import Errors
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.committed_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from kcore.schema.configs import DescribeConfigsRequest, DescribeConfigsResource
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest, DescribeDelegationTokenRequest
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.group_listing import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
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
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.producers import DescribeProducersRequest, DescribeTransactionsRequest, TopicRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kcore.schema.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kcore.sources.load import load_cluster
from kcore.types import ZERO_UUID
from net.authority import Authority, client_tls
from oracle.kafka_tools import ACLS, CONSOLE_CONSUMER, OLDER_RELEASE, RELEASE, TOPICS
from oracle.kcore_brokers import until
from oracle.kraft.test_kraft_security import CONSOLE_PRODUCER
from oracle.kraft_clusters import FIRST_CONTROLLER, UNCORDONED, KraftCluster
from oracle.zk.test_listener_security import (
    COMERS,
    LIMITS,
    OF_BOTH,
    OF_BROKERS,
    OF_CONTROLLERS,
    PASSWORD,
    TALKS,
    USERS,
    comes,
    says,
)
from storage import building

TOPIC: Final = "t"
OTHERS: Final = ("bob", "carol")  # Users of the table: one without rights, one with those of CAROLS.
CAROLS: Final = (
    *("--topic", TOPIC, "--topic", "missing", "--group", "g", "--transactional-id", "x"),
    *("--operation", "Describe"),
)
CREATES: Final = "auto.create.topics.enable=true\n"


class SecureMixed(KraftCluster):
    """Brokers 1 and 2 are kcore's."""

    def __init__(self, authority: Authority, *, real_controllers: bool, release: str) -> None:
        self.authority = authority
        both = OF_BOTH.format(keystore=authority.keystore("node"), trusted=authority.trusted)
        words = {"plain": MODULES["PLAIN"], "scram": MODULES["SCRAM-SHA-512"], "password": PASSWORD}
        scram = [f"SCRAM-SHA-512=[name={name},password={PASSWORD}]" for name in (*USERS, *OTHERS)]
        super().__init__(
            controllers=1,
            brokers=3,
            properties=OF_CONTROLLERS.format(**words) + both,
            of_brokers=OF_BROKERS.replace("{address}", "{{address}}").format(**words) + both + CREATES + UNCORDONED,
            options=[option for each in scram for option in ("--add-scram", each)],
            real=[FIRST_CONTROLLER] if real_controllers else [],
            kcore_brokers=[1, 2],
            release=release,
        )

    def user(self, name: str) -> tuple[object, ...]:
        """Options of a tool that comes to all brokers as that user."""
        config = self.folder / f"{name}.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.authority.trusted}\n"
            f'sasl.jaas.config={MODULES["SCRAM-SHA-512"]} required username="{name}" password="{PASSWORD}";\n'
        )
        return ("--bootstrap-server", self.bootstrap, "--command-config", config)

    def refused(self, main: str, *arguments: object, given: str | None = None) -> str:
        """Runs a tool that must fail or complain, and returns all that it prints."""
        _, printed, complaints = self.try_tool(main, *arguments, given=given)
        return printed + complaints

    def allow(self, name: str, *rule: object) -> None:
        self.tool(ACLS, *self.user("admin"), "--add", "--allow-principal", f"User:{name}", *rule)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=[("kafka", RELEASE), ("kcore", RELEASE), ("kafka", OLDER_RELEASE)], ids=str)
def cluster(request: pytest.FixtureRequest, authority: Authority) -> Iterator[SecureMixed]:
    controllers, release = request.param
    with SecureMixed(authority, real_controllers=controllers == "kafka", release=release) as made:
        replicas = "1:2:3,2:3:1,3:1:2"
        made.tool(TOPICS, *made.user("admin"), "--create", "--topic", TOPIC, "--replica-assignment", replicas)
        yield made


def written_to(port: int, authority: Authority, partition: int) -> None:
    """By an administrator, to the leader of a partition, until all of its replicas have it."""
    data = [PartitionProduceData(index=partition, records=building.batch(0, (b"v",)))]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
    response = asyncio.run(asked(port, authority, "admin", request, 9))
    assert {each.rpartition(" ")[2] for each in response} == {"NONE"}, (partition, response)


def test_stock_tools_with_rights_and_without(cluster: SecureMixed) -> None:
    """Every partition has another leader: each kind of broker leads some and follows the other kind."""
    values = [f"v{number}" for number in range(30)]
    admin = cluster.user("admin")
    cluster.tool(CONSOLE_PRODUCER, *admin, "--topic", TOPIC, given="\n".join([*values, ""]))
    for node in cluster.brokers:
        written_to(node.port, cluster.authority, node.node_id - 1)
    described = cluster.tool(TOPICS, *admin, "--describe", "--topic", TOPIC)
    assert all(f"Leader: {leader}" in described for leader in (1, 2, 3))
    until(
        lambda: cluster.tool(TOPICS, *admin, "--describe", "--under-replicated-partitions").strip() == "",
        lambda: cluster.tool(TOPICS, *admin, "--describe"),
        within_s=60,
    )
    alice = cluster.user("alice")
    write = (CONSOLE_PRODUCER, *alice, "--topic", TOPIC)
    assert "TopicAuthorizationException" in cluster.refused(*write, given="no\n")
    one = ("--partition", 0, "--offset", "earliest", "--max-messages", 1, "--timeout-ms", 30_000)
    reads = (CONSOLE_CONSUMER, *alice, "--topic", TOPIC, *one)
    assert "TopicAuthorizationException" in cluster.refused(*reads)
    cluster.allow("alice", "--topic", TOPIC, "--operation", "Write", "--operation", "Read")
    until(
        lambda: "Exception" not in cluster.refused(*write, given="yes\n"), lambda: "alice may not write", within_s=120
    )
    until(lambda: cluster.try_tool(*reads)[1].strip(), lambda: "alice may not read", within_s=120)


def test_who_may_make_a_topic_is_decided_by_who_asks(cluster: SecureMixed) -> None:
    """The controller sees the user's name in the envelopes of kcore's broker."""
    broker = ("--bootstrap-server", cluster.brokers[0].address, *cluster.user("alice")[2:])
    creates = (TOPICS, *broker, "--create", "--topic", "alices", "--replica-assignment", "1:3")
    assert "TopicAuthorizationException" in cluster.refused(*creates)
    cluster.allow("alice", "--topic", "alices", "--operation", "Create")
    until(lambda: cluster.try_tool(*creates)[0] == 0, lambda: "alice may not create", within_s=120)
    assert "alices" in cluster.tool(TOPICS, *cluster.user("admin"), "--list")


def test_the_brokers_are_a_cluster_to_measure_for_who_may_describe_it(cluster: SecureMixed, tmp_path: Path) -> None:
    """`--cluster` and `--command-config` of bench, storm, whatif and image; each other client is refused in a line."""
    of_admin = Path(cluster.user("admin")[-1])
    live = load_cluster(cluster.bootstrap, command_config=of_admin)
    assert live.brokers.ids.tolist() == [1, 2, 3] and len(live.partition(TOPIC, 0).isr) == 3
    assert all(all(live.partition(TOPIC, each).directories) for each in range(3))
    for text, replaced, refusal in (
        ('name="admin"', 'name="bob"', "CLUSTER_AUTHORIZATION_FAILED"),
        (f'password="{PASSWORD}"', 'password="wrong"', "uthentication"),
        ("=SASL_SSL", "=SASL_PLAINTEXT", "."),
        ("=SASL_SSL", "=SSL", "."),
    ):
        config = tmp_path / "other.properties"
        config.write_text(of_admin.read_text().replace(text, replaced))
        with pytest.raises(ClusterFileError, match=refusal) as refused:
            load_cluster(cluster.bootstrap, command_config=config)
        assert "\n" not in str(refused.value) and PASSWORD not in str(refused.value)


# Requests that both kinds of broker must answer alike.


def described(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource])


def produced(acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=building.batch(0, (b"v",))) for index in (0, 1)]
    topics = [TopicProduceData(name=name, partition_data=data) for name in (TOPIC, "missing")]
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics)


def fetched(replica_id: int = -1) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100) for index in (0, 1)]
    topics = [FetchTopic(topic=name, partitions=partitions) for name in (TOPIC, "missing")]
    return FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, topics=topics)


def named(*names: str, creates: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=each) for each in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=creates)


ANY_ACL: Final = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
TABLE: Final[dict[str, tuple[Callable[[], Message], int | None]]] = {
    "Produce": (produced, 9),
    "Produce with acks 0": (lambda: produced(0), 9),
    "Fetch": (fetched, 12),
    "Fetch of a follower": (lambda: fetched(2), 12),
    "ListOffsets": (
        lambda: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name="missing", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
            ],
        ),
        9,
    ),
    "OffsetForLeaderEpoch": (
        lambda: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[OffsetForLeaderTopic(topic="missing", partitions=[OffsetForLeaderPartition(leader_epoch=0)])],
        ),
        4,
    ),
    "Metadata of topics": (lambda: named(TOPIC, "missing", "secret"), 12),
    "Metadata of topics that nobody may make": (lambda: named(TOPIC, "missing", "secret", creates=False), 12),
    "Metadata of all": (lambda: MetadataRequest(topics=None), 12),
    "DeleteRecords": (
        lambda: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=5_000,
        ),
        2,
    ),
    "DescribeProducers": (
        lambda: DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0, 1])]),
        None,
    ),
    "InitProducerId": (lambda: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4),
    "InitProducerId of a transaction": (
        lambda: InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1),
        4,
    ),
    "WriteTxnMarkers": (
        lambda: WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0, 1])],
                )
            ]
        ),
        1,
    ),
    "DescribeLogDirs": (lambda: DescribeLogDirsRequest(topics=None), 4),
    "AlterReplicaLogDirs": (
        lambda: AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path="/x", topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0, 1])])]
        ),
        2,
    ),
    "DescribeConfigs of a topic": (lambda: described(2, TOPIC), 4),
    "DescribeConfigs of brokers": (lambda: described(4, ""), 4),
    "DescribeConfigs of a group": (lambda: described(32, "secret"), 4),
    "DescribeAcls": (lambda: DescribeAclsRequest(**ANY_ACL), 3),
    "DescribeUserScramCredentials": (lambda: DescribeUserScramCredentialsRequest(users=[]), 0),
    "FindCoordinator of groups": (lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=["h", "i"]), 4),
    "FindCoordinator of transactions": (lambda: FindCoordinatorRequest(key_type=1, coordinator_keys=["y"]), 4),
    "FindCoordinator of a group": (lambda: FindCoordinatorRequest(key_type=0, key="h"), 3),
    "JoinGroup": (
        lambda: JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        5,
    ),
    "SyncGroup": (lambda: SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]), 3),
    "Heartbeat": (lambda: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
    "LeaveGroup": (lambda: LeaveGroupRequest(group_id="g", member_id="m"), 2),
    "OffsetFetch": (
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="h", topics=None)], require_stable=False),
        8,
    ),
    "DescribeGroups": (lambda: DescribeGroupsRequest(groups=["h"]), 5),
    "DeleteGroups": (lambda: DeleteGroupsRequest(groups_names=["g"]), 2),
    "ListGroups": (lambda: ListGroupsRequest(states_filter=[]), 4),
    "AddPartitionsToTxn": (
        lambda: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        ),
        3,
    ),
    "AddPartitionsToTxn of brokers": (lambda: AddPartitionsToTxnRequest(transactions=[]), 4),
    "AddOffsetsToTxn": (
        lambda: AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"),
        3,
    ),
    "EndTxn": (lambda: EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 3),
    "DescribeTransactions": (lambda: DescribeTransactionsRequest(transactional_ids=["y"]), 0),
    "CreateTopics": (
        lambda: CreateTopicsRequest(
            topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)], timeout_ms=5_000
        ),
        7,
    ),
    "CreatePartitions": (
        lambda: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=TOPIC, count=9)], timeout_ms=5_000),
        3,
    ),
    "DeleteTopics": (
        lambda: DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC, topic_id=ZERO_UUID)], timeout_ms=5_000),
        6,
    ),
    "IncrementalAlterConfigs": (
        lambda: s.IncrementalAlterConfigsRequest(
            resources=[
                s.configs.IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=2, resource_name=TOPIC, configs=[]
                )
            ]
        ),
        1,
    ),
    "CreateAcls": (lambda: s.CreateAclsRequest(creations=[]), 3),
    "DescribeQuorum": (lambda: s.DescribeQuorumRequest(), 1),
    "ListPartitionReassignments": (lambda: s.ListPartitionReassignmentsRequest(topics=None, timeout_ms=5_000), 0),
    "CreateDelegationToken": (lambda: CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
    "DescribeDelegationToken": (lambda: DescribeDelegationTokenRequest(owners=None), 3),
}


def errors_in(answer: Any) -> list[str]:
    """Each error of the answer with its message and its name, in order of their texts."""
    found = []
    for code in ("error_code", "partition_error_code"):
        if hasattr(answer, code):
            name = next((str(value) for key in ("name", "topic", "key") if (value := getattr(answer, key, None))), "")
            text = f"{name} {Errors.of(getattr(answer, code)).name} {getattr(answer, 'error_message', None) or ''}"
            found.append(text.strip())
    for name in type(answer).__slots__:
        value = getattr(answer, name, None)
        for each in value if isinstance(value, list) else ():
            if hasattr(type(each), "__slots__"):
                found += errors_in(each)
    return sorted(found)


async def asked(port: int, authority: Authority, name: str, request: Message, version: int | None) -> list[str]:
    security = Security(client_tls(authority.trusted), Sasl("SCRAM-SHA-512", name, PASSWORD))
    async with await connect("127.0.0.1", port, security=security, limits=LIMITS) as connection:
        try:
            if isinstance(request, ProduceRequest) and not request.acks:
                await connection.send(request, version)
                return errors_in(await connection.send(MetadataRequest(topics=[]), 12))
            return errors_in(await connection.send(request, version))
        except NetworkError as error:
            return [type(error).__name__]


async def all_answers(port: int, authority: Authority) -> dict[str, Any]:
    tls = client_tls(authority.trusted)
    answers: dict[str, Any] = {name: await comes(port, tls, *who) for name, who in COMERS.items()}
    answers |= {name: await says(port, tls, *talk) for name, talk in TALKS.items()}
    for user in OTHERS:
        for name, (make, version) in TABLE.items():
            answers[f"{name} of {user}"] = await asked(port, authority, user, make(), version)
    return answers


JAVA: Final = "Request Request("  # Kafka shows an object of its own in place of the principal.


def without_objects(given: Any) -> Any:
    """Kafka's text without that."""
    if isinstance(given, dict):
        return {key: without_objects(value) for key, value in given.items()}
    if isinstance(given, list):
        return [without_objects(each) for each in given]
    if isinstance(given, str) and JAVA in given:
        before, _, behind = given.partition(JAVA)
        return f"{before}Principal {behind.rpartition(')')[2].strip()}"
    if isinstance(given, str) and "Principal User:" in given:
        before, _, behind = given.partition("Principal User:")
        return f"{before}Principal {behind.partition(' ')[2]}"
    return given


def test_both_kinds_of_broker_say_the_same(cluster: SecureMixed, authority: Authority) -> None:
    cluster.allow("carol", *CAROLS)
    ports = cluster.brokers[0].port, cluster.brokers[2].port

    def may_describe(port: int) -> bool:
        found = asyncio.run(asked(port, authority, "carol", named("missing", creates=False), 12))
        return "missing UNKNOWN_TOPIC_OR_PARTITION" in found

    until(lambda: all(map(may_describe, ports)), lambda: "carol has no rights", within_s=120)
    kcore, kafka = (without_objects(asyncio.run(all_answers(port, authority))) for port in ports)
    wrong = [
        f"{key}: kcore {kcore[key]}, Kafka {kafka[key]}" for key in kafka if _text(kcore[key]) != _text(kafka[key])
    ]
    assert not wrong, "\n".join(wrong)
    assert len(kafka) == len(COMERS) + len(TALKS) + len(OTHERS) * len(TABLE)


def _text(value: Any) -> str:
    return str(value).replace("127.0.0.1:", "")


def test_nobody_complained(cluster: SecureMixed) -> None:
    for node in cluster.brokers[:2]:
        text = node.log.read_text()
        assert " ERROR " not in text and "Traceback" not in text and PASSWORD not in text
