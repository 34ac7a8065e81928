"""kcore's controller as the only voter of its quorum, set up as a recorded one was; clients reach it over the wire.

Its clock stands still but for what a story says, its disk is memory, and its dice are the story's placement seed.
"""

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, Self

import kcore
from controller.kraft.story_wire import Json, batches_of, plain, request_bytes
from kcore.cli.kraft_format import features_of
from kcore.cli.kraft_run import RAFT_LEVELS
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.context import RequestInfo
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.outputs import Clocks, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.tasks import all_tasks
from kcore.raft import kraft_version
from kcore.raft.config import RaftConfig
from kcore.raft.control_records import control_batch, kraft_version_record
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, Effect, Flush, LeaderChanged, SendResponse, SnapshotLoaded, StoreElection
from kcore.raft.memory_log import MemoryLog
from kcore.raft.node import RaftNode
from kcore.raft.replicas import ElectionState, ReplicaKey, Voter
from kcore.raft.voters import VoterSet
from kcore.replication.java_random import JavaRandom
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.structure import Message
from kcore.server.kraft.front import ControllerFront
from kcore.server.kraft.registration import Registration
from kcore.server.kraft.settings import KraftSettings, settings_of
from kcore.types import Uuid

BEGIN_MS: Final = 1_700_000_000_000
ANSWER_S: Final = 60  # After that long a request counts as not answered.
STEP_MS: Final = 100  # As the recorder lets time pass once more, until nothing was written twice.
QUIET_STEPS: Final = 5


class Disk:
    """What is left of a node that has stopped."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.election: ElectionState | None = None


def formatted(story: Json, settings: KraftSettings) -> Disk:
    """As `kafka-storage format` leaves it."""
    disk = Disk()
    if story["format"]["voters"] == "dynamic":
        key = ReplicaKey(story["controllerId"], Uuid(story["directoryId"]))
        voter = Voter(key, {settings.listener: settings.advertised}, 0, 1)
        first = OffsetAndEpoch(0, 0)
        records = [kraft_version_record(1), VoterSet.of([voter]).to_record()]
        disk.log.begin_snapshot(first)
        disk.log.append_snapshot(first, control_batch(records, 0, 0, 0))
        disk.log.freeze_snapshot(first)
    return disk


class StoryNode:
    """`async with` it: then it is the active controller."""

    def __init__(self, story: Json, kafka_way: frozenset[str], disk: Disk | None = None) -> None:
        self.now_ms = self.wall_ms = BEGIN_MS
        settings = settings_of(story["config"])
        self.disk = disk or formatted(story, settings)
        release = story["release"]
        ids = Random(story["placementSeed"])
        self.controller = KraftController(
            settings.controller_config(story["clusterId"], release, kafka_way),
            Bootstrap.of_features(
                features_of(release, story["format"]["releaseVersion"], story["format"]["features"]), "a story"
            ),
            all_tasks(settings.controller_config(story["clusterId"], release, kafka_way)),
            Clocks(lambda: self.now_ms, lambda: self.wall_ms),
            JavaRandom(story["placementSeed"]),
            lambda: Uuid(ids.randbytes(16)),
        )
        self.controller.leader_id = -1
        level, _ = RAFT_LEVELS[release]
        config = RaftConfig(
            story["clusterId"],
            settings.node_id,
            Uuid(story["directoryId"]),
            {settings.listener: settings.advertised},
            lambda bound: 0,
            voters=settings.voters,
            bootstrap_servers=settings.bootstrap,
            listener=settings.listener,
            level=level,
            **settings.raft,
        )
        self.node = RaftNode(config, self.disk.log)
        self.driver = StateMachineDriver[Any](self.node, self.controller)
        self.controller.kraft_version_problem = self._why_no_kraft_version
        self.registration = Registration(config, self.node, self.controller, Random(1))
        self.front = ControllerFront(
            release,
            level,
            settings.listener,
            lambda request, version, to: self._perform(self.node.on_request(request, version, to, self.now_ms)),
            self._control,
            lambda: self.controller.context,
            lambda: (self.now_ms, self.wall_ms),
            lambda: self.node.leader_id,
        )
        self._read_to = self.disk.log.end_offset
        self._client = Client()

    def _why_no_kraft_version(self, version: int) -> str | None:
        problem = kraft_version.upgrade(self.node, version, self.now_ms, validate_only=True)
        return None if problem is None else problem[1]

    async def __aenter__(self) -> Self:
        self._client.port = await self.front.open("127.0.0.1", 0)
        self._perform(self.node.start(self.disk.election, self.now_ms))
        self._wait_for_leadership()
        await self.register()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()
        await self.front.close()

    def _wait_for_leadership(self) -> None:
        while self.controller.epoch is None:
            due_ms = self.node.next_deadline_ms
            assert due_ms is not None, "nothing will make it the leader"
            self.now_ms = max(self.now_ms, due_ms)
            self._perform(self.node.on_timer(self.now_ms))

    # What happens in it.

    def _control(self, request: Message, info: RequestInfo, reply_to: Hashable) -> None:
        self._submit(self.controller.on_request(request, info, reply_to))

    def _perform(self, effects: Iterable[Effect]) -> None:
        outputs: list[Any] = []
        for effect in effects:
            if isinstance(effect, SendResponse):
                self.front.answer(effect)
            elif isinstance(effect, StoreElection):
                self.disk.election = effect.election
            elif isinstance(effect, Flush):
                self.disk.log.flush()
                self._perform(self.node.on_flushed(effect, self.now_ms))
            elif isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
                if isinstance(effect, LeaderChanged):
                    self.controller.leader_id = effect.leader_id
                outputs += self.driver.note(effect)
        if outputs:
            self._submit(outputs)
        while self.driver.has_more:
            self._submit(self.driver.catch_up())
        self.controller.kraft_version = self.node.voter_history.kraft_version
        self.front.show_decided(self.controller)

    def _submit(self, outputs: Sequence[Any]) -> None:
        effects, own = self.driver.submit(outputs, self.now_ms)
        for each in own:
            if isinstance(each, RequestAnswer):
                self.front.answer_to(each.reply_to, each.response)
            elif isinstance(each, ReadSnapshotSlice):
                self._submit(self.controller.on_read_slice())
        self._perform(effects)
        for _ in range(sum(isinstance(each, WorkOn) for each in own)):
            self._submit(self.controller.on_work())

    # What a story does to it.

    async def ask(self, data: bytes) -> bytes | None:
        """The answer to a request; None where the connection was closed instead."""
        return await self._client.exchange(data)

    async def register(self) -> None:
        """The controller registers itself, where metadata.version knows controllers."""
        if self.registration.is_wanted():
            body = plain(kcore.to_json(self.registration.request(), 0))
            await self.ask(request_bytes("ControllerRegistration", 0, body, 0))

    def advance(self, ms: int) -> None:
        """Time passes at once, and what is due happens; then some more time, until nothing happens."""
        self.now_ms += ms
        self._run_due()
        quiet = 0
        while quiet < QUIET_STEPS:
            self.now_ms, before = self.now_ms + STEP_MS, self.disk.log.end_offset
            self._run_due()
            quiet = quiet + 1 if self.disk.log.end_offset == before else 0

    def _run_due(self) -> None:
        due_ms = self.controller.next_due_ms
        while due_ms is not None and due_ms <= self.now_ms:
            self._submit(self.controller.on_timer())
            due_ms = self.controller.next_due_ms
        self._perform(self.node.on_timer(self.now_ms))

    def elect_again(self) -> None:
        """It gives up its leadership, and is elected: it is the only voter."""
        epoch = self.controller.epoch
        assert epoch is not None
        self._perform(self.node.resign(epoch, self.now_ms))
        self._wait_for_leadership()

    def upgrade_kraft_version(self) -> None:
        """As raft does it for an UpdateFeatures that was accepted."""
        assert self.controller.epoch is not None
        self._perform(self.node.upgrade_kraft_version(1, self.controller.epoch, self.now_ms)[1])

    def written(self) -> list[Json]:
        """The batches of the log since the last call."""
        log = self.disk.log
        data = b"".join(each.data for each in log.batches if each.base_offset >= self._read_to)
        self._read_to = log.end_offset
        return list(batches_of(data))


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
