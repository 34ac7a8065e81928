"""Requests are answered by the state machine, the partition table, or a live broker in the controller's place."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.zk.effects import SendResponse
from kcore.controller.zk.events import RequestEvent
from kcore.errors import DisconnectedError, UnsupportedVersionError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.metadata.table.partition_table import PartitionTable
from kcore.net.connect import connect
from kcore.net.server import RequestContext, Server, serve
from kcore.node.zk.acls import AclAuthorizer, AclAuthorizerSettings, ZkAcls
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    DescribeConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.index import message_class
from kcore.schema.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from kcore.schema.partitions import TopicPartitions
from kcore.schema.scram import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from kcore.schema.topics import DeleteTopicState
from kcore.server.answers import KEPT
from kcore.server.cluster_view import ClusterView
from kcore.server.zk_controller import zk_controller_request_handlers as request_handlers
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_controller.zk_controller_request_handlers import (
    LEARN_S,
    LEARN_SOON_S,
    OWNED,
    ZkControllerRequestHandlers,
)
from kcore.server.zk_node.relay import MOST_FORWARDED, Address
from kcore.types import Uuid
from net.loops import settled, story, until

THEIR_APIS = {
    **{"FindCoordinator": (0, 4), "Metadata": (0, 12), "Produce": (0, 9), "ListGroups": (0, 5)},
    "AlterReplicaLogDirs": (0, 2),
}
CONFIGS = {"DescribeConfigs": (0, 4), "IncrementalAlterConfigs": (0, 1)}
BROKER = 4  # ConfigResource.Type


async def their_answer(context: RequestContext, request: Any) -> Any:
    """A broker's; it tells the client's id and what it was asked."""
    if isinstance(request, s.MetadataRequest):
        return s.MetadataResponse(controller_id=77)
    assert context.header.client_id == "a client"
    return s.FindCoordinatorResponse(
        coordinators=[s.find_coordinator.Coordinator(key=key) for key in request.coordinator_keys]
    )


class Served:
    """Request handlers of a controller, with the events that they put and the brokers that they know."""

    def __init__(self) -> None:
        self.events: list[RequestEvent[Any]] = []
        self.brokers: list[Address] = []
        self.is_active = True
        self.metrics = ControllerMetrics()
        self.handlers = ZkControllerRequestHandlers(self.events.append, self._view, self._live, self.metrics)
        self.port = 0

    def _view(self) -> ClusterView | None:
        if not self.is_active:
            return None
        table = PartitionTable.from_arrays([[1]], brokers=BrokerTable.from_arrays([1]))
        return ClusterView(table, "PLAINTEXT", LiveBroker(1000, (Endpoint(1, "here", "PLAINTEXT", 0),)), "me")

    async def _live(self) -> list[Address]:
        return self.brokers

    async def learnt(self) -> None:
        """Wait until the answers to clients show the brokers' changes."""
        self.handlers.brokers_changed()
        while True:
            async with await connect("127.0.0.1", self.port) as connection:
                assert connection.versions is not None
                if s.FindCoordinatorRequest.api_key in connection.versions.by_key:
                    return


@asynccontextmanager
async def opened() -> AsyncIterator[Served]:
    served = Served()
    served.port = await served.handlers.open("127.0.0.1", 0, "PLAINTEXT")
    learning = asyncio.create_task(served.handlers.keep_learning())
    try:
        yield served
    finally:
        learning.cancel()
        await served.handlers.close()


async def asks_the_controller(served: Served, answer: Awaitable[Any]) -> None:
    """The request waits until the controller has answered it."""
    await until(lambda: served.events)
    event = served.events.pop()
    served.handlers.answer(SendResponse(event.request_id, event.refused(Errors.NOT_CONTROLLER)))
    await answer


@asynccontextmanager
async def with_broker() -> AsyncIterator[tuple[Served, Server]]:
    async with opened() as served, await serve("127.0.0.1", 0, their_answer, THEIR_APIS) as broker:
        served.brokers = [Address("127.0.0.1", broker.port)]
        await served.learnt()
        yield served, broker


@story
async def test_what_the_controller_owns_waits_for_the_machines_answer() -> None:
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        answer = connection.send(s.ControlledShutdownRequest(broker_id=3, broker_epoch=9))
        await until(lambda: served.events)
        [event] = served.events
        assert isinstance(event.request, s.ControlledShutdownRequest)
        assert (event.request.broker_id, event.request.broker_epoch) == (3, 9)
        served.handlers.answer(SendResponse(event.request_id, event.refused(Errors.NOT_CONTROLLER)))
        assert (await answer).error_code == Errors.NOT_CONTROLLER


@story
async def test_a_standby_refuses_a_large_request_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state machine would refuse it in one part."""
    refused, sizes = RequestEvent.refused, list[int]()

    def counted(self: RequestEvent[Any], error: Errors) -> Any:
        sizes.append(len(self.request.topics))
        return refused(self, error)

    monkeypatch.setattr(RequestEvent, "refused", counted)
    topics = [DeleteTopicState(name=f"t{number}") for number in range(600)]
    async with opened() as served:
        served.is_active = False
        async with await connect("127.0.0.1", served.port) as connection:
            answer = await connection.send(s.DeleteTopicsRequest(topics=topics), 6)
    assert [each.name for each in answer.responses] == [each.name for each in topics]
    assert {each.error_code for each in answer.responses} == {Errors.NOT_CONTROLLER}
    assert sizes == [250, 250, 100] and not served.events


@story
async def test_a_message_too_long_for_an_answer_is_cut_short() -> None:
    """It names brokers that the client has named, twenty thousand of them."""
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        answer = connection.send(s.AlterPartitionReassignmentsRequest(topics=[], timeout_ms=1000))
        await until(lambda: served.events)
        [event] = served.events
        response = s.AlterPartitionReassignmentsResponse(error_message="x" * 40_000, responses=[])
        served.handlers.answer(SendResponse(event.request_id, response))
        assert (await answer).error_message == "x" * KEPT + "..."


@story
async def test_the_topics_are_looked_through_once_for_all_that_are_asked_for_by_id() -> None:
    looks = []
    for count in (1, 1_000):
        served = Served()
        authorizer = AclAuthorizer(AclAuthorizerSettings(allow_everyone_if_no_acl_found=True), ZkAcls())
        authorizer.acls.is_read = True
        views: list[int] = []
        view = partial(_counted, views, served)
        served.handlers = ZkControllerRequestHandlers(
            served.events.append, view, served._live, served.metrics, authorizer
        )
        port = await served.handlers.open("127.0.0.1", 0, "PLAINTEXT")
        async with await connect("127.0.0.1", port) as connection:
            states = [DeleteTopicState(name=None, topic_id=Uuid(each.to_bytes(16))) for each in range(1, count + 1)]
            answer = await connection.send(s.DeleteTopicsRequest(topics=states, timeout_ms=1000), 6)
            assert [each.error_code for each in answer.responses] == [Errors.UNKNOWN_TOPIC_ID] * count
        await served.handlers.close()
        looks.append(len(views))
    assert looks[0] == looks[1]


def _counted(views: list[int], served: Served) -> ClusterView | None:
    views.append(1)
    return served._view()


@pytest.mark.parametrize("api", OWNED)
@story
async def test_every_version_can_answer_not_controller(api: str) -> None:
    """ElectLeaders 0 has no error at its top."""
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        lowest, highest = OWNED[api]
        for version in range(lowest, highest + 1):
            request: Any = message_class(f"{api}Request")()
            if isinstance(request, s.ElectLeadersRequest):
                request.topic_partitions = [TopicPartitions(topic="t", partitions=[3])]
            answer = connection.send(request, version)
            await asks_the_controller(served, answer)
            if isinstance(request, s.ElectLeadersRequest):
                [topic] = (await answer).replica_election_results
                assert [each.error_code for each in topic.partition_result] == [Errors.NOT_CONTROLLER]


@story
async def test_two_clients_get_each_its_own_answer() -> None:
    async with (
        opened() as served,
        await connect("127.0.0.1", served.port) as one,
        await connect("127.0.0.1", served.port) as other,
    ):
        answers = [each.send(s.AlterPartitionRequest(broker_id=k), 2) for k, each in enumerate((one, other))]
        await until(lambda: len(served.events) == 2)
        for event, error in zip(served.events, (Errors.STALE_BROKER_EPOCH, Errors.NOT_CONTROLLER), strict=True):
            assert isinstance(event.request, s.AlterPartitionRequest) and event.version == 2
            served.handlers.answer(SendResponse(event.request_id, event.refused(error)))
        errors = {event.request.broker_id: error for event, error in zip(served.events, (77, 41), strict=True)}
        assert [(await answer).error_code for answer in answers] == [errors[0], errors[1]]


@story
async def test_the_requests_that_are_passed_on_decoded_at_once_are_bounded() -> None:
    """Each has a connection of its own to a broker: clients may not take all descriptors by asking."""
    release, waiting = asyncio.Event(), 0

    async def answer(context: RequestContext, request: Any) -> Any:
        nonlocal waiting
        waiting += 1
        await release.wait()
        return s.DescribeConfigsResponse()

    [describe, _] = settings_of((BROKER, ""))
    async with opened() as served, AsyncExitStack() as stack:
        broker = await stack.enter_async_context(await serve("127.0.0.1", 0, answer, CONFIGS))
        served.brokers = [Address("127.0.0.1", broker.port)]
        clients = [
            await stack.enter_async_context(await connect("127.0.0.1", served.port)) for _ in range(2 * MOST_FORWARDED)
        ]
        answers = [each.send(describe) for each in clients]
        await until(lambda: waiting == MOST_FORWARDED)
        await settled(lambda: waiting)
        assert waiting == MOST_FORWARDED
        release.set()
        for each in answers:
            await each
        assert waiting == len(clients)


@story
async def test_the_answer_to_a_client_that_is_gone_goes_nowhere() -> None:
    async with opened() as served:
        connection = await connect("127.0.0.1", served.port)
        answer = connection.send(s.AllocateProducerIdsRequest(broker_id=1))
        await until(lambda: served.events)
        await connection.close()
        with pytest.raises(DisconnectedError):
            await answer
        served.handlers.answer(SendResponse(served.events[0].request_id, s.AllocateProducerIdsResponse()))


@story
async def test_the_cluster_is_read_off_the_table() -> None:
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        assert (await connection.send(s.MetadataRequest(topics=None))).controller_id == 1000
        assert (await connection.send(s.DescribeClusterRequest())).cluster_id == "me"
        assert (await connection.send(s.ListGroupsRequest())).groups == []
        assert served.events == []


@story
async def test_a_controller_has_one_log_directory_and_nothing_in_it() -> None:
    """Kafka's client takes an answer without any for CLUSTER_AUTHORIZATION_FAILED, and kafka-log-dirs fails."""
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        for version in range(5):
            answer = await connection.send(DescribeLogDirsRequest(topics=None), version)
            assert [(each.error_code, each.log_dir, each.topics) for each in answer.results] == [(0, "none", [])]


def settings_of(*resources: tuple[int, str]) -> list[Any]:
    """Both requests about these resources."""
    changes = [IncrementalAlterConfigsRequestAlterableConfig(name="x", config_operation=0, value="1")]
    described = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in resources
    ]
    altered = [
        IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        for kind, name in resources
    ]
    return [s.DescribeConfigsRequest(resources=described), s.IncrementalAlterConfigsRequest(resources=altered)]


@story
async def test_settings_of_all_brokers_are_a_live_brokers_matter() -> None:
    """It knows which settings brokers have; without one the controller answers, which knows throttles."""

    async def answer(context: RequestContext, request: Any) -> Any:
        asked.append((type(request), context.version))
        is_described = isinstance(request, s.DescribeConfigsRequest)
        return s.DescribeConfigsResponse() if is_described else s.IncrementalAlterConfigsResponse()

    asked: list[Any] = []
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        async with await serve("127.0.0.1", 0, answer, CONFIGS) as broker:
            [nobody] = free_ports(1)
            served.brokers = [Address("127.0.0.1", nobody), Address("127.0.0.1", broker.port)]
            describe, alter = settings_of((2, "t"), (BROKER, ""))
            await connection.send(describe, 3)
            await connection.send(alter, 1)
            assert asked == [(s.DescribeConfigsRequest, 3), (s.IncrementalAlterConfigsRequest, 1)]
            assert served.events == []
        served.brokers = []
        for request in (*settings_of((BROKER, "")), *settings_of((BROKER, "1000"), (2, "t"))):
            await asks_the_controller(served, connection.send(request))


@story
async def test_credentials_of_users_are_the_controllers() -> None:
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        requests = AlterUserScramCredentialsRequest(deletions=[], upsertions=[]), DescribeUserScramCredentialsRequest()
        for request in requests:
            await asks_the_controller(served, connection.send(request))


@story
async def test_what_it_does_not_own_a_live_broker_answers() -> None:
    async with (
        with_broker() as (served, _),
        await connect("127.0.0.1", served.port, client_id="a client") as connection,
    ):
        asked = s.FindCoordinatorRequest(coordinator_keys=["a group"])
        for _ in range(2):
            [coordinator] = (await connection.send(asked)).coordinators
            assert coordinator.key == "a group"
        assert served.metrics.relayed == 2
        assert (await connection.send(s.MetadataRequest(topics=None))).controller_id == 1000
        assert (await connection.send(s.ListGroupsRequest())).groups == []
        with pytest.raises(UnsupportedVersionError, match="does not know Produce"):
            connection.send(s.ProduceRequest())
        with pytest.raises(UnsupportedVersionError, match="does not know AlterReplicaLogDirs"):
            connection.send(AlterReplicaLogDirsRequest(dirs=[]))  # It would change the other's disks.
        with pytest.raises(UnsupportedVersionError, match="FindCoordinator 5"):
            connection.send(asked, 5)


@story
async def test_while_another_controls_a_live_broker_tells_of_the_cluster() -> None:
    async with with_broker() as (served, _):
        served.is_active = False
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            assert (await connection.send(s.MetadataRequest(topics=None))).controller_id == 77


@story
async def test_without_brokers_none_is_described_while_another_controls() -> None:
    """Kafka's clients take no notice of an answer without brokers, and ask somebody else."""
    async with opened() as served, await connect("127.0.0.1", served.port) as connection:
        served.is_active = False
        assert (await connection.send(s.MetadataRequest(topics=None))).brokers == []
        assert (await connection.send(s.DescribeClusterRequest())).error_code == Errors.BROKER_NOT_AVAILABLE


@story
async def test_a_broker_that_goes_takes_the_clients_connection_with_it() -> None:
    """As if it had been that broker's: the client asks again, and another one answers."""
    asked = s.FindCoordinatorRequest(coordinator_keys=["a group"])
    async with with_broker() as (served, broker), await serve("127.0.0.1", 0, their_answer, THEIR_APIS) as other:
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            await connection.send(asked)
            await broker.close()
            served.brokers = [Address("127.0.0.1", broker.port), Address("127.0.0.1", other.port)]
            with pytest.raises(DisconnectedError):
                await connection.send(asked)
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            assert (await connection.send(asked)).coordinators[0].key == "a group"
        served.brokers = []
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            with pytest.raises(DisconnectedError):
                await connection.send(asked)


@story
async def test_a_broker_registered_at_an_impossible_host_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """Alone it is nobody to ask, and no reason to end; beside others it is passed over."""
    caplog.set_level(logging.INFO)
    asked, nobody = s.FindCoordinatorRequest(coordinator_keys=["a group"]), Address("a" * 64, 9092)
    async with with_broker() as (served, broker):
        served.brokers = [nobody]
        served.handlers.brokers_changed()
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            with pytest.raises(DisconnectedError):
                await connection.send(asked)
        served.brokers = [nobody, Address("127.0.0.1", broker.port)]
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            assert (await connection.send(asked)).coordinators[0].key == "a group"
        assert any("no host name" in each.getMessage() for each in caplog.records)


@story
async def test_no_connection_to_a_broker_outlives_its_client() -> None:
    asked = s.FindCoordinatorRequest(coordinator_keys=["a group"])
    async with with_broker() as (served, broker):
        await until(lambda: not broker.connections.served)
        async with await connect("127.0.0.1", served.port, client_id="a client") as connection:
            await connection.send(asked)
            assert len(broker.connections.served) == 1
        await until(lambda: not broker.connections.served)


@story
async def test_the_apis_of_brokers_are_read_soon_again_while_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's port opens some time after its registration."""
    waits: list[float] = []

    def timeout(wait_s: float) -> asyncio.Timeout:
        waits.append(wait_s)
        return asyncio.timeout(0.001)

    monkeypatch.setattr(request_handlers, "asyncio", SimpleNamespace(**vars(asyncio) | {"timeout": timeout}))
    async with opened() as served:
        await until(lambda: len(waits) > 2)
        assert {*waits} == {LEARN_SOON_S}
        async with await serve("127.0.0.1", 0, their_answer, THEIR_APIS) as broker:
            served.brokers = [Address("127.0.0.1", broker.port)]
            await until(lambda: waits[-1] == LEARN_S)
