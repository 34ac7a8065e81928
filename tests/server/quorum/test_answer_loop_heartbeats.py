"""Heartbeats that the answer loop answers: sessions go on by them, and nothing else changes."""

import asyncio
import socket
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.kraft.departures import FENCES_AFTER_A_PAUSE
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema import update_features
from kcore.schema.acls import AclCreation
from kcore.server.kraft_controller.registrations import REGISTERED_AT_ONCE
from kcore.types import Uuid
from kcore.wire.codec import decode_from
from net.loops import read_frame, story, until
from server.compiled_cluster import CLUSTER, active, adopted, broker, counted_heartbeats, registration
from server.observers import observer

DENY = AclCreation(
    resource_type=4,
    resource_name="kafka-cluster",
    resource_pattern_type=3,
    principal="User:ANONYMOUS",
    host="*",
    operation=9,
    permission_type=2,
)
SHORT = {"broker_session_timeout_ms": 900}


@pytest.mark.parametrize("release", ["4.3.1", "3.9.1"])
@story
async def test_heartbeats_in_the_loop_keep_a_session_and_silence_ends_it(tmp_path: Path, release: str) -> None:
    async with active(tmp_path, release=release, **SHORT) as server, broker(server) as made:
        assert adopted(server) == 1
        state = server.controller.context.heartbeats.brokers[1]
        for _ in range(25):
            made.offset += 1
            response = await made.beat()
            assert (response.error_code, response.is_fenced, response.is_caught_up) == (0, False, True)
            await asyncio.sleep(0.06)
        assert counted_heartbeats(server) == 25 and adopted(server) == 1
        server.deliver_heartbeats()
        assert state.metadata_offset == made.offset
        await until(lambda: server.controller.image.brokers[1].fenced)
        await until(lambda: not adopted(server))
        response = await made.beat()
        assert (response.error_code, response.is_fenced) == (0, False), "it is unfenced again, by the controller"


@story
async def test_nobody_is_fenced_whose_heartbeats_came_while_python_was_busy(tmp_path: Path) -> None:
    """Also in Kafka's way, where a broker without a heartbeat is fenced at once: the loop has answered the broker."""
    way = frozenset({FENCES_AFTER_A_PAUSE})
    async with active(tmp_path, kafka_way=way, **SHORT) as server, broker(server) as made:
        assert adopted(server) == 1
        ours: socket.socket = made.writer.get_extra_info("socket")
        done, count = threading.Event(), 0
        beats = socket.socket(fileno=socket.dup(ours.fileno()))
        beats.setblocking(True)

        def beat() -> None:
            nonlocal count
            while not done.wait(0.05):
                beats.send(made.frame())
                count += beats.recv(1 << 16) != b""

        made.writer.transport.pause_reading()  # type: ignore[attr-defined]
        thread = threading.Thread(target=beat)
        thread.start()
        time.sleep(1.5)  # Longer than a session.
        assert count > 10, "it was answered meanwhile"
        for _ in range(30):
            await asyncio.sleep(0.01)
            assert not server.controller.image.brokers[1].fenced
        done.set()
        await asyncio.to_thread(thread.join)
        beats.close()


@story
async def test_what_a_broker_has_applied_is_known(tmp_path: Path) -> None:
    """One may stop once the others have applied that its leaders are moved: their heartbeats lie in the loop."""
    async with active(tmp_path) as server, broker(server, 1) as one, broker(server, 2) as other:
        topic = s.topics.CreatableTopic(name="t", assignments=[], num_partitions=-1, replication_factor=-1)
        topic.assignments = [s.topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
        created = await one.admin.send(s.CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert created.topics[0].error_code == 0
        await other.beat()
        assert adopted(server) == 2
        response = await one.beat(want_shut_down=True)
        assert not response.should_shut_down and not response.is_fenced
        assert not (await one.beat(want_shut_down=True)).should_shut_down, "the other has not applied it"
        assert adopted(server) == 1
        other.offset = server.controller.image.end_offset + 10
        before = counted_heartbeats(server)
        await other.beat()
        assert counted_heartbeats(server) == before + 1
        assert (await one.beat(want_shut_down=True)).should_shut_down


@story
async def test_a_broker_that_registers_again_has_its_old_heartbeats_refused(tmp_path: Path) -> None:
    async with active(tmp_path, **SHORT) as server, broker(server) as made:
        assert adopted(server) == 1
        response = await made.beat(want_shut_down=True)
        assert response.should_shut_down
        assert (await made.admin.send(registration(1, made.release, incarnation=2))).error_code == 0
        assert Errors((await made.beat()).error_code) is Errors.STALE_BROKER_EPOCH
        assert adopted(server) == 0


@story
async def test_a_broker_that_is_unregistered_is_refused(tmp_path: Path) -> None:
    async with active(tmp_path) as server, broker(server) as made:
        assert (await made.beat()).error_code == 0
        gone = await made.admin.send(s.UnregisterBrokerRequest(broker_id=1))
        assert gone.error_code == 0
        assert Errors((await made.beat()).error_code) is Errors.STALE_BROKER_EPOCH
        assert adopted(server) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"offline_log_dirs": [Uuid(bytes([9]) * 16)]},
        {"want_fence": True},
        {"want_shut_down": True},
        {"current_metadata_offset": 1},
        {"broker_epoch": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
@story
async def test_what_is_not_like_the_one_before_is_the_controllers(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with active(tmp_path) as server, broker(server) as made:
        assert adopted(server) == 1
        before = counted_heartbeats(server)
        await made.beat(**changes)
        assert counted_heartbeats(server) == before and adopted(server) == 0


@story
async def test_a_right_that_is_taken_away_is_gone_at_once(tmp_path: Path) -> None:
    rights = {"has_authorizer": True, "allow_everyone_if_no_acl_found": True}
    async with active(tmp_path, **rights) as server, broker(server) as made:
        assert (await made.beat()).error_code == 0
        assert adopted(server) == 1
        created = await made.admin.send(s.CreateAclsRequest(creations=[DENY]))
        assert created.results[0].error_code == 0
        assert Errors((await made.beat()).error_code) is Errors.CLUSTER_AUTHORIZATION_FAILED
        assert adopted(server) == 0


@story
async def test_heartbeats_are_refused_once_the_node_has_resigned(tmp_path: Path) -> None:
    async with active(tmp_path) as server, broker(server) as made:
        assert adopted(server) == 1
        epoch = server.node.epoch
        server.runtime.take("test", lambda now_ms: server.node.resign(epoch, now_ms))
        assert adopted(server) == 0 or server.handlers._compiled._left  # type: ignore[union-attr]
        response = await made.beat()
        assert Errors(response.error_code) in (Errors.NOT_CONTROLLER, Errors.NONE)
        assert counted_heartbeats(server) == 0


@story
async def test_the_end_of_the_loops_thread_is_a_fault_of_the_process(tmp_path: Path) -> None:
    async with active(tmp_path) as server:
        server.handlers._compiled.loop.stop()  # type: ignore[union-attr]
        with pytest.raises(RuntimeError, match="answer loop"):
            await server.wait_failed()


@story
async def test_a_heartbeat_is_not_behind_all_that_register_at_once(tmp_path: Path, monkeypatch: Any) -> None:
    """They came first, each over a connection of its own, and are decided a few at a time; all of them in the end."""
    decided: list[str] = []
    async with active(tmp_path, answer_loop="plain") as server, broker(server) as made, AsyncExitStack() as stack:
        on_request, release = server.controller.on_request, server.controller.config.node.release

        def watched(request: Any, *rest: Any) -> Any:
            decided.append(type(request).__name__)
            return on_request(request, *rest)

        monkeypatch.setattr(server.controller, "on_request", watched)
        clients = [await stack.enter_async_context(await connect("127.0.0.1", server.port)) for _ in range(12)]
        asked = [each.send(registration(broker_id, release)) for broker_id, each in enumerate(clients, 10)]
        await made.beat()
        assert decided.index("BrokerHeartbeatRequest") <= REGISTERED_AT_ONCE
        assert [answer.error_code for answer in await asyncio.gather(*asked)] == [0] * 12


@story
async def test_the_plain_front_keeps_all_heartbeats(tmp_path: Path) -> None:
    async with active(tmp_path, "plain") as server, broker(server) as made:
        for _ in range(3):
            assert (await made.beat()).error_code == 0
        assert adopted(server) == 0


@story
async def test_the_last_heartbeat_of_a_connection_outlives_it(tmp_path: Path) -> None:
    async with active(tmp_path) as server, broker(server) as made:
        state = server.controller.context.heartbeats.brokers[1]
        made.offset += 5
        await made.beat()
        made.writer.transport.abort()
        await until(lambda: not adopted(server))
        server.deliver_heartbeats()
        assert state.metadata_offset == made.offset


@story
async def test_another_level_of_a_feature_may_have_other_rules(tmp_path: Path) -> None:
    """Heartbeats come to the controller again, which looks at them by the new rules."""
    async with active(tmp_path) as server, broker(server) as made:
        assert adopted(server) == 1
        update = update_features.FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
        response = await made.admin.send(s.UpdateFeaturesRequest(feature_updates=[update]), 1)
        assert response.error_code == 0
        before = counted_heartbeats(server)
        await made.beat()
        assert counted_heartbeats(server) == before


@story
async def test_fetches_are_refused_once_the_right_is_gone(tmp_path: Path) -> None:
    rights = {"has_authorizer": True, "allow_everyone_if_no_acl_found": True}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(active(tmp_path, **rights))
        made = await stack.enter_async_context(broker(server))
        follower = await stack.enter_async_context(observer(server.port, 100, server.node.epoch))
        while adopted(server) != 2:
            await follower.fetch(max_wait_ms=1, cluster_id=CLUSTER)
        created = await made.admin.send(s.CreateAclsRequest(creations=[DENY]))
        assert created.results[0].error_code == 0
        follower.writer.write(follower.fetch_frame(max_wait_ms=1, cluster_id=CLUSTER))
        frame = await read_frame(follower.reader)
        answer, _ = decode_from(s.FetchResponse, 18, frame, 5)
        assert Errors(answer.error_code) is Errors.CLUSTER_AUTHORIZATION_FAILED
        await until(lambda: not adopted(server))
