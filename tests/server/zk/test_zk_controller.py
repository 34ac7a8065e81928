"""The controller's process over a ZooKeeper in memory and brokers of a few lines: who controls, and what follows."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.zk.handlers import REQUEST_HANDLERS
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.partitions import TopicPartitions
from kcore.schema.topics import CreatableTopic
from kcore.server.zk_controller import event_manager, periodic_events
from kcore.server.zk_controller import zk_controller_server as process
from kcore.server.zk_controller.event_queue import Stop
from kcore.server.zk_controller.zk_controller_metric_families import collector
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from net.loops import story, until
from server.brokers import FakeBroker
from server.zookeepers import Client, Zookeeper, expired, stand_in

SHUTDOWN = s.ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
US, OTHER, BROKER = 1000, 1001, 1


@pytest.fixture(autouse=True)
def zookeeper_of_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


@asynccontextmanager
async def controller(zookeeper: Zookeeper, **options: Any) -> AsyncIterator[ControllerServer]:
    async with ControllerServer(ControllerConfig(US), zookeeper, **options) as server:  # type: ignore[arg-type]
        yield server


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Zookeeper, ControllerServer, FakeBroker]]:
    """One broker, one topic, and the controller in charge of both."""
    zookeeper = Zookeeper()
    async with AsyncExitStack() as stack:
        broker = await FakeBroker().open(stack)
        server = await stack.enter_async_context(controller(zookeeper))
        await until(lambda: server.active.is_active)
        zookeeper.register(BROKER, broker.port)
        zookeeper.write_topic("t", [BROKER], [BROKER])
        await until(lambda: any(isinstance(each, s.LeaderAndIsrRequest) for each in broker.seen))
        yield zookeeper, server, broker


async def shutdown_asked_of(server: ControllerServer) -> Errors:
    async with await connect("127.0.0.1", server.port) as connection:
        return Errors((await connection.send(SHUTDOWN)).error_code)


@story
async def test_requests_that_change_nothing_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    topics = [TopicPartitions(topic="t", partitions=[0])]
    unclean = s.ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=1)
    async with cluster() as (_, server, _), await connect("127.0.0.1", server.port) as connection:
        for _ in range(40):
            await connection.send(s.ControlledShutdownRequest(broker_id=77, broker_epoch=5), 3)
            await connection.send(unclean, 2)
    said = Counter(record.getMessage().split(":")[0].split(" (epoch")[0] for record in caplog.records)
    assert 10 <= said["controlled shutdown of broker 77"] < 30, "the same again and again"
    assert max(said.values()) < 30


@pytest.mark.covers("article F.2", "article B.1")
@story
async def test_brokers_and_clients_learn_of_a_new_topic() -> None:
    async with cluster() as (zookeeper, server, broker):
        assert zookeeper.controller == US
        state = znodes.decode_state("", zookeeper.tree.nodes[znodes.state_path("t", 1)].data)
        assert (state.leader, state.isr, state.controller_epoch) == (BROKER, (BROKER,), 1)
        assert isinstance(broker.seen[0], s.UpdateMetadataRequest)
        listed = {each.id: each.endpoints[0].port for each in broker.seen[0].live_brokers}
        assert listed == {BROKER: broker.port, US: server.port}
        async with await connect("127.0.0.1", server.port) as connection:
            response = await connection.send(s.MetadataRequest(topics=None))
        assert [(topic.name, [each.leader_id for each in topic.partitions]) for topic in response.topics] == [
            ("t", [1, 1])
        ]
        metrics = server.metrics
        assert (metrics.active_controller_count, metrics.controller_epoch) == (1, 1)
        assert metrics.events["TopicChange"].count == 1


@story
async def test_the_page_of_metrics_has_kafkas_names() -> None:
    async with cluster() as (zookeeper, server, _):
        zookeeper.tree.delete(znodes.broker_path(BROKER))
        zookeeper.tell()
        await until(lambda: server.metrics.events["BrokerChange"].count == 2)
        found = {
            (each.name.removeprefix("kafka_controller_"), *each.labels.values()): each.value
            for family in await collector(server)()
            for each in family.samples  # type: ignore[union-attr]
        }
        names = "ActiveControllerCount ActiveBrokerCount GlobalTopicCount GlobalPartitionCount OfflinePartitionsCount"
        assert [found[(f"KafkaController_{name}",)] for name in names.split()] == [1, 0, 1, 2, 2]
        assert found["kcore_event_seconds_count", "BrokerChange"] == 2
        assert found["kcore_event_longest_seconds", "BrokerChange"] > 0
        assert found["ControllerEventManager_EventQueueTimeMs_count",] >= 3
        assert found["kcore_control_request_seconds_count", "UpdateMetadata 8"] >= 1


@pytest.mark.parametrize("verbose", [False, True])
@story
async def test_the_log_tells_an_operator_what_happened(verbose: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A line each at INFO; a line a partition with --verbose, which is DEBUG."""
    with caplog.at_level(logging.DEBUG if verbose else logging.INFO, logger="kcore.server.zk_controller"):
        async with cluster() as (zookeeper, server, _):
            zookeeper.tree.delete(znodes.broker_path(BROKER))
            zookeeper.tell()
            await until(lambda: server.metrics.events["BrokerChange"].count == 2)
            zookeeper.elected(OTHER)
            await until(lambda: f"controller {OTHER} is active, epoch 2" in caplog.text)
    messages = [record.getMessage() for record in caplog.records]
    assert any(line.startswith(f"controller {US} is active, epoch 1: 0 live brokers") for line in messages)
    assert "1 topic of 2 partitions created: t" in messages
    assert "broker 1 failed: 2 partitions offline" in messages
    assert any(line.endswith(" died; live: brokers none") for line in messages)
    assert f"controller {US} has resigned" in messages
    assert ("t-1: leader 1 to -1, leader epoch 1, ISR [1]" in messages) == verbose
    assert not any("broker 1000" in line or "broker 1001" in line for line in messages)


@story
async def test_an_answer_from_which_nothing_follows_is_no_event() -> None:
    """Thousands of brokers answer each UpdateMetadata, and the controller has nothing to do about it."""
    async with cluster() as (_, server, _):
        await until(lambda: "LeaderAndIsrResponseReceived" in server.metrics.events)
        assert server.metrics.requests["UpdateMetadata 8"].count
        assert not any("UpdateMetadata" in kind for kind in server.metrics.events)


@story
async def test_a_lost_broker_gets_no_more_requests() -> None:
    async with cluster() as (zookeeper, server, _):
        zookeeper.tree.delete(znodes.broker_path(BROKER))
        zookeeper.tell()
        await until(lambda: server.metrics.events["BrokerChange"].count == 2)
        assert [*server._channels] == []


@pytest.mark.covers("A17")
@story
async def test_who_asks_is_answered_though_another_is_elected() -> None:
    """KAFKA-10193: nobody waits for a controller that is none any more."""
    async with cluster() as (zookeeper, server, _):
        zookeeper.elected(OTHER)
        await until(lambda: not server.active.is_active)
        assert await shutdown_asked_of(server) is Errors.NOT_CONTROLLER
        assert [*server._channels] == []
        assert (server.metrics.active_controller_count, server.metrics.controller_epoch) == (0, 0)
        zookeeper.resigned()
        await until(lambda: server.active.is_active)
        assert zookeeper.epoch == 3


@pytest.mark.covers("A13")
@story
async def test_a_write_of_a_controller_that_was_deposed_is_not_made() -> None:
    """KAFKA-6082: it hears so from the fence, before any watch tells it."""
    async with cluster() as (zookeeper, server, _):
        zookeeper.before_write = lambda: zookeeper.tree.set_data(znodes.CONTROLLER_EPOCH, b"9") and None
        zookeeper.write_topic("late", [BROKER])
        written = znodes.state_path("late", 0)
        await until(lambda: not server.active.is_active or written in zookeeper.tree.nodes)
        assert written not in zookeeper.tree.nodes


@pytest.mark.covers("A14", "A16")
@story
async def test_a_lost_session_ends_what_is_under_way_and_a_new_one_begins_anew() -> None:
    """KAFKA-6879, KAFKA-12315: nothing waits for the old session, nothing of it is believed."""
    async with cluster() as (zookeeper, server, broker):

        def lost() -> None:
            zookeeper.before_write = lambda: None
            zookeeper.expire()
            expired()

        zookeeper.before_write = lost
        zookeeper.write_topic("u", [BROKER])
        await until(lambda: zookeeper.epoch == 2 and znodes.state_path("u", 0) in zookeeper.tree.nodes)
        await until(lambda: server.active.is_active)
        assert server.active.decisions.controller_epoch == 2
        await until(lambda: broker.seen[-1].controller_epoch == 2)


@story
async def test_a_fault_of_ours_costs_the_office_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(active: Any, event: Any) -> Any:
        raise RuntimeError("a fault of ours")
        yield

    monkeypatch.setattr(event_manager, "REELECT_AFTER_FAULT_S", 0.01)
    monkeypatch.setitem(REQUEST_HANDLERS, s.ControlledShutdownRequest, fails)
    async with cluster() as (zookeeper, server, _):
        with caplog.at_level(logging.ERROR):
            assert await shutdown_asked_of(server) is Errors.NOT_CONTROLLER
        assert "a fault of ours" in caplog.text
        await until(lambda: server.active.is_active)
        assert (zookeeper.controller, zookeeper.epoch) == (US, 2)


@pytest.mark.parametrize("refusals", [1, 2])  # The event's write fails; the deletion of /controller, too.
@story
async def test_an_event_that_zookeeper_refuses_half_way_costs_the_office(
    refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session lives on, but what the table has may not be what ZooKeeper has: all is read anew."""
    monkeypatch.setattr(event_manager, "REELECT_AFTER_FAULT_S", 0.01)
    async with cluster() as (zookeeper, server, broker):
        left = [ZookeeperError("ZooKeeper answers MarshallingError")] * refusals

        def refuse() -> None:
            if left:
                raise left.pop()

        zookeeper.before_write = refuse
        zookeeper.write_topic("u", [BROKER])
        await until(lambda: znodes.state_path("u", 0) in zookeeper.tree.nodes)
        await until(lambda: broker.seen[-1].controller_epoch == 2)
        assert (server.active.is_active, zookeeper.controller, zookeeper.epoch) == (True, US, 2)


@story
async def test_it_stops_cleanly() -> None:
    async with cluster() as (zookeeper, _, _):
        pass
    assert zookeeper.controller is None
    assert not zookeeper.is_open


@story
async def test_who_asks_while_it_stops_is_answered() -> None:
    async with AsyncExitStack() as stack:
        zookeeper, server, _ = await stack.enter_async_context(cluster())
        connection = await stack.enter_async_context(await connect("127.0.0.1", server.port))
        server._events.queue.put_first(Stop())
        assert (await connection.send(SHUTDOWN)).error_code == Errors.NOT_CONTROLLER
        await until(lambda: server.metrics.event_queue_size == 0)
        assert zookeeper.controller is None


@story
async def test_it_stops_though_zookeeper_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Client):
        async def write(self, *operations: Any, **options: Any) -> Any:
            await asyncio.Event().wait()

    monkeypatch.setattr(process, "ZookeeperClient", Silent)
    monkeypatch.setattr(event_manager, "STOP_S", 0.05)
    zookeeper = Zookeeper()
    async with controller(zookeeper) as server:
        await until(lambda: server.active.is_active)
    assert not zookeeper.is_open


@story
async def test_a_fault_without_a_remedy_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = Zookeeper()
    async with controller(zookeeper) as server:
        await until(lambda: server.active.is_active)
        monkeypatch.setattr(server._channels, "check_acknowledgements", lambda now_s: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await server.wait_failed()


@pytest.mark.covers("article D.1")
@pytest.mark.parametrize(("hours", "timeout_ms", "error"), [(1, 600_000, None), (-1, 300, Errors.REQUEST_TIMED_OUT)])
@story
async def test_a_step_of_the_wall_clock_moves_no_deadline(
    hours: int, timeout_ms: int, error: Errors | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DeleteTopics waits as long as it says: one replica is on a broker that does not live."""
    monkeypatch.setattr(periodic_events, "TICK_S", 0.01)
    async with cluster() as (zookeeper, server, _):
        zookeeper.write_topic("half", [BROKER, 7], [BROKER])
        await until(lambda: "half" in server.active.table.topics)
        async with await connect("127.0.0.1", server.port) as connection:
            answer = connection.send(s.DeleteTopicsRequest(topic_names=["half"], timeout_ms=timeout_ms), 3)
            await until(lambda: server.active.deletion.awaited)
            real_ns, step_ns = time.time_ns, hours * 3_600_000_000_000
            monkeypatch.setattr(time, "time_ns", lambda: real_ns() + step_ns)
            ticks = server.metrics.events["Tick"].count
            await until(lambda: answer.done() or server.metrics.events["Tick"].count > ticks + 200)
            error_code = answer.result().responses[0].error_code if answer.done() else None
            assert error_code == error
            answer.cancel()


@story
async def test_who_is_not_elected_waits() -> None:
    zookeeper = Zookeeper()
    zookeeper.elected(BROKER)
    async with controller(zookeeper) as server:
        await until(lambda: server.metrics.events["Reelect"].count)
        assert not server.active.is_active
        zookeeper.resigned()
        await until(lambda: server.active.is_active)
    assert zookeeper.controller is None


@story
async def test_control_is_taken_from_brokers_alone() -> None:
    """Two of ours would take it from each other for ever."""
    zookeeper = Zookeeper()
    zookeeper.tree.create("/brokers/ids", parents=True)
    zookeeper.register(BROKER, 1)
    zookeeper.elected(OTHER)
    async with controller(zookeeper, take_over=True) as server:
        await until(lambda: server.metrics.events["Reelect"].count)
        assert zookeeper.controller == OTHER
        zookeeper.elected(BROKER)
        await until(lambda: server.active.is_active)
        assert zookeeper.controller == US


@story
async def test_nothing_is_left_of_one_that_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Client):
        async def make_path(self, path: str) -> None:
            expired()

    zookeeper = Zookeeper()
    monkeypatch.setattr(process, "ZookeeperClient", Closed)
    with pytest.raises(OSError, match="the session is gone"):
        async with controller(zookeeper):
            pass
    assert not zookeeper.is_open
    assert asyncio.all_tasks() == {asyncio.current_task()}


@story
async def test_a_quota_on_mutations_is_of_the_client_that_asks() -> None:
    async with cluster() as (zookeeper, server, _):
        path = znodes.config_path("clients", "limited")
        zookeeper.tree.create(path, znodes.encode_config({"controller_mutation_rate": "0.01"}), parents=True)

        async def create(client_id: str, name: str) -> Errors:
            request = s.CreateTopicsRequest(
                topics=[CreatableTopic(name=name, num_partitions=3, replication_factor=1)], timeout_ms=0
            )
            async with await connect("127.0.0.1", server.port, client_id=client_id) as connection:
                return Errors((await connection.send(request)).topics[0].error_code)

        assert await create("limited", "first") is Errors.REQUEST_TIMED_OUT, "made, and not led yet"
        assert await create("limited", "second") is Errors.THROTTLING_QUOTA_EXCEEDED
        assert await create("another", "second") is Errors.REQUEST_TIMED_OUT
