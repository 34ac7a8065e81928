"""Fetches that the compiled front answers: as the plain one does, and for as long as it may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.server.quorum.process import QuorumServer
from kcore.storage.raft_log import DiskRaftLog
from net.loops import read_frame, story, until
from server.observers import Observer, observer
from server.quorum_nodes import Nodes, append, committed_everywhere


@asynccontextmanager
async def leader(folder: Path, front: str = "compiled", **settings: Any) -> AsyncIterator[QuorumServer]:
    """An only voter that leads, with its log on the disk."""
    nodes = Nodes(1, **settings)
    log = DiskRaftLog(folder / "__cluster_metadata-0")
    server = nodes.server(1, log, front=front)
    async with server:
        await nodes.leader()
        await committed_everywhere(nodes, 1)
        yield server
    log.close()


def adopted(server: QuorumServer) -> int:
    return len(server._front._server.adopted)  # type: ignore[union-attr]


def counters(server: QuorumServer) -> dict[str, int]:
    compiled = server._front._compiled
    assert compiled is not None
    return compiled.loop.counters()


@asynccontextmanager
async def following(server: QuorumServer, replica_id: int = 100, version: int = 18) -> AsyncIterator[Observer]:
    """An observer that has all, and whose connection the loop has."""
    async with observer(server.port, replica_id, server.node.epoch) as made:
        await made.catch_up(version)
        await made.fetch(version)
        await until(lambda: adopted(server))
        yield made


@pytest.mark.parametrize("version", [13, 15, 17, 18])
@story
async def test_an_observer_is_adopted_once_it_has_all_and_gets_what_is_committed(tmp_path: Path, version: int) -> None:
    async with leader(tmp_path) as server, following(server, version=version) as made:
        server._front._compiled.count()  # type: ignore[union-attr]
        before = server._front._server.metrics.requests  # type: ignore[union-attr]
        made.writer.write(made.fetch_frame(version))
        await until(lambda: counters(server)["waiting"])
        append(server, [b"one", b"two"])
        data = await made.answer(version)
        assert (data.error_code, made.offset) == (0, server.log.end_offset)
        assert made.records.endswith(server.log.read(server.log.end_offset - 1, 1, server.log.end_offset))
        assert data.high_watermark == server.node.high_watermark
        assert counters(server)["fetches"] >= 1 and adopted(server) == 1
        server._front._compiled.count()  # type: ignore[union-attr]
        assert server._front._server.metrics.requests > before  # type: ignore[union-attr]


@story
async def test_the_plain_front_adopts_nobody(tmp_path: Path) -> None:
    async with leader(tmp_path, "plain") as server, observer(server.port, epoch=server.node.epoch) as made:
        await made.catch_up()
        await made.fetch()
        assert adopted(server) == 0


@story
async def test_a_request_of_another_kind_is_answered_by_the_server(tmp_path: Path) -> None:
    """Also one that comes in the same packet behind a fetch that is not answered yet."""
    async with leader(tmp_path) as server, following(server) as made:
        made.writer.write(made.fetch_frame(max_wait_ms=1))
        assert (await made.answer()).error_code == 0
        wrong = made.fetch_frame(current_leader_epoch=made.epoch + 1)
        made.writer.write(made.fetch_frame() + wrong + made.fetch_frame(max_wait_ms=0))
        codes = [(await made.answer()).error_code for _ in range(3)]
        assert codes == [0, Errors.UNKNOWN_LEADER_EPOCH, 0]


@story
async def test_who_waits_when_the_leader_resigns_is_told_so(tmp_path: Path) -> None:
    async with leader(tmp_path) as server, following(server) as one, following(server, 101, 17) as other:
        one.writer.write(one.fetch_frame(max_wait_ms=300))
        other.writer.write(other.fetch_frame(17))
        await until(lambda: counters(server)["waiting"] == 2)
        epoch = server.node.epoch
        server._take(lambda now_ms: server.node.resign(epoch, now_ms))
        for made, version in ((one, 18), (other, 17)):
            data = await made.answer(version)
            assert Errors(data.error_code) is Errors.NOT_LEADER_OR_FOLLOWER
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, epoch)
        assert adopted(server) == 0
