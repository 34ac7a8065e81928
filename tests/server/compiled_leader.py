"""A leader with its log on the disk, and observers whose connections the answer loop has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.server.quorum_node.answer_loop import AnswerLoop, AnswerLoopKind
from kcore.server.quorum_node.quorum_request_handlers import LIMITS
from kcore.server.quorum_node.quorum_server import QuorumServer
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from net.loops import until
from server.observers import Observer, observer
from server.quorum_nodes import Nodes, append, committed_everywhere


@asynccontextmanager
async def leader(
    folder: Path,
    answer_loop: AnswerLoopKind = "compiled",
    segments: Settings | None = None,
    limits: Limits = LIMITS,
    **settings: Any,
) -> AsyncIterator[QuorumServer]:
    """An only voter that leads, with its log on the disk."""
    nodes = Nodes(1, **settings)
    log = DiskRaftLog(folder / "__cluster_metadata-0", segments)
    server = nodes.server(1, log, answer_loop=answer_loop, limits=limits)
    async with server:
        await nodes.leader()
        await committed_everywhere(nodes, 1)
        yield server
    log.close()


def adopted(server: QuorumServer) -> int:
    return len(server.handlers._server.connections.adopted)  # type: ignore[union-attr]


def counters(server: QuorumServer) -> dict[str, int]:
    compiled = server.handlers._compiled
    assert compiled is not None
    return compiled.loop.counters()


async def catch_up(server: QuorumServer, made: Observer, version: int = 18) -> None:
    """It has all, and its last fetch was answered when there was something new: then the next one is like it.

    Where the loop has it before, after the first fetch, it gets another request than that, and hands it back: the
    connection stays with the server for one more.
    """
    others = adopted(server)
    while made.offset < server.node.log.end_offset:
        await made.fetch(version, max_wait_ms=1)
    for _ in range(3):
        made.writer.write(made.fetch_frame(version))
        await until(lambda: server.node.leading.fetches)
        append(server, [b"more"])
        await made.answer(version)
        if adopted(server) > others:
            break


@asynccontextmanager
async def following(server: QuorumServer, replica_id: int = 100, version: int = 18) -> AsyncIterator[Observer]:
    """An observer that has all, and whose connection the loop has."""
    async with observer(server.port, replica_id, server.node.epoch) as made:
        before = adopted(server)
        await catch_up(server, made, version)
        assert adopted(server) == before + 1
        yield made


def loop_of(server: QuorumServer) -> AnswerLoop:
    compiled = server.handlers._compiled
    assert compiled is not None
    return compiled


def metrics(server: QuorumServer) -> Metrics:
    server.handlers.count()
    assert server.handlers._server is not None
    return server.handlers._server.metrics


def _is_settled(answer: asyncio.Task[Any], server: QuorumServer, before: int) -> bool:
    return answer.done() or counters(server)["waiting"] > before


async def waits(server: QuorumServer, made: Observer, version: int = 18) -> asyncio.Task[Any]:
    """Its fetch waits in the loop; the task is that of the answer."""
    before = counters(server)["waiting"]
    while True:
        made.writer.write(made.fetch_frame(version))
        answer = asyncio.create_task(made.answer(version))
        await until(partial(_is_settled, answer, server, before))
        if not answer.done():
            return answer
