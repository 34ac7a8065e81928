"""Every request of a server's APIs with hostile values is answered or refused, and never causes an internal error."""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.constants import METADATA_TOPIC
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.net.connect import connect
from kcore.net.server import RequestContext, serve
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.server.quorum_node.quorum_request_handlers import apis_of
from kcore.server.zk_broker import zk_broker_request_handlers as broker_handlers
from kcore.server.zk_controller import zk_controller_request_handlers as controller_handlers
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from kcore.types import Uuid
from net.hostile_messages import Hostile, assert_quiet, send_all
from net.loops import settled, story, until
from seeds import seeds
from server.brokers import FakeBroker
from server.quorum_nodes import CLUSTER_ID, started
from server.replicas import TOPIC_ID, Brokers
from server.zookeepers import Zookeeper, stand_in
from storage import building

BATCH = building.batch(0, [b"a"])
ROUNDS = 5
KNOWN = {
    **{name: "t" for name in ("topic_name", "topic", "name")},
    **{name: 0 for name in ("partition_index", "partition", "index")},
    **{"controller_id": 9, "controller_epoch": 5, "broker_epoch": -1, "leader": 1, "replicas": [1, 2], "isr": [1]},
}
KNOWN_OF_QUORUM = {
    **{name: METADATA_TOPIC for name in ("topic_name", "topic", "name")},
    **{name: 0 for name in ("partition_index", "partition")},
    "cluster_id": CLUSTER_ID,
}
CONTROL = {"LeaderAndIsr", "StopReplica", "UpdateMetadata"}


@pytest.mark.parametrize("seed", seeds(1, 2))
@story
async def test_a_broker_answers_random_requests_and_goes_on(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        brokers = await Brokers(stack, tmp_path).open()
        await brokers.elect(1)
        brokers.elected(5)
        port = brokers.servers[1].port
        hostile = Hostile(Random(seed), KNOWN, uuids=(TOPIC_ID,), records=(BATCH,))
        apis = {name: versions for name, versions in broker_handlers.APIS.items() if name not in CONTROL}
        outcome = await send_all(port, apis, hostile, ROUNDS)
        assert outcome.answered > 10 * outcome.closed
        outcome = await send_all(port, {name: broker_handlers.APIS[name] for name in CONTROL}, hostile, ROUNDS)
        assert outcome.answered > 10 * outcome.closed
        assert_quiet(caplog)
        assert (await brokers.ask(1, s.DescribeClusterRequest())).error_code == Errors.NONE
        # As far as it knows by now, nobody would answer its good-bye.
        brokers.servers[1].runtime.manager.cluster.controller_id = -1


@pytest.mark.parametrize("seed", seeds(1, 2))
@story
async def test_a_controller_answers_random_requests_and_stays_active(
    seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in(monkeypatch)
    zookeeper = Zookeeper()
    async with AsyncExitStack() as stack:
        broker = await FakeBroker().open(stack)
        server = ControllerServer(ControllerConfig(1000), zookeeper)  # type: ignore[arg-type]
        await stack.enter_async_context(server)
        await until(lambda: server.active.is_active)
        zookeeper.register(1, broker.port)
        zookeeper.write_topic("t", [1], [1])
        await until(lambda: broker.seen)
        hostile = Hostile(Random(seed), uuids=(TOPIC_ID,))
        outcome = await send_all(server.port, controller_handlers.APIS, hostile, ROUNDS)
        assert outcome.answered > 10 * outcome.closed
        assert_quiet(caplog)
        assert server.active.is_active


@pytest.mark.parametrize("level", ["3.9", "4.3"])
@pytest.mark.parametrize("seed", seeds(1, 2))
@story
async def test_a_node_of_a_quorum_answers_random_requests_and_its_quorum_has_a_leader(
    seed: int, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(3, level) as nodes:
        leader = await nodes.leader()
        hostile = Hostile(Random(seed), KNOWN_OF_QUORUM, last_epochs=False)  # tests/raft tests the largest epochs.
        outcome = await send_all(leader.port, apis_of(level), hostile, ROUNDS)
        assert outcome.answered > 10 * outcome.closed
        assert_quiet(caplog)
        await nodes.leader()


@pytest.mark.parametrize("seed", seeds(2, 4))
@story
async def test_a_controller_among_brokers_that_answer_nonsense_stays_active(
    seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their answers are well encoded and say what cannot be; the controller stays, and tells them on."""
    stand_in(monkeypatch)
    hostile = Hostile(Random(seed), {"topic_name": "t", "partition_index": 0, "topic_id": Uuid(b"i" * 16)})
    asked = Counter[str]()

    async def nonsense(context: RequestContext, message: Any) -> Any:
        asked[type(message).__name__] += 1
        return hostile.message(response_of(type(message)), context.version)

    zookeeper, apis = Zookeeper(), {"LeaderAndIsr": (7, 7), "UpdateMetadata": (8, 8), "StopReplica": (4, 4)}
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(await serve("127.0.0.1", 0, nonsense, apis))
        server = ControllerServer(ControllerConfig(1000), zookeeper)  # type: ignore[arg-type]
        await stack.enter_async_context(server)
        await until(lambda: server.active.is_active)
        for broker_id in (1, 2, 3):
            zookeeper.register(broker_id, broker.port)
        for number in range(10):
            zookeeper.write_topic(f"t{number or ''}", [1, 2], [2, 3], [3, 1])
        async with await connect("127.0.0.1", server.port) as connection:
            await until(lambda: asked["LeaderAndIsrRequest"] >= 3)
            names = [f"t{number}" for number in range(1, 10)]
            await connection.send(s.DeleteTopicsRequest(topic_names=names, timeout_ms=300), 3)
        await until(lambda: asked["StopReplicaRequest"])
        await settled(lambda: asked.total())
        assert server.active.is_active
        assert not any(record.exc_info for record in caplog.records)
