"""Nodes of a quorum in one process, each with a port of loopback and a log in memory or on the disk."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from kcore.processes.machine import free_ports
from kcore.raft.config import RaftConfig
from kcore.raft.effects import Effect, LeaderChanged
from kcore.raft.log import RaftLog
from kcore.raft.memory_log import MemoryLog
from kcore.raft.replicas import Address, ReplicaKey, Voter
from kcore.server.quorum.process import MemoryElections, QuorumServer
from kcore.types import Uuid
from net.loops import until

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
QUICK = {"election_timeout_ms": 300, "fetch_timeout_ms": 600, "election_backoff_max_ms": 200, "append_linger_ms": 0}


class Heard(list[Effect]):
    """What a state machine would be told."""

    @property
    def led_epoch(self) -> int | None:
        """Of the epoch that this node was told that it leads, if it is the last one."""
        changes = [each for each in self if isinstance(each, LeaderChanged)]
        last = changes[-1] if changes else None
        return last.epoch if last is not None and last.epoch_start_offset >= 0 else None


class Nodes:
    """So many static voters; `heard` by node."""

    def __init__(self, count: int, level: str = "4.3", **settings: Any) -> None:
        ports = free_ports(count)
        self.voters = tuple(
            Voter(ReplicaKey(at), {"CONTROLLER": Address("127.0.0.1", port)}) for at, port in enumerate(ports, 1)
        )
        self.settings = {**QUICK, **settings, "level": level}
        self.servers: list[QuorumServer] = []
        self.heard: list[Heard] = []
        self.cluster_ids: list[tuple[int, str]] = []  # As they were to be stored: by which node.

    def config(self, node_id: int, **settings: Any) -> RaftConfig:
        endpoints = next((voter.endpoints for voter in self.voters if voter.key.id == node_id), {})
        dice = Random(node_id).randrange
        directory_id = Uuid(bytes([node_id]) * 16)
        settings = {**self.settings, **settings}
        cluster_id = settings.pop("cluster_id", CLUSTER_ID)
        return RaftConfig(cluster_id, node_id, directory_id, endpoints, dice, voters=self.voters, **settings)

    def server(self, node_id: int, log: RaftLog | None = None, **settings: Any) -> QuorumServer:
        config, heard = self.config(node_id, **settings), Heard()
        port = config.endpoints["CONTROLLER"].port if config.endpoints else 0
        made = QuorumServer(
            config,
            MemoryLog() if log is None else log,
            MemoryElections(),
            host="127.0.0.1",
            port=port,
            listener=heard.append,
            store_cluster_id=lambda cluster_id: self.cluster_ids.append((node_id, cluster_id)),
            stop_ms=500,
        )
        self.servers.append(made)
        self.heard.append(heard)
        return made

    async def leader(self, *, but: QuorumServer | None = None) -> QuorumServer:
        """The one that was told that it leads."""

        def leading() -> list[QuorumServer]:
            return [
                server
                for server, heard in zip(self.servers, self.heard, strict=True)
                if heard.led_epoch == server.node.epoch and server is not but
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
