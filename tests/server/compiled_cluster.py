"""An active controller in this process, with brokers that speak bytes; one front or the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kcore import schema as s
from kcore.controller.kraft.activation import Bootstrap
from kcore.measure.processes.local_process import free_ports
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import RELEASES
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest, Feature, Listener
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.elections import MemoryElections
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.types import Uuid
from kcore.wire.codec import decode_from
from kraft_configs import controller_config
from net.loops import read_frame, request_frame, until

CLUSTER = "a-cluster-of-the-tests"
LEVELS = {"4.3.1": {"metadata.version": 30, "group.version": 1}, "3.9.1": {"metadata.version": 21}}


@asynccontextmanager
async def active(folder: Path, answer_loop: AnswerLoopKind = "compiled", **settings: Any) -> AsyncIterator[KraftServer]:
    [port] = free_ports(1)
    release = settings.setdefault("release", "4.3.1")
    config = controller_config(7, CLUSTER, supported_features=RELEASES[release].supported_features, **settings)
    where = {"CONTROLLER": Address("127.0.0.1", port)}
    level = "3.9" if release == "3.9.1" else "4.3"
    own = Uuid((1 << 70).to_bytes(16))
    voters = (Voter(ReplicaKey(7), where),)
    raft = RaftConfig(CLUSTER, 7, own, where, lambda bound: 0, voters=voters, level=level)
    log = DiskRaftLog(folder / "__cluster_metadata-0")
    bootstrap = Bootstrap.of_features(LEVELS[release], "a test")
    server = KraftServer(
        config,
        raft,
        log,
        MemoryElections(),
        bootstrap,
        host="127.0.0.1",
        port=port,
        stop_ms=100,
        answer_loop=answer_loop,
    )
    async with server:
        await until(lambda: server.controller.stable >= 3 and server.controller.epoch is not None)
        yield server
    log.close()


class Broker:
    """Its heartbeats over a connection of its own."""

    def __init__(self, broker_id: int, release: str, admin: Connection, epoch: int) -> None:
        self.broker_id, self.release, self.admin, self.epoch = broker_id, release, admin, epoch
        self.offset = epoch
        self.correlation_id = 0

    async def open(self, port: int) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)

    def frame(self, version: int = 1, **changes: Any) -> bytes:
        self.correlation_id += 1
        fields = {"broker_id": self.broker_id, "broker_epoch": self.epoch, "current_metadata_offset": self.offset}
        return request_frame(s.BrokerHeartbeatRequest(**fields | changes), version, self.correlation_id)

    async def answer(self, version: int = 1) -> Any:
        frame = await read_frame(self.reader)
        assert int.from_bytes(frame[:4], "big") <= self.correlation_id
        return decode_from(s.BrokerHeartbeatResponse, version, frame, 5)[0]

    async def beat(self, **changes: Any) -> Any:
        self.writer.write(self.frame(**changes))
        return await self.answer()


def registration(broker_id: int, release: str, incarnation: int = 1) -> BrokerRegistrationRequest:
    features = [Feature(name=name, min_supported_version=1, max_supported_version=30) for name in LEVELS[release]]
    if release != "3.9.1":
        features.append(Feature(name="transaction.version", min_supported_version=0, max_supported_version=2))
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=Uuid(bytes([incarnation]) * 16),
        listeners=[Listener(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
        features=features,
        log_dirs=[Uuid(bytes([broker_id]) * 16)],
    )


@asynccontextmanager
async def broker(server: KraftServer, broker_id: int = 1) -> AsyncIterator[Broker]:
    """Registered, unfenced, and its connection adopted where the front is compiled."""
    release = server.controller.config.node.release
    async with await connect("127.0.0.1", server.port) as admin:
        registered = await admin.send(registration(broker_id, release))
        assert registered.error_code == 0
        made = Broker(broker_id, release, admin, registered.broker_epoch)
        await made.open(server.port)
        response = await made.beat()
        assert (response.error_code, response.is_fenced) == (0, False)
        try:
            yield made
        finally:
            made.writer.transport.abort()


def adopted(server: KraftServer) -> int:
    assert server.handlers._server is not None
    return len(server.handlers._server.connections.adopted)


def counted_heartbeats(server: KraftServer) -> int:
    """Heartbeats that the loop has answered."""
    assert server.handlers._compiled is not None
    return server.handlers._compiled.loop.counters()["heartbeats"]
