"""Hollow brokers against a controller that is scripted: what they do when it is not as it should be."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kcore import schema as s
from kcore._ext import hollow as kernel
from kcore.errors import DisconnectedError, TargetError
from kcore.measure.hollow.fleet import Fleet, Options, State
from kcore.measure.hollow.quorum_client import Quorum
from kcore.net.connection import Connection
from kcore.net.server import RequestContext, Server, serve
from kcore.protocol_errors import Errors
from kcore.schema import topics
from kcore.schema.cluster_metadata import DescribeClusterBroker
from kcore.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcore.schema.structure import Message
from net.loops import QUICK, story, until

APIS = {
    "DescribeCluster": (2, 2),
    "BrokerRegistration": (4, 4),
    "BrokerHeartbeat": (1, 1),
    "Fetch": (17, 17),
    "DeleteTopics": (6, 6),
    "DescribeQuorum": (2, 2),
}
OPTIONS = Options(heartbeat_s=0.01)
SECOND = 1_000_000_000  # In nanoseconds.


class Controller:
    """A node: who it says is active, and its answers to all else by the type of request; heartbeats are all well."""

    def __init__(self, node_id: int) -> None:
        self.node_id, self.request_counts = node_id, Counter[str]()
        self.active: Controller = self
        self.answers: dict[type[Message], Message] = {
            s.BrokerRegistrationRequest: s.BrokerRegistrationResponse(broker_epoch=1)
        }
        self.server: Server | None = None

    async def __call__(self, context: RequestContext, message: Any) -> Message:
        self.request_counts[type(message).__name__] += 1
        if isinstance(message, s.DescribeClusterRequest) and type(message) not in self.answers:
            assert self.active.server is not None
            node = DescribeClusterBroker(broker_id=self.active.node_id, host="localhost", port=self.active.server.port)
            return s.DescribeClusterResponse(cluster_id="c", controller_id=node.broker_id, brokers=[node])
        if found := self.answers.get(type(message)):
            return found
        if isinstance(message, s.BrokerHeartbeatRequest):
            return s.BrokerHeartbeatResponse(is_fenced=message.want_fence)
        return await asyncio.Event().wait()  # A fetch of what is not there yet.


@asynccontextmanager
async def controllers(count: int) -> AsyncIterator[tuple[list[Controller], Quorum]]:
    nodes = [Controller(3001 + at) for at in range(count)]
    async with quorum_of(nodes) as quorum:
        yield nodes, quorum


@asynccontextmanager
async def quorum_of(nodes: Sequence[Controller], patience: float = 1.0) -> AsyncIterator[Quorum]:
    for node in nodes:
        node.server = await serve("127.0.0.1", 0, node, APIS, limits=QUICK)
    addresses = [f"localhost:{node.server.port}" for node in nodes if node.server]
    quorum = Quorum(addresses, random=Random(1), patience=patience)
    await quorum.open()
    try:
        yield quorum
    finally:
        await quorum.close()
        for node in nodes:
            assert node.server is not None
            await node.server.close()


async def started(fleet: Fleet, count: int) -> None:
    brokers = [fleet.add(at + 1) for at in range(count)]
    await fleet.start(brokers)
    await fleet.unfenced(brokers, 60)


@story
async def test_brokers_register_and_run() -> None:
    async with controllers(1) as ([node], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        await started(fleet, 5)
        assert node.request_counts["BrokerRegistrationRequest"] == 5
        assert [broker.state for broker in fleet.brokers.values()] == [State.RUNNING] * 5
        assert quorum.lookups == 1
        assert fleet.errors == {}


@story
async def test_a_broker_is_fenced_while_its_heartbeats_request_it() -> None:
    async with controllers(1) as ([node], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        broker = fleet.add(1)
        fleet.want_fence(broker, True)
        await fleet.start([broker])
        await until(lambda: node.request_counts["BrokerHeartbeatRequest"] > 2)
        assert broker.state is State.FENCED
        fleet.want_fence(broker, False)
        await fleet.unfenced([broker], 60)
        await fleet.fence(broker, 60)
        assert broker.state is State.OFF and fleet.false_fencings == 0
        fleet.want_fence(broker, False)
        fleet.resume(broker)
        await fleet.unfenced([broker], 60)
        assert node.request_counts["BrokerRegistrationRequest"] == 1


@story
async def test_a_refused_registration_is_reported() -> None:
    async with controllers(1) as ([node], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        node.answers[s.BrokerRegistrationRequest] = s.BrokerRegistrationResponse(error_code=Errors.INVALID_REGISTRATION)
        with pytest.raises(TargetError, match="broker 1: registration: INVALID_REGISTRATION"):
            await started(fleet, 1)


@story
async def test_a_refused_fetch_ends_what_runs_in_the_fleet() -> None:
    partition = PartitionData(error_code=Errors.INCONSISTENT_TOPIC_ID, high_watermark=-1, records=None)
    async with controllers(1) as ([node], quorum):
        node.answers[s.FetchRequest] = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        with pytest.raises(TargetError, match=r"Fetch was refused.*INCONSISTENT_TOPIC_ID"):
            async with Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
                await started(fleet, 3)
                await asyncio.Event().wait()


@story
async def test_a_log_that_cannot_be_read_ends_what_runs_in_the_fleet() -> None:
    header = bytes(8) + (60).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(55)
    partition = PartitionData(high_watermark=1, records=header)
    async with controllers(1) as ([node], quorum):
        node.answers[s.FetchRequest] = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        with pytest.raises(TargetError, match="the hollow brokers: DecodeError"):
            async with Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
                await started(fleet, 1)
                await asyncio.Event().wait()


@story
async def test_all_brokers_follow_another_controller_after_one_look_up() -> None:
    async with controllers(2) as ([old, new], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        await started(fleet, 20)
        old.active = new
        old.answers[s.BrokerHeartbeatRequest] = s.BrokerHeartbeatResponse(error_code=Errors.NOT_CONTROLLER)
        while new.request_counts["BrokerHeartbeatRequest"] < 200:
            await asyncio.sleep(0.01)
        assert quorum.leader_id == new.node_id
        assert (
            2 <= quorum.lookups < 5
        )  # An answer that is under way while a connection is replaced may ask for one more.
        assert fleet.false_fencings == 0


@story
async def test_a_request_goes_to_the_new_controller_where_only_the_topics_say_that_the_old_one_is_none() -> None:
    async with controllers(2) as ([old, new], quorum):
        old.active = new
        refused = topics.DeletableTopicResult(name="a", error_code=Errors.NOT_CONTROLLER)
        old.answers[s.DeleteTopicsRequest] = s.DeleteTopicsResponse(responses=[refused])
        deleted = topics.DeletableTopicResult(name="a", error_code=0)
        new.answers[s.DeleteTopicsRequest] = s.DeleteTopicsResponse(responses=[deleted])
        answer = await quorum.ask(s.DeleteTopicsRequest(topics=[]))
        assert [each.error_code for each in answer.responses] == [0]
        assert (old.request_counts["DeleteTopicsRequest"], new.request_counts["DeleteTopicsRequest"]) == (1, 1)


@story
async def test_a_broker_that_stays_fenced_is_named() -> None:
    async with controllers(1) as ([node], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        node.answers[s.BrokerHeartbeatRequest] = s.BrokerHeartbeatResponse(is_fenced=True)
        brokers = [fleet.add(7)]
        await fleet.start(brokers)
        with pytest.raises(TargetError, match=r"1 brokers are not running after 0.2 s: 7"):
            await fleet.unfenced(brokers, 0.2)


@asynccontextmanager
async def registering_anew() -> AsyncIterator[tuple[Controller, Fleet, Any, asyncio.Event]]:
    """A broker whose epoch has become stale, as its new registration waits; the event lets the answer come."""
    release = asyncio.Event()

    class Slow(Controller):
        async def __call__(self, context: RequestContext, message: Any) -> Message:
            answer = await super().__call__(context, message)
            if isinstance(message, s.BrokerRegistrationRequest):
                epoch = self.request_counts["BrokerRegistrationRequest"]
                if epoch > 1:
                    await release.wait()
                return s.BrokerRegistrationResponse(broker_epoch=epoch)
            return answer

    node = Slow(3001)
    async with quorum_of([node]) as quorum, Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        await started(fleet, 1)
        node.answers[s.BrokerHeartbeatRequest] = s.BrokerHeartbeatResponse(error_code=Errors.STALE_BROKER_EPOCH)
        await until(lambda: node.request_counts["BrokerRegistrationRequest"] == 2)
        del node.answers[s.BrokerHeartbeatRequest]
        yield node, fleet, fleet.brokers[1], release


@story
async def test_a_broker_killed_while_it_registers_anew_stays_dead() -> None:
    async with registering_anew() as (node, fleet, broker, release):
        fleet.kill([broker])
        release.set()
        beats = node.request_counts["BrokerHeartbeatRequest"]
        await asyncio.sleep(0.2)
        assert broker.state is State.OFF
        assert node.request_counts["BrokerHeartbeatRequest"] == beats
        await fleet.start([broker])
        await fleet.unfenced([broker], 60)
        assert node.request_counts["BrokerRegistrationRequest"] == 3


@story
async def test_a_broker_started_again_while_its_old_registration_waits_is_the_new_one() -> None:
    async with registering_anew() as (node, fleet, broker, release):
        fleet.kill([broker])
        starting = asyncio.create_task(fleet.start([broker]))
        await until(lambda: node.request_counts["BrokerRegistrationRequest"] == 3)
        incarnation_id = broker.incarnation_id
        release.set()
        await starting
        await fleet.unfenced([broker], 60)
        assert (broker.incarnation_id, broker.epoch, broker.deaths) == (incarnation_id, 3, 1)


@story
async def test_a_broker_may_shut_down_while_it_registers_again() -> None:
    async with registering_anew() as (node, fleet, broker, release):
        node.answers[s.BrokerHeartbeatRequest] = s.BrokerHeartbeatResponse(error_code=Errors.STALE_BROKER_EPOCH)
        beats = node.request_counts["BrokerHeartbeatRequest"]
        leaving = asyncio.create_task(fleet.shut_down([broker], 60))
        await until(lambda: node.request_counts["BrokerHeartbeatRequest"] > beats)
        assert broker.state is State.SHUTTING_DOWN
        node.answers[s.BrokerHeartbeatRequest] = s.BrokerHeartbeatResponse(should_shut_down=True)
        release.set()
        await leaving
        assert broker.state is State.OFF


class Behind:
    """A loop whose clock is a second behind Python's: its thread lost its processor while the clocks were compared."""

    def __init__(self, **options: int) -> None:
        self._loop = kernel.Loop(**options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def connect(self, row: int, which: int, address: str) -> int:
        return self._loop.connect(row, which, address) - SECOND

    def drain(self) -> Any:
        notices, *rest = self._loop.drain()
        return [(row, which, kind, when_ns - SECOND, detail) for row, which, kind, when_ns, detail in notices], *rest


@story
async def test_brokers_run_whatever_the_clock_of_the_loop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug: notices about a new connection were dropped as notices about the old one, and were not repeated."""
    monkeypatch.setattr("kcore.measure.hollow.fleet.kernel", SimpleNamespace(**{**vars(kernel), "Loop": Behind}))
    async with controllers(1) as (_, quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        brokers = [fleet.add(at + 1) for at in range(5)]
        await fleet.start(brokers)
        await fleet.unfenced(brokers, 10)


@story
async def test_what_an_earlier_life_was_about_to_reconnect_does_not_keep_the_new_one_from_it() -> None:
    async with registering_anew() as (_, _, broker, release):
        broker.reconnecting.add(kernel.FETCHES)  # It is looking for the active controller.
        release.set()
        await until(lambda: broker.epoch == 2 and broker.state is State.RUNNING)
        assert broker.reconnecting == set()


@story
async def test_a_broker_fetches_on_where_an_answer_to_its_earlier_life_is_seen_to_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    partition = PartitionData(error_code=Errors.UNKNOWN_LEADER_EPOCH, high_watermark=-1, records=None)
    async with controllers(1) as ([node], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:

        async def late(row: int, frame: bytes) -> bool:
            begun.set()
            await release.wait()
            fleet._loop.fetch(row, False, offset=0)
            return False

        monkeypatch.setattr(fleet.observer, "on_unusual", late)
        node.answers[s.FetchRequest] = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        await started(fleet, 1)
        await begun.wait()
        del node.answers[s.FetchRequest]
        fleet.kill(fleet.brokers.values())
        await fleet.start(fleet.brokers.values())
        await fleet.unfenced(fleet.brokers.values(), 60)
        asked = node.request_counts["FetchRequest"]
        release.set()
        fleet._loop.close(0, kernel.FETCHES)
        await asyncio.sleep(0.05)
        fleet._connect(fleet.brokers[1], kernel.FETCHES)
        await until(lambda: node.request_counts["FetchRequest"] > asked)


@story
async def test_connections_beside_one_that_fails_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look-up opens as many again."""
    async with controllers(1) as (_, quorum):
        open_one, opened = quorum._connect, list[Connection]()

        async def sometimes(address: str, name: str | None = None) -> Connection:
            opened.append(await open_one(address, name))
            if len(opened) % 10 == 0:
                raise DisconnectedError("no more")
            return opened[-1]

        await quorum.close()
        monkeypatch.setattr(quorum, "_connect", sometimes)
        looking = asyncio.create_task(quorum.find_leader())
        await until(lambda: len(opened) > 65)  # The second look has begun.
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        assert [each for each in opened[:9] if not each.closed] == []


@story
async def test_a_registration_that_is_given_up_says_how_many_had_registered() -> None:
    class Slow(Controller):
        async def __call__(self, context: RequestContext, message: Any) -> Message:
            if isinstance(message, s.BrokerRegistrationRequest) and message.broker_id > 2:
                return await asyncio.Event().wait()  # type: ignore[func-returns-value]
            return await super().__call__(context, message)

    async with quorum_of([Slow(3001)], patience=0.01) as quorum:
        with pytest.raises(
            TargetError, match=r"^2 of 5 brokers had registered: given up after 0\.6 s: no answer came$"
        ):
            async with Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
                await fleet.start([fleet.add(broker_id) for broker_id in range(1, 6)])


@story
async def test_a_broker_cannot_have_the_id_of_a_controller() -> None:
    async with controllers(1) as ([node], quorum), Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
        with pytest.raises(TargetError, match="cannot have id 3001: a controller has it"):
            fleet.add(node.node_id)


@story
async def test_a_log_whose_end_no_controller_tells_is_not_taken_for_an_empty_one() -> None:
    async with (
        controllers(1) as (_, quorum),
        Fleet(quorum, random=Random(1), options=Options(timeout_s=0.2)) as fleet,
    ):
        with pytest.raises(TargetError, match=r"the metadata log could not be read within 0\.2 s"):
            await fleet.watch()


@pytest.mark.parametrize(("host", "port"), [("a" * 64, 9092), ("127.0.0.1", 65_536)])
@story
async def test_an_active_controller_at_an_impossible_address_is_named(host: str, port: int) -> None:
    node = Controller(3001)
    async with quorum_of([node], patience=0.025) as quorum:
        brokers = [DescribeClusterBroker(broker_id=node.node_id, host=host, port=port)]
        node.answers[s.DescribeClusterRequest] = s.DescribeClusterResponse(controller_id=node.node_id, brokers=brokers)
        with pytest.raises(TargetError, match=r"no active controller at localhost:.*no connection to"):
            await quorum.open()
