"""Nodes of a quorum in one process, each with a port of loopback and a log in memory or on the disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any, ClassVar

from kcore.measure.processes.local_process import free_ports
from kcore.net.limits.connection_limits import Limits
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import AnyAppend, Append, SnapshotReader
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.quorum_node.quorum_request_handlers import LIMITS
from kcore.server.quorum_node.quorum_server import QuorumServer
from kcore.types import Uuid
from net.loops import until

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
QUICK = {"election_timeout_ms": 300, "fetch_timeout_ms": 600, "election_backoff_max_ms": 200, "append_linger_ms": 0}


class Recorder:
    """A state machine that replays its own appends and records all calls."""

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False

    def __init__(self) -> None:
        self.led_epoch: int | None = None
        self.next_offset = -1
        self.committed = 0
        self.calls: list[tuple[Any, ...]] = []

    def decide(self, records: Sequence[bytes]) -> Append:
        assert self.led_epoch is not None
        self.next_offset += len(records)
        return Append(records, self.led_epoch, self.next_offset - len(records))

    def on_leader(self, epoch: int, offset: int) -> Sequence[Append]:
        self.calls.append(("leader", epoch, offset))
        self.led_epoch, self.next_offset = epoch, offset
        return ()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Append]:
        self.calls.append(("committed", batches, end_offset))
        self.committed = end_offset
        return ()

    def on_resigned(self, epoch: int) -> Sequence[Append]:
        self.calls.append(("resigned", epoch))
        self.led_epoch = None
        return ()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Append]:
        raise AssertionError(f"{append} was refused: {next_offset}")

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Append]:
        self.calls.append(("snapshot", reader.snapshot, b"".join(reader)))
        self.committed = reader.snapshot.offset
        return ()


def append(server: QuorumServer, records: Sequence[bytes]) -> Append:
    """As its state machine, which leads."""
    machine = server.runtime._machine._machine
    assert isinstance(machine, Recorder)
    made = machine.decide(records)
    server.runtime.submit([made])
    return made


class Nodes:
    """So many static voters; `recorders` has their state machines, by node."""

    def __init__(self, count: int, level: str = "4.3", **settings: Any) -> None:
        ports = free_ports(count)
        self.voters = tuple(
            Voter(ReplicaKey(at), {"CONTROLLER": Address("127.0.0.1", port)}) for at, port in enumerate(ports, 1)
        )
        self.settings = {**QUICK, **settings, "level": level}
        self.servers: list[QuorumServer] = []
        self.recorders: list[Recorder] = []
        self.cluster_ids: list[tuple[int, str]] = []  # As they were to be stored: by which node.

    def config(self, node_id: int, **settings: Any) -> RaftConfig:
        endpoints = next((voter.endpoints for voter in self.voters if voter.key.id == node_id), {})
        dice = Random(node_id).randrange
        directory_id = Uuid(bytes([node_id]) * 16)
        settings = {**self.settings, **settings}
        cluster_id = settings.pop("cluster_id", CLUSTER_ID)
        return RaftConfig(cluster_id, node_id, directory_id, endpoints, dice, voters=self.voters, **settings)

    def server(
        self,
        node_id: int,
        log: RaftLog | None = None,
        answer_loop: AnswerLoopKind | None = None,
        limits: Limits = LIMITS,
        **settings: Any,
    ) -> QuorumServer:
        config, recorder = self.config(node_id, **settings), Recorder()
        port = config.endpoints["CONTROLLER"].port if config.endpoints else 0
        made = QuorumServer(
            config,
            MemoryLog() if log is None else log,
            MemoryElections(),
            host="127.0.0.1",
            port=port,
            machine=recorder,
            store_cluster_id=lambda cluster_id: self.cluster_ids.append((node_id, cluster_id)),
            stop_ms=500,
            limits=limits,
            **({} if answer_loop is None else {"answer_loop": answer_loop}),
        )
        self.servers.append(made)
        self.recorders.append(recorder)
        return made

    async def leader(self, *, but: QuorumServer | None = None) -> QuorumServer:
        """The server whose state machine was called as leader."""

        def leading() -> list[QuorumServer]:
            return [
                server
                for server, recorder in zip(self.servers, self.recorders, strict=True)
                if recorder.led_epoch == server.node.epoch and server is not but
            ]

        await until(lambda: bool(leading()))
        return leading()[0]


@asynccontextmanager
async def started(count: int, level: str = "4.3", **settings: Any) -> AsyncIterator[Nodes]:
    nodes = Nodes(count, level, **settings)
    async with AsyncExitStack() as stack:
        for voter in nodes.voters:
            await stack.enter_async_context(nodes.server(voter.key.id))
        yield nodes


async def committed_everywhere(nodes: Nodes, end_offset: int, holds: Callable[[], bool] = lambda: True) -> None:
    """Until every node knows that it is."""
    await until(lambda: all((each.node.high_watermark or 0) >= end_offset for each in nodes.servers) and holds())
    await asyncio.sleep(0)
