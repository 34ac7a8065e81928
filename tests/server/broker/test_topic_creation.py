"""Brokers create internal topics and clients' topics with the controller, over sockets."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.net.request_context import ClientSession
from kcore.net.server import RequestContext, serve
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kcore.server.broker import broker_connections, topic_creation
from kcore.server.broker.broker_connections import ControllerClient
from kcore.server.broker.topic_creation import OrdinaryTopics, TopicCreation
from kcore.server.envelopes import Forwarded, unwrapped, wrapped
from kcore.server.kraft_broker.kraft_broker_settings import broker_settings_of
from net.loops import story, until
from server.broker.test_broker_coordination import GROUPS, TRANSACTIONS
from server.kraft.test_kraft_broker import cluster_in
from server.replicas import CONTROLLER, Brokers

NAMED = "a-topic-of-producers"
APIS = {"CreateTopics": (2, 7), "Envelope": (0, 0)}
SETTINGS = {
    GROUPS: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    TRANSACTIONS: {
        "unclean.leader.election.enable": "false",
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
    },
}


class Controller:
    """Stores the topics of CreateTopics requests; answers when allowed, first with the errors of `refusals`."""

    def __init__(self) -> None:
        self.requests: list[CreateTopicsRequest] = []
        self.forwarded: list[Forwarded] = []
        self.refusals: list[Errors] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if isinstance(request, EnvelopeRequest):
            found = unwrapped(request)
            assert isinstance(found, Forwarded)
            self.forwarded.append(found)
            return await wrapped(found, await self._created(found.request))
        return await self._created(request)

    async def _created(self, request: Message) -> CreateTopicsResponse:
        assert isinstance(request, CreateTopicsRequest)
        self.requests.append(request)
        await self.may_answer.wait()
        error = self.refusals.pop(0) if self.refusals else Errors.NONE
        results = [
            CreatableTopicResult(name=each.name, error_code=error, error_message="a test", configs=[])
            for each in request.topics
        ]
        return CreateTopicsResponse(topics=results)

    def names(self) -> list[list[str]]:
        return [[topic.name for topic in each.topics] for each in self.requests]


def settings_of(topic: CreatableTopic) -> dict[str, str | None]:
    return {each.name: each.value for each in topic.configs}


def a_context(*, name: str = "alice") -> RequestContext:
    session = ClientSession("PLAINTEXT", "10.1.2.3")
    session.authenticated(KafkaPrincipal(name))
    return RequestContext("a test", 1, RequestHeader(correlation_id=77, client_id="a client"), session)


async def creating(
    response: Callable[[Controller, TopicCreation], Awaitable[None]],
    ordinary: OrdinaryTopics | None = None,
    *,
    knows_envelopes: bool = True,
) -> None:
    """A broker's part, and a controller."""
    controller = Controller()
    async with await serve("127.0.0.1", 0, controller.handle, APIS) as server:
        where = Endpoint(server.port, "127.0.0.1", "PLAINTEXT", 0)
        client = ControllerClient("broker-1", lambda: where)
        made = TopicCreation(client, BrokerConfig(1), ordinary, lambda: knows_envelopes)
        try:
            await response(controller, made)
        finally:
            controller.may_answer.set()
            await made.close()


@story
async def test_a_topic_is_asked_for_once_at_a_time() -> None:
    async def response(controller: Controller, creation: TopicCreation) -> None:
        controller.may_answer.clear()
        for _ in range(3):
            creation.create([GROUPS])
        creation.create([GROUPS, TRANSACTIONS, TRANSACTIONS])
        await until(lambda: controller.requests)
        controller.may_answer.set()
        await until(lambda: not creation._in_flight)
        assert controller.names() == [[GROUPS], [TRANSACTIONS]]
        creation.create([GROUPS])
        await until(lambda: len(controller.requests) == 3)
        for topic in [each for request in controller.requests for each in request.topics]:
            assert (topic.num_partitions, topic.replication_factor, topic.assignments) == (50, 3, [])
            assert settings_of(topic) == SETTINGS[topic.name]
        assert controller.forwarded == [], "such a topic is the broker's own wish"

    await creating(response)


@pytest.mark.covers("KRaft D8")
@story
async def test_an_ordinary_topic_is_created_as_the_client_that_names_it() -> None:
    """KAFKA-12294: it was created with the rights of the broker, whatever the client may do."""

    async def response(controller: Controller, creation: TopicCreation) -> None:
        creation.create(["t", "a name with spaces", "", ".", "u"], a_context())
        creation.create(["t"], a_context(name="bob"))
        await until(lambda: controller.forwarded and not creation._in_flight)
        [forwarded] = controller.forwarded
        assert (str(forwarded.principal), forwarded.client_address) == ("User:alice", "10.1.2.3")
        assert (forwarded.header.client_id, forwarded.header.correlation_id) == ("a client", 77)
        assert controller.names() == [["t", "u"]]
        assert {(each.num_partitions, each.replication_factor) for each in controller.requests[0].topics} == {(5, -1)}

    await creating(response, OrdinaryTopics(num_partitions=5))


@story
async def test_a_controller_that_takes_no_envelopes_is_asked_as_the_broker() -> None:
    async def response(controller: Controller, creation: TopicCreation) -> None:
        creation.create(["t", "u"], a_context())
        creation.create(["u"], a_context(name="bob"))
        await until(lambda: controller.requests and not creation._in_flight)
        assert controller.names() == [["t", "u"]] and controller.forwarded == []

    await creating(response, OrdinaryTopics(num_partitions=5), knows_envelopes=False)


@story
async def test_who_controls_no_more_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is in the topics of CreateTopics, and in the envelope where there is one."""
    monkeypatch.setattr(broker_connections, "RETRY_S", 0.001)

    async def response(controller: Controller, creation: TopicCreation) -> None:
        for context in (None, a_context()):
            controller.refusals = [Errors.NOT_CONTROLLER] * 2
            creation.create(["t"], context)
            await until(lambda: not creation._in_flight)
        assert controller.names() == [["t"]] * 6

    await creating(response)


@story
async def test_the_reason_why_a_topic_is_not_created_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(topic_creation, "WITHIN_S", 0.05)
    monkeypatch.setattr(broker_connections, "RETRY_S", 0.005)
    caplog.set_level(logging.WARNING)

    async def refused(context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
        return answers.pop(0)

    async def response(controller: Controller, creation: TopicCreation) -> None:
        controller.refusals = [Errors.INVALID_REPLICATION_FACTOR, Errors.TOPIC_ALREADY_EXISTS]
        for _ in range(2):
            creation.create([GROUPS])
            await until(lambda: not creation._in_flight)

    await creating(response)
    assert caplog.messages == [
        f"the controller did not create {GROUPS}: INVALID_REPLICATION_FACTOR: a test",
    ], "another broker may have been first"
    caplog.clear()
    answers = [EnvelopeResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED), EnvelopeResponse(response_data=b"\1")]
    async with await serve("127.0.0.1", 0, refused, APIS) as server:
        where: list[Endpoint | None] = [Endpoint(server.port, "127.0.0.1", "PLAINTEXT", 0)]
        creation = TopicCreation(ControllerClient("broker-1", lambda: where[0]), BrokerConfig(1))
        for _ in range(2):
            creation.create(["t"], a_context())
            await until(lambda: not creation._in_flight)
        where[0] = None
        creation.create(["t"])
        await until(lambda: not creation._in_flight)
        await creation.close()
    assert caplog.messages[0] == "the controller refused to create t: CLUSTER_AUTHORIZATION_FAILED"
    assert caplog.messages[1].startswith("the controller's answer about t cannot be decoded: ")
    assert caplog.messages[2] == "no controller has created t within 0.05 s"


@story
async def test_what_is_asked_for_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_creation, "MOST_IN_FLIGHT", 3)

    async def response(controller: Controller, creation: TopicCreation) -> None:
        controller.may_answer.clear()
        creation.create(["a", "b"])
        creation.create(["c", "d", "e"])
        creation.create(["f"])
        controller.may_answer.set()
        await until(lambda: not creation._in_flight)
        assert controller.names() == [["a", "b"], ["c"]]
        creation.create(["d"])
        await until(lambda: not creation._in_flight)
        assert controller.names()[-1] == ["d"]

    await creating(response)


# Brokers.


def find(key_type: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g", "h"])


@pytest.mark.covers("KIP-590 12", "ZooKeeper D5")
@story
async def test_a_broker_of_zookeeper_mode_has_the_controller_make_the_topic(tmp_path: Path) -> None:
    """KAFKA-12381: the controller counts the brokers; one that coordinates is enough to ask it."""
    async with AsyncExitStack() as stack:
        brokers = Brokers(stack, tmp_path)
        await brokers.open(transaction_state_log_replication_factor=1, offsets_topic_num_partitions=7)
        await brokers.elect(1)

        def created() -> list[CreateTopicsRequest]:
            return brokers.controller.of(CreateTopicsRequest)

        async def asked(key_type: int) -> list[int]:
            return [each.error_code for each in (await brokers.ask(1, find(key_type), 4)).coordinators]

        assert await asked(0) == [Errors.UNSUPPORTED_VERSION] * 2, "nobody would coordinate"
        brokers.servers[1].handlers.mode._admin._read_s = -10.0
        kafka = encode_broker(BrokerNode([Endpoint(1, "127.0.0.1", "PLAINTEXT", 0)]), 0)
        brokers.tree.nodes[znodes.broker_path(5)] = (kafka, 0, 1, 1)
        for key_type, (name, partitions, factor) in enumerate([(GROUPS, 7, 3), (TRANSACTIONS, 50, 1)]):
            assert await asked(key_type) == [Errors.COORDINATOR_NOT_AVAILABLE] * 2
            assert created()[key_type:] or name in brokers.servers[1].runtime.requests.topic_creation._in_flight
            await until(lambda key_type=key_type: len(created()) == key_type + 1)
            [topic] = created()[-1].topics
            assert (topic.name, topic.num_partitions, topic.replication_factor) == (name, partitions, factor)
            await brokers.set_leader(name, CONTROLLER)
            assert await asked(key_type) == [Errors.NONE] * 2
        assert await asked(2) == [Errors.INVALID_REQUEST] * 2
        assert len(created()) == 2


@pytest.mark.covers("KIP-590 12")
@story
async def test_a_broker_of_zookeeper_mode_has_what_a_client_names_created(tmp_path: Path) -> None:
    """The controller is asked as for the topics of coordinators."""
    async with AsyncExitStack() as stack:
        brokers = Brokers(stack, tmp_path)
        ordinary = OrdinaryTopics(num_partitions=3, default_replication_factor=2)
        await brokers.open(server={"ordinary_topics": ordinary})
        await brokers.elect(1)

        def created() -> list[CreateTopicsRequest]:
            return brokers.controller.of(CreateTopicsRequest)

        async def asked(*names: str, version: int = 9, allows: bool = True) -> list[int]:
            topics = [MetadataRequestTopic(name=each) for each in names]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=allows)
            return [each.error_code for each in (await brokers.ask(1, request, version)).topics]

        unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert await asked("never", "t", allows=False) == [unknown, Errors.NONE]
        assert await asked(NAMED, "t", "not a name") == [unknown, Errors.NONE, Errors.INVALID_TOPIC_EXCEPTION]
        await until(created)
        [topic] = created()[0].topics
        assert (topic.name, topic.num_partitions, topic.replication_factor, topic.configs) == (NAMED, 3, 2, [])
        await brokers.set_leader(NAMED, CONTROLLER)
        assert await asked(NAMED) == [Errors.NONE]
        assert await asked(GROUPS, version=1) == [unknown], "these cannot say no"
        await until(lambda: len(created()) == 2)
        [groups] = created()[1].topics
        assert (groups.name, groups.num_partitions) == (GROUPS, 50)
        everything = MetadataRequest(topics=None)
        await brokers.ask(1, everything, 9)
        assert len(created()) == 2


@story
async def test_a_broker_of_zookeeper_mode_that_is_not_to_create_topics_creates_none(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        brokers = Brokers(stack, tmp_path)
        await brokers.open(server={"ordinary_topics": OrdinaryTopics(is_on=False)})
        await brokers.elect(1)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="unknown")])
        [unknown] = (await brokers.ask(1, request, 9)).topics
        assert unknown.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert brokers.servers[1].runtime.requests.topic_creation._in_flight == set()


@pytest.mark.covers("KRaft D5")
@story
async def test_a_kraft_broker_has_the_controller_make_the_topic(tmp_path: Path) -> None:
    own = {
        "offsets_topic_num_partitions": "3",
        "offsets_topic_replication_factor": "2",
        "transaction_state_log_num_partitions": "2",
        "transaction_state_log_replication_factor": "1",
        "transaction_state_log_min_isr": "1",
        "offsets_topic_segment_bytes": "2000000",
    }
    async with cluster_in(tmp_path, **own) as cluster:
        image = cluster.controller.controller.image
        for key_type, (name, partitions, replicas) in enumerate([(GROUPS, 3, 2), (TRANSACTIONS, 2, 1)]):
            for each in (await cluster.ask(1, find(key_type), 4)).coordinators:
                assert each.error_code == Errors.COORDINATOR_NOT_AVAILABLE
            await until(lambda name=name: name in image.topic_ids)
            assert len(image.table.rows_of_topic(name)) == partitions
            assert len(image.partition(name, 0).replicas) == replicas
        found = {each: image.configs[(2, each)] for each in SETTINGS}
        assert found == {
            GROUPS: SETTINGS[GROUPS] | {"segment.bytes": "2000000"},
            TRANSACTIONS: SETTINGS[TRANSACTIONS] | {"min.insync.replicas": "1"},
        }


@story
async def test_metadata_has_what_a_client_names_created(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, num_partitions="3") as cluster:
        image = cluster.controller.controller.image

        async def asked(*names: str, version: int = 9, allows: bool = True) -> list[int]:
            topics = [MetadataRequestTopic(name=each) for each in names]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=allows)
            return [each.error_code for each in (await cluster.ask(1, request, version)).topics]

        unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert await asked("never", allows=False) == [unknown]
        assert await asked("new", "not a name") == [unknown, Errors.INVALID_TOPIC_EXCEPTION]
        await until(lambda: "new" in image.topic_ids)
        assert len(image.table.rows_of_topic("new")) == 3
        assert await asked("old client", version=1) == [Errors.INVALID_TOPIC_EXCEPTION]
        assert await asked("old-client", version=1) == [unknown], "these cannot say no"
        await until(lambda: "old-client" in image.topic_ids)
        everything = MetadataRequest(topics=None)
        await cluster.ask(1, everything, 9)
        assert {*image.topic_ids} == {"new", "old-client"}


@pytest.mark.covers("KRaft D8")
@story
async def test_metadata_asks_as_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RequestContext | None] = []
    monkeypatch.setattr(TopicCreation, "create", lambda self, names, context=None: asked.append(context))
    async with cluster_in(tmp_path, brokers=1) as cluster:
        await cluster.ask(1, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        [context] = asked
        assert context is not None
        assert (str(context.principal), context.client_address) == ("User:ANONYMOUS", "127.0.0.1")


@story
async def test_metadata_has_nothing_created_where_that_is_set(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, auto_create_topics_enable="false") as cluster:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        [response] = (await cluster.ask(1, request, 9)).topics
        assert response.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster.brokers[1].runtime.requests.topic_creation._in_flight == set()


def test_settings_of_topics_that_are_made() -> None:
    least = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.voters": "7@127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
    }
    assert broker_settings_of(least).ordinary_topics == OrdinaryTopics(True, -1, -1)
    own = {"auto.create.topics.enable": "FALSE", "num.partitions": "4", "default.replication.factor": "2"}
    assert broker_settings_of(least | own).ordinary_topics == OrdinaryTopics(False, 4, 2)
