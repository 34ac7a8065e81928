"""One of kcore's controllers, set up as a recorded one was; clients reach it over the wire.

Its clock stands still but for what a story says, its disk is memory, and its dice are the story's placement seed.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from controller.kraft.recorded.story_wire import Json, batches_of
from kcore.cli.servers.kraft_format import features_of
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.kraft_context import RaftView, RequestInfo
from kcore.controller.kraft.outputs import Clocks, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import (
    Committed,
    Effect,
    Flush,
    LeaderChanged,
    Send,
    SendResponse,
    SnapshotLoaded,
    StoreElection,
)
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership import kraft_version
from kcore.raft.membership.replicas import Address, ElectionState, ReplicaKey, Voter
from kcore.raft.membership.voters import VoterSet
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import RELEASES
from kcore.replication.java_random import JavaRandom
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.structure import Message
from kcore.server.kraft_controller.kraft_controller_request_handlers import KraftControllerRequestHandlers
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.kraft_controller.registration import Registration
from kcore.types import Uuid

BEGIN_MS: Final = 1_700_000_000_000
ANSWER_S: Final = 60  # After that long a request counts as not answered.


class Disk:
    """The files that a stopped node leaves."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.election: ElectionState | None = None

    def crash(self) -> None:
        """The process has ended: what was not flushed is lost."""
        self.log = self.log.crash()


def nodes_of(story: Json) -> list[Json]:
    """The controllers of a story: id, directory, port and properties."""
    own = {name: story[name] for name in ("controllerId", "directoryId", "port", "config")}
    found: list[Json] = story.get("nodes", [own])
    return found


def formatted(story: Json, listener: str) -> Disk:
    """As `kafka-storage format` leaves it."""
    disk = Disk()
    if story["format"]["voters"] == "dynamic":
        voters = [
            Voter(
                ReplicaKey(each["controllerId"], Uuid(each["directoryId"])),
                {listener: Address("127.0.0.1", each["port"])},
                *(0, 1),
            )
            for each in nodes_of(story)
        ]
        first = OffsetAndEpoch(0, 0)
        records = [kraft_version_record(1), VoterSet.of(voters).to_record()]
        disk.log.begin_snapshot(first)
        disk.log.append_snapshot(first, control_batch(records, 0, 0, 0))
        disk.log.freeze_snapshot(first)
    return disk


class StoryClocks:
    """The clocks of all nodes. A story moves the controllers' own; raft's moves while a node waits for an election."""

    def __init__(self) -> None:
        self.now_ms = self.wall_ms = self.raft_ms = BEGIN_MS


@dataclass
class Edge:
    """The nodes' common parts: clocks, the network among them, and which of them shall win the next election."""

    send: Callable[["StoryNode", Send], None]
    answer: Callable[[SendResponse], None]
    clocks: StoryClocks = field(default_factory=StoryClocks)
    preferred: int = -1


@dataclass(frozen=True)
class RaftReply:
    """Where a node sends its answer to another node's request."""

    node: "StoryNode"
    correlation_id: int


class StoryNode:
    """One process, from its start to its end."""

    def __init__(
        self, story: Json, kafka_way: frozenset[str], disk: Disk, edge: Edge, node: Json, placement_seed: int
    ) -> None:
        """`node`: one of `nodes_of`, with the properties that this process has."""
        self.disk, self.edge, self._clocks = disk, edge, edge.clocks
        settings = settings_of(node["config"])
        self.node_id, self.config = settings.node_id, node["config"]
        release = story["release"]
        ids = Random(f"{placement_seed}/{settings.node_id}")
        own_config = settings.controller_config(story["clusterId"], release, kafka_way)
        features = features_of(release, story["format"]["releaseVersion"], story["format"]["features"])
        self.controller = KraftController(
            own_config,
            Bootstrap.of_features(features, "a story"),
            all_tasks(own_config),
            Clocks(lambda: self._clocks.now_ms, lambda: self._clocks.wall_ms),
            JavaRandom(placement_seed),
            lambda: Uuid(ids.randbytes(16)),
            RaftView(kraft_version_problem=self._why_no_kraft_version),
        )
        level = RELEASES[release].raft_level
        config = RaftConfig(
            story["clusterId"],
            settings.node_id,
            Uuid(node["directoryId"]),
            {settings.listener: settings.advertised},
            lambda bound: 0 if self.edge.preferred in (-1, self.node_id) else bound - 1,
            voters=settings.voters,
            bootstrap_servers=settings.bootstrap,
            listener=settings.listener,
            level=level,
            **settings.raft,
        )
        self.node = RaftNode(config, self.disk.log)
        self.driver = StateMachineDriver[Any](self.node, self.controller)
        self.registration = Registration(config, self.node, self.controller, Random(1))
        self.handlers = KraftControllerRequestHandlers(
            release,
            level,
            settings.listener,
            lambda request, version, to: self.perform(self.node.on_request(request, version, to, self._raft_ms)),
            self._control,
            lambda: self.controller.context,
            lambda: (self._clocks.now_ms, self._clocks.wall_ms),
            lambda: self.node.leader_id,
            *(lambda: True, lambda _: False),
        )
        self.handlers.pipeline.throttle.clock_ns = lambda: 0  # type: ignore[union-attr]  # A request takes no time.
        self._client = Client()

    @property
    def _raft_ms(self) -> int:
        return self._clocks.raft_ms

    def _why_no_kraft_version(self, version: int) -> str | None:
        problem = kraft_version.upgrade(self.node, version, self._raft_ms, validate_only=True)
        return None if problem is None else problem[1]

    async def open(self) -> None:
        """Clients can reach it, and it takes part in the quorum."""
        self._client.port = await self.handlers.open("127.0.0.1", 0)
        self.perform(self.node.start(self.disk.election, self._raft_ms))

    async def close(self) -> None:
        """The process ends."""
        self._client.close()
        await self.handlers.close()
        self.disk.crash()

    # Its events.

    def _control(self, request: Message, info: RequestInfo, reply_to: Hashable) -> None:
        self._submit(self.controller.on_request(request, info, reply_to))

    def perform(self, effects: Iterable[Effect]) -> None:
        """The effects of its raft node, and all that comes of them."""
        outputs: list[Any] = []
        for effect in effects:
            if isinstance(effect, Send):
                self.edge.send(self, effect)
            elif isinstance(effect, SendResponse):
                self.edge.answer(effect) if isinstance(effect.reply_to, RaftReply) else self.handlers.answer(effect)
            elif isinstance(effect, StoreElection):
                self.disk.election = effect.election
            elif isinstance(effect, Flush):
                self.disk.log.flush()
                self.perform(self.node.on_flushed(effect, self._raft_ms))
            elif isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
                if isinstance(effect, LeaderChanged):
                    self.controller.raft.leader_id = effect.leader_id
                outputs += self.driver.note(effect)
        if outputs:
            self._submit(outputs)
        while self.driver.has_more:
            self._submit(self.driver.catch_up())
        self.controller.raft.kraft_version = self.node.voter_history.kraft_version
        self.controller.raft.voter_ids = self.node.voters.ids
        self.handlers.show_decided(self.controller)

    def _submit(self, outputs: Sequence[Any]) -> None:
        effects, own = self.driver.submit(outputs, self._raft_ms)
        for each in own:
            if isinstance(each, RequestAnswer):
                self.handlers.pending.answer_to(each.reply_to, each.response)
            elif isinstance(each, ReadSnapshotSlice):
                self._submit(self.controller.on_read_slice())
        self.perform(effects)
        for _ in range(sum(isinstance(each, WorkOn) for each in own)):
            self._submit(self.controller.on_work())

    # Events of a story.

    async def ask(self, data: bytes) -> bytes | None:
        """The answer to a request; None where the connection was closed instead."""
        return await self._client.exchange(data)

    def run_due(self) -> None:
        """Run the due tasks of the controller."""
        due_ms = self.controller.next_due_ms
        while due_ms is not None and due_ms <= self._clocks.now_ms:
            self._submit(self.controller.on_timer())
            due_ms = self.controller.next_due_ms
        self.perform(self.node.on_timer(self._raft_ms))

    def resign(self) -> None:
        """It gives up its leadership."""
        assert self.controller.epoch is not None
        self.perform(self.node.resign(self.controller.epoch, self._raft_ms))

    def upgrade_kraft_version(self) -> None:
        """As raft does it for an UpdateFeatures that was accepted."""
        assert self.controller.epoch is not None
        self.perform(self.node.upgrade_kraft_version(1, self.controller.epoch, self._raft_ms)[1])

    def snapshot(self) -> OffsetAndEpoch:
        """Writes one of what is committed, as the process does; there may be one already."""
        controller, log = self.controller, self.disk.log
        offset = controller.snapshot_offset()
        assert offset is not None, "a transaction is open"
        snapshot = OffsetAndEpoch(offset, log.epoch_at(offset - 1))
        if snapshot in log.snapshots:
            return snapshot
        controller.snapshots.need.begin(offset, self._clocks.wall_ms)
        release_journal = controller.snapshots.hold(offset)
        writer = self.node.begin_snapshot(snapshot, self._clocks.wall_ms, self._raft_ms)
        assert writer is not None, "the log cannot begin there"
        image, release = controller.snapshots.image(controller.image), controller.config.node.release
        wall_ms = self._clocks.wall_ms
        for batches in snapshot_slices(image, offset, snapshot.epoch, wall_ms, release_journal, release):
            writer.add(batches)
        release_journal()
        writer.flush()()
        assert writer.freeze()
        return snapshot

    def written(self, offset: int) -> list[Json]:
        """The batches of the log from there on."""
        return list(batches_of(b"".join(each.data for each in self.disk.log.batches if each.base_offset >= offset)))


class Client:
    """One connection at a time; a new one once the other side has closed it."""

    def __init__(self) -> None:
        self.port = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, data: bytes) -> bytes | None:
        async with asyncio.timeout(ANSWER_S):
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self._streams
            writer.write(len(data).to_bytes(4) + data)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                size = int.from_bytes(await reader.readexactly(4))
                return await reader.readexactly(size)
        self.close()
        return None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None
