"""Authorization at a ZooKeeper-mode controller: requests are cut to their allowed parts, answers completed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kcore
from kcore import schema as s
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import DecodeError, DisconnectedError
from kcore.metadata.acl_codes import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    GROUP,
    IDEMPOTENT_WRITE,
    LITERAL,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.zookeeper import znode_acls
from kcore.metadata.zookeeper.znode_acls import AclBinding
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import CLIENT_VALUES, REQUEST_VALUES
from kcore.net.request_context import ClientSession
from kcore.net.versions import response_of
from kcore.node.zk.acls import AclAuthorizer, AclAuthorizerSettings, ZkAcls
from kcore.protocol_errors import Errors
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.cluster_metadata import MetadataResponseTopic
from kcore.schema.configs import (
    AlterConfigsResourceResponse,
    ConfigResourceType,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest, RenewDelegationTokenRequest
from kcore.schema.log_dirs import DescribeLogDirsRequest
from kcore.schema.partitions import CreatePartitionsTopic
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, DeleteTopicState
from kcore.schema.transactions import InitProducerIdRequest
from kcore.server.pipeline import request_of
from kcore.server.security.rights import OF_THE_CLUSTER
from kcore.server.zk_controller.zk_controller_authorization import ZkControllerAuthorization
from kcore.server.zk_controller.zk_controller_request_handlers import APIS, OF_TOKENS
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.server.zk_node.relay import refusal_of
from kcore.steps import finished
from kcore.types import ZERO_UUID, Uuid
from net.loops import context_in, request_frame, story, until
from server.zookeepers import Zookeeper, stand_in

ID = Uuid(b"i" * 16)
DENIED = Errors.TOPIC_AUTHORIZATION_FAILED
EVERY_ACL = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
OF_CLUSTER = CLUSTER, LITERAL, CLUSTER_NAME


def binding(
    operation: int, name: str = CLUSTER_NAME, kind: int = CLUSTER, *, pattern: int = LITERAL, permission: int = ALLOW
) -> AclBinding:
    return AclBinding(kind, pattern, name, "User:alice", "*", operation, permission)


def granted(*bindings: AclBinding) -> ZkControllerAuthorization:
    acls = ZkAcls()
    acls.is_read = True
    for each in bindings:
        acls.add(each, each)
    session = ClientSession("PLAINTEXT", "10.0.0.1")
    session.authenticated(KafkaPrincipal("alice"))
    return ZkControllerAuthorization(AclAuthorizer(AclAuthorizerSettings(), acls), session)


def names_by_id(topic_id: Uuid) -> str | None:
    return "id" if topic_id == ID else None


def test_every_api_of_the_controller_has_its_right() -> None:
    of_items = {
        *("CreateTopics", "CreatePartitions", "DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs"),
        *("DescribeConfigs", "Metadata", "DescribeCluster"),
    }
    nothing_is_told = {"ListGroups", "ListTransactions", "SaslHandshake", "SaslAuthenticate"}
    assert {*APIS} <= {*OF_THE_CLUSTER} | of_items | nothing_is_told | {*OF_TOKENS}


def test_a_token_for_another_needs_the_right_to_make_it() -> None:
    own = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None)
    others = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    assert granted().may_ask_token(own) and not granted().may_ask_token(others)
    assert granted(binding(CREATE_TOKENS, "User:bob", USER)).may_ask_token(others)
    assert granted().may_ask_token(RenewDelegationTokenRequest()), "whose the token is decides there"
    assert not granted().may_describe_token("id", "User:bob")
    assert granted(binding(DESCRIBE, "id", DELEGATION_TOKEN)).may_describe_token("id", "User:bob")
    assert granted(binding(DESCRIBE_TOKENS, "User:bob", USER)).may_describe_token("id", "User:bob")


def test_the_rights_to_the_cluster_are_those_that_kafka_asks_for() -> None:
    """authorizeClusterOperation in KafkaApis, handler by handler, and CLUSTER_ACTION of what brokers ask."""
    by_right = {
        ALTER: """
            AlterPartitionReassignments AlterUserScramCredentials CreateAcls DeleteAcls ElectLeaders UpdateFeatures
        """,
        ALTER_CONFIGS: "AlterClientQuotas",
        CLUSTER_ACTION: "AllocateProducerIds AlterPartition ControlledShutdown",
        DESCRIBE: "DescribeAcls DescribeLogDirs DescribeUserScramCredentials ListPartitionReassignments",
        DESCRIBE_CONFIGS: "DescribeClientQuotas",
    }
    assert {api: right for right, apis in by_right.items() for api in apis.split()} == OF_THE_CLUSTER


@pytest.mark.parametrize("api", OF_THE_CLUSTER)
def test_requests_about_the_cluster_need_the_right_to_it(api: str) -> None:
    right = OF_THE_CLUSTER[api]
    assert granted().refuses(api) and granted(binding(right, "t", TOPIC)).refuses(api)
    assert not granted(binding(right)).refuses(api)
    assert granted(binding(right), binding(ALL, permission=DENY)).refuses(api)


def test_topics_are_created_by_who_may() -> None:
    request = s.CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in ("a-1", "b-1", "a-2")], timeout_ms=7)
    authorization = granted(binding(CREATE, "a-", TOPIC, pattern=PREFIXED), binding(DESCRIBE_CONFIGS, "a-2", TOPIC))
    checked = authorization.check(request, names_by_id)
    left: Any = checked.request
    assert ([each.name for each in left.topics], left.timeout_ms) == (["a-1", "a-2"], 7)
    made = [
        CreatableTopicResult(
            name=name, error_message=None, num_partitions=3, replication_factor=1, configs=[CreatableTopicConfigs()]
        )
        for name in ("a-1", "a-2")
    ]
    response = s.CreateTopicsResponse(topics=made)
    authorization.hide_configs(response.topics)
    checked.complete(response)
    assert [(each.name, Errors(each.error_code), each.error_message) for each in response.topics] == [
        ("a-1", Errors.NONE, None),
        ("a-2", Errors.NONE, None),
        ("b-1", DENIED, "Authorization failed."),
    ]
    created = {each.name: (each.topic_config_error_code, each.num_partitions, each.configs) for each in response.topics}
    assert created["a-1"] == created["b-1"] == (DENIED, -1, None) and created["a-2"][:2] == (Errors.NONE, 3)
    assert not granted(binding(CREATE)).check(request, names_by_id).is_empty
    assert granted().check(request, names_by_id).is_empty


def test_topics_grow_and_go_by_who_may() -> None:
    growth = s.CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=2) for name in ("a", "b")])
    checked = granted(binding(ALTER, "a", TOPIC)).check(growth, names_by_id)
    response = s.CreatePartitionsResponse(results=[])
    checked.complete(response)
    assert [(each.name, each.error_code, each.error_message) for each in response.results] == [
        ("b", DENIED, "The topic authorization is failed.")
    ]
    states = [DeleteTopicState(name="a"), DeleteTopicState(name="b"), DeleteTopicState(name=None, topic_id=ID)]
    unknown = DeleteTopicState(name=None, topic_id=Uuid(b"u" * 16))
    deletion = s.DeleteTopicsRequest(topics=[*states, unknown])
    checked = granted(binding(DELETE, "a", TOPIC)).check(deletion, names_by_id)
    assert [each.name for each in checked.request.topics] == ["a"]  # type: ignore[attr-defined]
    gone = s.DeleteTopicsResponse()
    checked.complete(gone)
    assert [(each.name, each.topic_id, each.error_code) for each in gone.responses] == [
        ("b", ZERO_UUID, DENIED),
        (None, ID, DENIED),
        (None, unknown.topic_id, Errors.UNKNOWN_TOPIC_ID),
    ]
    guess = s.DeleteTopicsRequest(topics=[unknown])
    assert granted().check(guess, names_by_id).is_empty, "no event is made for a stranger"
    assert not granted().check(guess, None).is_empty, "where no topic is known it is answered NOT_CONTROLLER"
    checked = granted(binding(DESCRIBE, "id", TOPIC)).check(s.DeleteTopicsRequest(topics=[states[2]]), names_by_id)
    gone = s.DeleteTopicsResponse()
    checked.complete(gone)
    assert [(each.name, each.error_code) for each in gone.responses] == [("id", DENIED)]
    old = granted(binding(DELETE, "a", TOPIC)).check(s.DeleteTopicsRequest(topic_names=["a", "b"]), names_by_id)
    assert old.request.topic_names == ["a"] and not old.is_empty  # type: ignore[attr-defined]


@pytest.mark.parametrize("validate_only", [False, True])
def test_what_is_left_of_a_request_is_as_it_was_asked_for(validate_only: bool) -> None:
    """Only checked, or with its time, and of the topics that are allowed alone."""
    authorization = granted(*(binding(right, "a", TOPIC) for right in (CREATE, ALTER, DELETE)))
    requests = (
        s.CreateTopicsRequest(
            topics=[CreatableTopic(name=each) for each in "ab"], timeout_ms=7, validate_only=validate_only
        ),
        s.CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=each, count=2) for each in "ab"],
            timeout_ms=7,
            validate_only=validate_only,
        ),
        s.DeleteTopicsRequest(topics=[DeleteTopicState(name=each) for each in "ab"], timeout_ms=7),
    )
    for request in requests:
        checked = authorization.check(request, names_by_id)
        left: Any = checked.request
        assert ([each.name for each in left.topics], left.timeout_ms, checked.is_empty) == (["a"], 7, False)
        assert getattr(left, "validate_only", validate_only) is validate_only
        assert granted().check(request, names_by_id).is_empty
    old = authorization.check(s.DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=7), names_by_id)
    gone = s.DeleteTopicsResponse()
    old.complete(gone)
    assert [(each.name, each.error_code) for each in gone.responses] == [("b", DENIED)]


def test_who_names_a_topic_by_its_id_must_be_allowed_to_know_it() -> None:
    by_id, by_name = DeleteTopicState(name=None, topic_id=ID), DeleteTopicState(name="id")
    authorization = granted(binding(DELETE, "id", TOPIC), binding(DESCRIBE, "id", TOPIC, permission=DENY))
    checked = authorization.check(s.DeleteTopicsRequest(topics=[by_id, by_name]), names_by_id)
    assert checked.request.topics == [by_name]  # type: ignore[attr-defined]
    gone = s.DeleteTopicsResponse()
    checked.complete(gone)
    assert [(each.name, each.topic_id, each.error_code) for each in gone.responses] == [(None, ID, DENIED)]
    growth = s.CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)])
    assert granted(binding(DESCRIBE, "t", TOPIC)).check(growth, names_by_id).is_empty


def test_settings_are_changed_and_described_with_the_rights() -> None:
    kinds = [(ConfigResourceType.TOPIC, "a"), (ConfigResourceType.TOPIC, "b"), (ConfigResourceType.BROKER, "1000")]
    altered = s.IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name)
            for kind, name in kinds
        ],
        validate_only=True,
    )
    checked = granted(binding(ALTER_CONFIGS, "a", TOPIC)).check(altered, names_by_id)
    assert checked.request.validate_only and [each.resource_name for each in checked.request.resources] == ["a"]  # type: ignore[attr-defined]
    response = s.IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(resource_name="a")])
    checked.complete(response)
    assert [(each.resource_name, each.error_code) for each in response.responses] == [
        ("a", Errors.NONE),
        ("b", DENIED),
        ("1000", Errors.CLUSTER_AUTHORIZATION_FAILED),
    ]
    described = s.DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in kinds]
    )
    checked = granted(binding(ALTER_CONFIGS)).check(described, names_by_id)
    assert [each.resource_name for each in checked.request.resources] == ["1000"], "who may alter may describe"  # type: ignore[attr-defined]
    answer = s.DescribeConfigsResponse(results=[])
    checked.complete(answer)
    assert {each.error_message for each in answer.results} == {"Topic authorization failed."}


def metadata(
    authorization: ZkControllerAuthorization, request: s.MetadataRequest, *topics: MetadataResponseTopic
) -> list[tuple[Any, ...]]:
    visible = authorization.topic_filter(request, 12, any(each.topic_id != ZERO_UUID for each in request.topics or ()))
    rows = [row for topic in topics if (row := visible(topic)) is not None]
    return [(each.name, each.topic_id, each.error_code, each.topic_authorized_operations) for each in rows]


def test_only_topics_that_may_be_described_are_shown() -> None:
    authorization = granted(binding(WRITE, "a", TOPIC))
    bits = sum(1 << code for code in (DESCRIBE, WRITE, DELETE))

    def topics() -> list[MetadataResponseTopic]:
        return [MetadataResponseTopic(name=name, topic_id=ID, topic_authorized_operations=bits) for name in "ab"]

    known = "a", ID, 0, (1 << DESCRIBE) + (1 << WRITE)
    assert metadata(authorization, s.MetadataRequest(topics=None), *topics()) == [known]
    asked = [s.cluster_metadata.MetadataRequestTopic(name=name) for name in "ab"]
    refused = "b", ZERO_UUID, DENIED, -(2**31)
    assert metadata(authorization, s.MetadataRequest(topics=asked), *topics()) == [known, refused]
    by_id = s.MetadataRequest(topics=[s.cluster_metadata.MetadataRequestTopic(name=None, topic_id=ID)])
    assert metadata(authorization, by_id, topics()[1]) == [(None, ID, DENIED, -(2**31))]


def test_many_names_of_which_every_other_is_refused() -> None:
    """In proportion to their number: each compared with each would take minutes."""
    names = [f"{which}-{number}" for number in range(100_000) for which in "ab"]
    checked = granted(binding(DELETE, "a-", TOPIC, pattern=PREFIXED)).check(
        s.DeleteTopicsRequest(topic_names=names), names_by_id
    )
    response = s.DeleteTopicsResponse(responses=[])
    checked.complete(response)
    kept: Any = checked.request
    assert (kept.topic_names, [each.name for each in response.responses]) == (names[::2], names[1::2])


@pytest.mark.covers("ZooKeeper D8")
def test_what_is_relayed_is_checked_before() -> None:
    """The broker that answers sees the controller's principal, which may do more."""
    authorization = granted(binding(DESCRIBE, "g", GROUP), binding(WRITE, "x", TRANSACTIONAL_ID))

    def coordinator(version: int, key_type: int, *keys: str) -> Any:
        request = s.FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=[*keys])
        return finished(refusal_of(authorization, request, version))

    assert coordinator(4, 0, "g") is None and coordinator(4, 1, "x") is None
    assert coordinator(3, 0, "h").error_code == Errors.GROUP_AUTHORIZATION_FAILED
    assert coordinator(3, 1, "h").error_code == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert coordinator(3, 0, "g") is None
    mixed = coordinator(4, 0, "g", "h")
    assert [each.error_code for each in mixed.coordinators] == [
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.GROUP_AUTHORIZATION_FAILED,
    ]
    assert [each.key for each in mixed.coordinators] == ["g", "h"]
    for nowhere in (coordinator(3, 0, "h"), *mixed.coordinators):
        assert (nowhere.node_id, nowhere.host, nowhere.port) == (-1, "", -1)
    assert finished(refusal_of(authorization, InitProducerIdRequest(transactional_id="x"), 4)) is None
    idempotent = InitProducerIdRequest(transactional_id=None)
    refusals = [
        finished(refusal_of(each, request, 4))
        for each, request in ((authorization, InitProducerIdRequest(transactional_id="y")), (authorization, idempotent))
    ]
    results: list[Any] = refusals
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in results] == [
        (Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1),
        (Errors.CLUSTER_AUTHORIZATION_FAILED, -1, -1),
    ]
    assert finished(refusal_of(granted(binding(IDEMPOTENT_WRITE)), idempotent, 4)) is None
    assert finished(refusal_of(granted(binding(WRITE, "t", TOPIC)), idempotent, 4)) is None


# Over sockets: everybody is User:ANONYMOUS.


@asynccontextmanager
async def controller(
    monkeypatch: pytest.MonkeyPatch, settings: AclAuthorizerSettings
) -> AsyncIterator[tuple[Zookeeper, ControllerServer]]:
    stand_in(monkeypatch)
    zookeeper = Zookeeper()
    config = ControllerConfig(1000, authorizer=settings)
    async with ControllerServer(config, zookeeper) as server:  # type: ignore[arg-type]
        await until(lambda: server.active.is_active)
        yield zookeeper, server


async def ask(server: ControllerServer, request: Message, version: int) -> Any:
    async with await connect("127.0.0.1", server.port) as connection:
        return await connection.send(request, version)


def give(zookeeper: Zookeeper, *operations: int) -> None:
    """Rights to the cluster, and the note of them, as another node writes both."""
    bindings = [AclBinding(*OF_CLUSTER, "User:ANONYMOUS", "127.0.0.1", each, ALLOW) for each in operations]
    path = znode_acls.resource_path(OF_CLUSTER)
    zookeeper.tree.create(path)
    zookeeper.tree.set_data(path, znode_acls.encode_acls(bindings))
    zookeeper.tree.create(f"{znode_acls.CHANGES[LITERAL]}/acl_changes_{len(operations)}", b"CLUSTER:kafka-cluster")
    zookeeper.tell()


@story
async def test_a_client_gets_and_loses_its_right_while_the_controller_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with controller(monkeypatch, AclAuthorizerSettings()) as (zookeeper, server):
        request = s.ListPartitionReassignmentsRequest(topics=None)

        async def error() -> Errors:
            return Errors((await ask(server, request, 0)).error_code)

        assert await error() is Errors.CLUSTER_AUTHORIZATION_FAILED
        give(zookeeper, DESCRIBE, ALTER_CONFIGS)
        while await error() is not Errors.NONE:
            await asyncio.sleep(0.01)
        found = await ask(
            server,
            EVERY_ACL,
            3,
        )
        assert [len(each.acls) for each in found.resources] == [2]
        give(zookeeper, ALTER_CONFIGS)
        while await error() is not Errors.CLUSTER_AUTHORIZATION_FAILED:
            await asyncio.sleep(0.01)


@story
async def test_every_request_of_a_stranger_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the error in the response of its kind, and nothing comes to the controller's queue."""
    async with controller(monkeypatch, AclAuthorizerSettings()) as (_, server):
        handled: list[Any] = []
        monkeypatch.setattr(server._events.queue, "put", handled.append)
        monkeypatch.setattr(server._handlers, "_put", handled.append)
        for api in OF_THE_CLUSTER.keys() & APIS.keys():
            kind = kcore.schema.index.message_class(f"{api}Request")
            request = kind()
            if isinstance(request, DescribeAclsRequest):
                request = EVERY_ACL
            response = await ask(server, request, APIS[api][1])
            assert type(response) is response_of(kind)
            assert getattr(response, "error_code", Errors.CLUSTER_AUTHORIZATION_FAILED) == (
                Errors.CLUSTER_AUTHORIZATION_FAILED
            ), api
        assert handled == []


@story
async def test_strangers_get_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    async with controller(monkeypatch, AclAuthorizerSettings(frozenset({"User:ANONYMOUS"}))) as (_, server):
        for api, (_, version) in OF_TOKENS.items():
            response = await ask(server, kcore.schema.index.message_class(f"{api}Request")(), version)
            assert response.error_code == Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@story
async def test_a_code_that_stands_for_none_costs_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with controller(monkeypatch, AclAuthorizerSettings(frozenset({"User:ANONYMOUS"}))) as (_, server):
        with pytest.raises(DisconnectedError):
            await ask(server, DescribeAclsRequest(), 3)
        assert (await ask(server, DescribeLogDirsRequest(topics=None), 4)).error_code == Errors.NONE


@story
async def test_a_stranger_may_send_fewer_values_than_a_node_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    resources = [DescribeConfigsResource(resource_type=2, resource_name="unknown")] * (CLIENT_VALUES + 1)
    for super_users in (frozenset[str](), frozenset({"User:ANONYMOUS"})):
        async with controller(monkeypatch, AclAuthorizerSettings(super_users)) as (_, server):
            assert len((await ask(server, s.DescribeConfigsRequest(resources=resources[1:]), 4)).results) > 0
            request = s.DescribeConfigsRequest(resources=resources)
            if super_users:
                assert len((await ask(server, request, 4)).results) > 0
            else:
                with pytest.raises(DisconnectedError):
                    await ask(server, request, 4)


def test_a_request_for_no_coordinator_is_not_relayed() -> None:
    """A stranger would have the controller connect to a broker, as itself, for each connection that it opens."""
    for version in (4, 6):
        request = s.FindCoordinatorRequest(key_type=0, coordinator_keys=[])
        assert finished(refusal_of(granted(), request, version)) == s.FindCoordinatorResponse()


@pytest.mark.parametrize(
    ("rights", "most"), [(None, REQUEST_VALUES), ((CLUSTER_ACTION,), REQUEST_VALUES), ((ALTER,), CLIENT_VALUES)]
)
def test_what_is_relayed_has_the_limit_of_values_too(rights: tuple[int, ...] | None, most: int) -> None:
    authorization = None if rights is None else granted(*map(binding, rights))
    is_node = authorization is None or authorization.allows(CLUSTER_ACTION)
    for count in (most, most + 1):
        request = s.FindCoordinatorRequest(key_type=0, coordinator_keys=[""] * count)
        context = context_in(request_frame(request, 4, 7)[4:])
        if count == most:
            found: Any = request_of(context, lambda session: is_node)
            assert len(found.coordinator_keys) == count
        else:
            with pytest.raises(DecodeError, match="more values than it may"):
                request_of(context, lambda session: is_node)
