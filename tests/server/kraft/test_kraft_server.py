"""A KRaft controller as a process of one voter: its answers to clients over sockets."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any

import pytest

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.departures import LEADERS_NAMED
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.errors import NetworkError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.large_requests import LONG
from kcore.net.requests import FEW_VALUES
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.schema.acls import AclCreation, CreateAclsRequest, DescribeAclsRequest
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest, Feature, Listener
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.fetch import FetchRequest, ReplicaState
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.partitions import (
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    TopicPartitions,
)
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.raft_voters import RemoveRaftVoterRequest
from kcore.schema.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from kcore.server.kraft_controller import envelope_requests
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.security.audit import AuditLog
from kcore.types import Uuid
from kcore.wire.codec import decode_from, encode
from kraft_configs import controller_config

pytestmark = pytest.mark.usefixtures("either_answer_loop")

CLUSTER = "a-cluster-of-the-tests"
OWN = Uuid((1 << 70).to_bytes(16))
LEVELS = {"metadata.version": 30, "group.version": 1}


def served(
    story: Callable[[KraftServer, Connection], Awaitable[None]],
    port: int,
    audit: AuditLog | None = None,
    **settings: Any,
) -> None:
    """The story of one client of an active controller."""

    async def run() -> None:
        release = settings.get("release", DEFAULT_RELEASE)
        config = controller_config(7, CLUSTER, supported_features=RELEASES[release].supported_features, **settings)
        where = {"CONTROLLER": Address("127.0.0.1", port)}
        raft = RaftConfig(CLUSTER, 7, OWN, where, lambda bound: 0, voters=(Voter(ReplicaKey(7), where),))
        bootstrap = Bootstrap.of_features(LEVELS, "a test")
        parts = config, raft, MemoryLog(), MemoryElections(), bootstrap
        server = KraftServer(*parts, host="127.0.0.1", port=port, audit=audit)
        async with server, asyncio.timeout(30):
            may_register = "super_users" not in settings or "User:ANONYMOUS" in settings["super_users"]
            while server.controller.stable < 5 or (may_register and 7 not in server.controller.image.controllers):
                await asyncio.sleep(0.01)
            async with await connect("127.0.0.1", server.port) as connection:
                await story(server, connection)

    asyncio.run(run())


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def registration() -> BrokerRegistrationRequest:
    features = [Feature(name=name, min_supported_version=1, max_supported_version=30) for name in LEVELS]
    return BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER,
        incarnation_id=OWN,
        listeners=[Listener(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
        features=features,
        log_dirs=[OWN],
    )


def test_no_event_pays_for_an_import() -> None:
    """NumPy imports a module at the first call of np.unique, which takes longer than an event may."""
    lines = (
        "import sys, numpy, kcore.server.kraft_controller.kraft_controller_server",
        "before = {*sys.modules}",
        "numpy.unique(numpy.zeros(3))",
    )
    check = "sys.exit(sorted({*sys.modules} - before) or None)"
    subprocess.run([sys.executable, "-c", "; ".join((*lines, check))], check=True)


def test_api_versions_tell_what_is_finalized(port: int) -> None:
    async def story(server: KraftServer, connection: Connection) -> None:
        response = await connection.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
        assert {each.name: each.max_version_level for each in response.finalized_features} == LEVELS
        assert {each.name: (each.min_version, each.max_version) for each in response.supported_features} == dict(
            RELEASES[DEFAULT_RELEASE].supported_features
        )
        assert len(response.api_keys) == len(RELEASES[DEFAULT_RELEASE].apis)
        assert 0 < response.finalized_features_epoch < server.controller.stable

    served(story, port)


@pytest.mark.parametrize(("release", "oldest"), [("4.3.1", 7), ("3.9.1", 1)])
def test_the_oldest_metadata_version_is_shown_until_one_is_committed(port: int, release: str, oldest: int) -> None:
    """As FeaturesPublisher begins; two voters of three never come, so that nothing is."""

    async def run() -> None:
        config = controller_config(7, CLUSTER, release=release, supported_features=RELEASES[release].supported_features)
        where = {"CONTROLLER": Address("127.0.0.1", port)}
        voters = tuple(Voter(ReplicaKey(node_id), where) for node_id in (7, 8, 9))
        raft = RaftConfig(CLUSTER, 7, OWN, where, lambda bound: 0, voters=voters)
        bootstrap = Bootstrap.of_features(LEVELS, "a test")
        storage = MemoryLog(), MemoryElections()
        async with (
            KraftServer(config, raft, *storage, bootstrap, host="127.0.0.1", port=port, stop_ms=10) as server,
            asyncio.timeout(30),
            await connect("127.0.0.1", server.port) as connection,
        ):
            server.runtime.take("a test", lambda now_ms: [])
            response = await connection.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
            assert {each.name: each.max_version_level for each in response.finalized_features} == {FEATURE_NAME: oldest}
            assert response.finalized_features_epoch == -1

    asyncio.run(run())


def test_a_broker_registers_and_lives(port: int) -> None:
    async def story(server: KraftServer, connection: Connection) -> None:
        registered = await connection.send(registration())
        assert registered.error_code == 0 and registered.broker_epoch > 0
        assert server.controller.committed > registered.broker_epoch, "answered at the commit"
        response = await connection.send(
            BrokerHeartbeatRequest(
                broker_id=1, broker_epoch=registered.broker_epoch, current_metadata_offset=registered.broker_epoch
            )
        )
        assert (response.error_code, response.is_fenced) == (0, False)
        assert not server.controller.image.brokers[1].fenced

    served(story, port)


def test_the_controller_knows_itself(port: int) -> None:
    async def story(server: KraftServer, connection: Connection) -> None:
        response = await connection.send(DescribeClusterRequest(endpoint_type=2))
        assert (response.error_code, response.controller_id) == (0, 7)
        assert [(each.broker_id, each.port) for each in response.brokers] == [(7, server.port)]

    served(story, port)


def test_the_rules_know_what_raft_knows(port: int) -> None:
    async def story(server: KraftServer, connection: Connection) -> None:
        view = server.controller.context.raft
        assert (view.voter_ids, view.kraft_version) == ({7}, 0)
        assert view.kraft_version_problem(99) is not None, "the voters do not support it"

    served(story, port)


def enveloped(
    request: Message,
    version: int,
    address: bytes = b"\x0a\0\0\1",
    of_principal: int = 0,
    client_id: str | None = None,
    *,
    is_token: bool = False,
) -> EnvelopeRequest:
    head = RequestHeader(
        request_api_key=request.api_key, request_api_version=version, correlation_id=77, client_id=client_id
    )
    data = encode(head, request.header_version(version)) + encode(request, version)
    who = DefaultPrincipalData(type="User", name="alice", token_authenticated=is_token)
    whole = Struct(">h").pack(of_principal) + encode(who, 0)
    return EnvelopeRequest(request_data=data, request_principal=whole, client_host_address=address)


@pytest.mark.covers("KRaft D8")
def test_what_a_broker_hands_on_is_its_client_s(port: int) -> None:
    """The answer comes within another; what may not be handed on is refused as Kafka does."""
    listing = ListPartitionReassignmentsRequest(topics=None)

    async def story(server: KraftServer, connection: Connection) -> None:
        response = await connection.send(enveloped(listing, 0))
        assert response.error_code == 0
        head, at = decode_from(ResponseHeader, 1, response.response_data)
        inner, _ = decode_from(ListPartitionReassignmentsResponse, 0, response.response_data, at)
        assert (head.correlation_id, inner.error_code) == (77, Errors.CLUSTER_AUTHORIZATION_FAILED)
        beat = BrokerHeartbeatRequest(broker_id=1)
        for odd, error in (
            (enveloped(beat, 0), Errors.INVALID_REQUEST),
            (enveloped(listing, 0, address=b"\1"), Errors.INVALID_REQUEST),
            (enveloped(listing, 0, of_principal=9), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
            (EnvelopeRequest(request_data=b"\0", request_principal=None), Errors.PRINCIPAL_DESERIALIZATION_FAILURE),
        ):
            assert Errors((await connection.send(odd)).error_code) is error

    super_user = {"has_authorizer": True, "super_users": ("User:ANONYMOUS",)}
    served(story, port, **super_user)


@pytest.mark.covers("KRaft D8")
def test_a_handler_knows_all_that_a_broker_says_of_its_client(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotas look at the client's id, ACLs at its address, tokens at how it authenticated."""
    seen: list[RequestInfo] = []

    def looks(_: Any, request: ListPartitionReassignmentsRequest, info: RequestInfo) -> Decision:
        seen.append(info)
        return Decision(ListPartitionReassignmentsResponse())

    monkeypatch.setitem(HANDLERS, ListPartitionReassignmentsRequest, looks)
    listing = ListPartitionReassignmentsRequest(topics=None)

    async def story(server: KraftServer, connection: Connection) -> None:
        for is_token in (False, True):
            response = await connection.send(enveloped(listing, 0, client_id="c", is_token=is_token))
            assert response.error_code == 0
        await connection.send(listing)

    served(story, port)
    assert [
        (str(each.principal), each.client_address, each.client_id, each.is_token_authenticated, each.is_forwarded)
        for each in seen
    ] == [
        ("User:alice", "10.0.0.1", "c", False, True),
        ("User:alice", "10.0.0.1", "c", True, True),
        ("User:ANONYMOUS", "127.0.0.1", "kcore", False, False),
    ]
    assert {(each.listener, each.security_protocol) for each in seen} == {("CONTROLLER", "PLAINTEXT")}


def test_a_version_that_the_controller_does_not_have_comes_in_no_envelope_either(port: int) -> None:
    """4.x has no DeleteTopics 0, which is a version of Kafka's all the same."""
    request = DeleteTopicsRequest(topic_names=["t"])

    async def story(server: KraftServer, connection: Connection) -> None:
        for version, error in ((0, Errors.UNSUPPORTED_VERSION), (1, Errors.NONE)):
            response = await connection.send(enveloped(request, version))
            assert Errors(response.error_code) is error

    served(story, port)


DESCRIBE_METADATA = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData()]
        )
    ]
)
REMOVE_VOTER = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=8, voter_directory_id=OWN)
AS_KAFKA = frozenset({LEADERS_NAMED})


@pytest.mark.parametrize(
    "kafka_way",
    [pytest.param(frozenset[str](), id="kcore"), pytest.param(AS_KAFKA, id="kafka", marks=pytest.mark.long)],
)
def test_a_standby_sends_a_broker_with_a_request_about_the_quorum_elsewhere(
    kafka_way: frozenset[str], port: int
) -> None:
    """Otherwise the broker hands the refusal on, and asks the same standby whenever its client tries again.

    Kafka's standby does so for a change of the voters.
    """
    own, other = ({"CONTROLLER": Address("127.0.0.1", each)} for each in (port, free_ports(1)[0]))
    voters = Voter(ReplicaKey(7), own), Voter(ReplicaKey(8), other)

    async def run() -> None:
        config = controller_config(
            7, CLUSTER, supported_features=RELEASES[DEFAULT_RELEASE].supported_features, kafka_way=kafka_way
        )
        raft = RaftConfig(CLUSTER, 7, OWN, own, lambda bound: 0, voters=voters)
        bootstrap = Bootstrap.of_features(LEVELS, "a test")
        server = KraftServer(config, raft, MemoryLog(), MemoryElections(), bootstrap, host="127.0.0.1", port=port)
        async with server, asyncio.timeout(30), await connect("127.0.0.1", server.port) as connection:
            requests = (DESCRIBE_METADATA, 2), (REMOVE_VOTER, 0)
            response = [Errors((await connection.send(enveloped(*each))).error_code) for each in requests]
            assert response == [Errors.NOT_CONTROLLER, Errors.NONE if kafka_way else Errors.NOT_CONTROLLER]
            refused_here = await connection.send(DESCRIBE_METADATA)
            assert refused_here.topics[0].partitions[0].error_code == Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(run())


def test_raft_s_requests_need_the_right_to_act_for_the_cluster(port: int) -> None:
    async def story(server: KraftServer, connection: Connection) -> None:
        response = await connection.send(DescribeQuorumRequest(topics=[]))
        assert Errors(response.error_code) is Errors.CLUSTER_AUTHORIZATION_FAILED

    served(story, port, has_authorizer=True, super_users=("User:other",))


@pytest.mark.parametrize("may_register", [True, False])
def test_only_who_may_register_has_another_cluster_named_in_the_log(
    port: int, caplog: pytest.LogCaptureFixture, may_register: bool
) -> None:
    """A line tells an operator to format directories: a stranger must not be able to write it."""
    foreign = registration()
    foreign.cluster_id = "another"
    fetch = FetchRequest(cluster_id="another", replica_state=ReplicaState(replica_id=1))

    async def story(server: KraftServer, connection: Connection) -> None:
        for request in (foreign, fetch):
            response = await connection.send(request)
            error = Errors.INCONSISTENT_CLUSTER_ID if may_register else Errors.CLUSTER_AUTHORIZATION_FAILED
            assert Errors(response.error_code) is error

    who = "User:ANONYMOUS" if may_register else "User:other"
    served(story, port, has_authorizer=True, super_users=(who,))
    lines = [each.getMessage() for each in caplog.records if "formatted for cluster" in each.getMessage()]
    assert len(lines) == may_register


def test_sasl_is_over_before_it_begins(port: int) -> None:
    async def story(server: KraftServer, connection: Connection) -> None:
        response = await connection.send(SaslHandshakeRequest(mechanism="PLAIN"))
        assert Errors(response.error_code) is Errors.ILLEGAL_SASL_STATE
        response = await connection.send(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"))
        assert Errors(response.error_code) is Errors.ILLEGAL_SASL_STATE
        assert response.error_message == "SaslAuthenticate request received after successful authentication"

    served(story, port)


def test_a_large_request_in_an_envelope_is_read_beside_the_event_loop(port: int) -> None:
    """One at a time with other large requests, while others are answered."""
    many = CreateAclsRequest(creations=[AclCreation()] * (FEW_VALUES + 1))

    async def story(server: KraftServer, connection: Connection) -> None:
        inner = server.handlers._server
        assert inner is not None
        async with inner.apis.reading, await connect("127.0.0.1", server.port) as other:
            large = connection.send(enveloped(many, 3))
            for _ in range(100):  # It would be read by then.
                assert (await other.send(enveloped(DescribeQuorumRequest(topics=[]), 2))).error_code == Errors.NONE
            assert not large.done()
        assert Errors((await large).error_code) is Errors.UNSUPPORTED_VERSION, "of unknown kinds"

    served(story, port)


@pytest.mark.parametrize("has_authorizer", [True, False])
def test_a_client_s_values_in_an_envelope_are_fewer_where_there_is_an_authorizer(
    port: int, has_authorizer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value needs an authorization."""
    monkeypatch.setattr(envelope_requests, "CLIENT_VALUES", 2)
    settings = {"has_authorizer": True, "super_users": ("User:ANONYMOUS",)} if has_authorizer else {}

    async def story(server: KraftServer, connection: Connection) -> None:
        for count in (2, 3):
            told = await connection.send(enveloped(DeleteTopicsRequest(topic_names=["t"] * count), 1))
            is_refused = has_authorizer and count > 2
            assert Errors(told.error_code) is (Errors.UNSUPPORTED_VERSION if is_refused else Errors.NONE)

    served(story, port, **settings)


def test_a_large_request_in_an_envelope_and_its_response_are_freed_in_parts(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[list[int]] = []

    async def noted(lists: list[list[Any]]) -> None:
        freed.append([*map(len, lists)])

    monkeypatch.setattr(envelope_requests, "let_go", noted)
    monkeypatch.setattr(envelope_requests, "PIECE_BYTES", 1_000)
    topics = [CreatableTopic(name=f"t{each}", num_partitions=1, replication_factor=1) for each in range(LONG + 1)]

    async def story(server: KraftServer, connection: Connection) -> None:
        for request in (CreateTopicsRequest(topics=topics[:1]), CreateTopicsRequest(topics=topics)):
            assert (await connection.send(enveloped(request, 7))).error_code == Errors.NONE

    served(story, port)
    assert freed == [[LONG + 1, LONG + 1]]


def test_acls_of_unknown_kinds_are_no_request(port: int) -> None:
    """Kafka's parser refuses them: the connection is closed, and an envelope says UNSUPPORTED_VERSION."""
    listing = DescribeAclsRequest(resource_type_filter=0, pattern_type_filter=3, operation=2, permission_type=3)

    async def story(server: KraftServer, connection: Connection) -> None:
        response = await connection.send(enveloped(CreateAclsRequest(creations=[AclCreation()]), 3))
        assert Errors(response.error_code) is Errors.UNSUPPORTED_VERSION
        with pytest.raises(NetworkError):
            await connection.send(listing)

    served(story, port)


def test_a_fault_that_a_client_repeats_does_not_fill_the_log(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def falls_over(*_: Any) -> Decision:
        raise ValueError("a bug")

    monkeypatch.setitem(HANDLERS, CreateTopicsRequest, falls_over)

    async def story(server: KraftServer, connection: Connection) -> None:
        for _ in range(100):
            response = await connection.send(CreateTopicsRequest(topics=[CreatableTopic(name="x")]))
            assert Errors(response.topics[0].error_code) is Errors.UNKNOWN_SERVER_ERROR

    served(story, port)
    lines = [each.message for each in caplog.records if "CreateTopicsRequest failed" in each.message]
    assert 0 < len(lines) < 30
    assert "ValueError: a bug; in falls_over (" in lines[0]


def test_elect_leaders_0_is_refused_in_its_items(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That version of the response has no error at its top."""

    def refuses(_: Any, request: ElectLeadersRequest, info: Any) -> Decision:
        return Decision(refused(request, Errors.NOT_CONTROLLER))

    monkeypatch.setitem(HANDLERS, ElectLeadersRequest, refuses)

    async def story(server: KraftServer, connection: Connection) -> None:
        request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
        response = await connection.send(request, 0)
        [topic] = response.replica_election_results
        assert (response.error_code, topic.partition_result[0].error_code) == (Errors.NONE, Errors.NOT_CONTROLLER)

    served(story, port)


def test_a_request_that_makes_no_sense_costs_its_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Kafka's own request parser throws."""
    monkeypatch.setitem(HANDLERS, BrokerHeartbeatRequest, lambda *_: Decision())

    async def story(server: KraftServer, connection: Connection) -> None:
        with pytest.raises(NetworkError):
            await connection.send(BrokerHeartbeatRequest(broker_id=1))
        assert server.node.leads

    served(story, port)
