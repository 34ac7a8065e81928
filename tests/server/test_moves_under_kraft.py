"""Replicas move between directories of brokers under a real KRaft controller: requests over sockets, logs on a disk."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundLog, settle_found
from kcore.broker.directories.image_placements import ImagePlacements
from kcore.broker.directories.outputs import CreateReplica, TopicIdPartition
from kcore.broker.lifecycle.machine import Registered
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    AssignReplicasToDirsRequest,
    DescribeLogDirsRequest,
)
from kcore.schema.structure import Message
from kcore.server.broker.controller_client import ControllerClient
from kcore.server.broker.kraft_process import KraftBrokerServer
from kcore.server.broker.process import now_ms
from kcore.server.broker.replica_moves import Hooks, ReplicaMoves
from kcore.storage.log_directory import LogDirectory
from kcore.types import Uuid
from net.loops import story, until
from server import test_kraft_broker
from server.moving import values_of
from server.test_kraft_broker import Cluster, cluster_in

SETTINGS = {"log_dirs": "{folder}/a,{folder}/b"}


class MovingServer(KraftBrokerServer):
    """With the machine of its directories joined as far as moves need it."""

    def _open_front(self) -> None:
        super()._open_front()
        online = [each.directory_id for each in self.logs.online if each.directory_id is not None]
        failures = DirectoryFailures(online, len(self.logs.directories))
        self.directories = BrokerDirectories(self.config.broker_id, failures, self, lambda: 1.0)
        self.directories.queue.is_supported = True
        hooks = Hooks(lambda: self._loader.image, self._fail, self.perform, now_ms)
        self.moves = ReplicaMoves(self.logs, self.manager, self.directories, hooks)
        self.front.moves, self.front.configs = self.moves, self._configs  # type: ignore[attr-defined]
        self.may_ask = asyncio.Event()
        self.may_ask.set()
        self._assigning = ControllerClient(f"broker-{self.config.broker_id}-assignments", self._controller)
        self._is_settled = False

    def _begin_work(self) -> None:
        super()._begin_work()
        self._begin(self.moves.run(), "moves of replicas")
        self._begin(self._assign(), "assignments")

    async def _end_work(self) -> None:
        await super()._end_work()
        self._assigning.close()

    async def _assign(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            await self.may_ask.wait()
            request = self.directories.next_request(now_ms())
            if request is not None:
                answer = await self._assigning.ask(_made(request))
                self.directories.on_response(answer, now_ms())
            self.perform()

    def perform(self) -> None:
        super().perform()
        while outputs := self.directories.take_outputs():
            for output in outputs:
                if isinstance(output, CreateReplica):
                    self._create(output)
                else:
                    self.moves.perform_output(output)
        super().perform()

    def _create(self, output: CreateReplica) -> None:
        [key] = [key for key, topic_id in self._held().items() if (topic_id, key[1]) == output.partition]
        self.logs.hold(key, output.partition[0], is_new=True, directory_id=output.directory)
        place = self.logs.directory_id(key)
        assert place is not None
        self.directories.on_created(output.partition, place, now_ms())

    def _fail(self, directory: LogDirectory, why: str) -> None:
        self._directories_failed(self.logs.fail_directory(directory, why))

    def _directories_failed(self, keys: Sequence[tuple[str, int]] | None) -> None:
        super()._directories_failed(keys)
        for each in self.logs.directories:
            if each.failed is not None and each.directory_id is not None:
                self.directories.on_directory_failed(each.directory_id, now_ms())

    def _on_lifecycle(self, effect: Any) -> None:
        if isinstance(effect, Registered):
            self.directories.queue.broker_epoch = effect.broker_epoch
        super()._on_lifecycle(effect)

    def _follow_image(self, *, is_new: bool) -> None:
        if not self._is_following or not self._has_own_registration(self._loader.image):
            return
        held = self._held()
        if not self._is_settled:
            self._is_settled = True
            self._settle(held)
        partitions = [(topic_id, key[1]) for key, topic_id in held.items()]
        for gone in self.directories.places.keys() - {*partitions}:
            self.directories.on_stopped(gone, now_ms())
        self.directories.catch_up(partitions, now_ms())
        self.perform()
        super()._follow_image(is_new=is_new)

    def _settle(self, held: dict[tuple[str, int], Uuid]) -> None:
        found = self.moves.found_futures(held)
        for directory in self.logs.online:
            for key in directory.logs.keys() & held.keys():
                assert directory.directory_id is not None
                found.setdefault(key, []).append(FoundLog(directory.directory_id, is_future=False))
        for key, logs in found.items():
            partition = held[key], key[1]
            [place] = self.directories_of([partition])
            assert place is not None
            self.directories.on_found(partition, settle_found(partition, logs, place))

    def _held(self) -> dict[tuple[str, int], Uuid]:
        table = self._loader.image.table
        rows = np.flatnonzero((table.replicas__ps == table.brokers.row(self.config.broker_id)).any(axis=1)).tolist()
        topics = [int(table.topic_row__p[row]) for row in rows]
        return {
            (table.topics.names[topic], int(table.partition_index__p[row])): table.topics.ids[topic]
            for row, topic in zip(rows, topics, strict=True)
        }

    # As the machine asks for placements: the image may be another one after a snapshot.

    def directories_of(self, partitions: Sequence[TopicIdPartition]) -> list[Uuid | None]:
        return ImagePlacements(self._loader.image, self.config.broker_id).directories_of(partitions)

    def leads_any(self, partitions: Sequence[TopicIdPartition]) -> bool:
        return ImagePlacements(self._loader.image, self.config.broker_id).leads_any(partitions)


def _made(
    request: AssignReplicasToDirsRequest,
) -> Callable[[Callable[[type[Message]], int]], tuple[Message, int]]:
    return lambda choose: (request, choose(AssignReplicasToDirsRequest))


@pytest.fixture(autouse=True)
def moving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_kraft_broker, "KraftBrokerServer", MovingServer)


def server(cluster: Cluster, broker_id: int = 1) -> MovingServer:
    found = cluster.brokers[broker_id]
    assert isinstance(found, MovingServer)
    return found


def other(cluster: Cluster, broker_id: int = 1) -> LogDirectory:
    """The directory in which t-0 is not."""
    [found] = [each for each in server(cluster, broker_id).logs.directories if ("t", 0) not in each.logs]
    return found


async def alter(cluster: Cluster, path: Path | str, topic: str = "t", index: int = 0, broker_id: int = 1) -> Errors:
    wanted = AlterReplicaLogDir(path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])
    answer = await cluster.ask(broker_id, AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    [found] = answer.results
    assert found.topic_name == topic
    return Errors.of(found.partitions[0].error_code)


async def until_moved(cluster: Cluster, directory: LogDirectory) -> None:
    """The controller has it there, and nothing else is left."""
    await until(lambda: cluster.partition("t").directories == (directory.directory_id,))
    await until(lambda: ("t", 0) in directory.logs)
    folders = [each for path in cluster.folder.glob("[ab]") for each in path.glob("t-0*")]
    assert folders == [directory.path / "t-0"]


@story
async def test_the_leader_moves_while_it_is_written_to(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **SETTINGS) as cluster:
        await cluster.create("t", [1], segment_bytes="1048576")
        await cluster.until_led("t", 1, 1)
        values = [b"%d" % number for number in range(200)]
        for value in values[:100]:
            await cluster.produce(1, "t", value, b"x" * 30_000)
        target = other(cluster)
        assert await alter(cluster, target.path) is Errors.NONE
        for value in values[100:]:
            assert (await cluster.produce(1, "t", value, b"x" * 30_000)).error_code == Errors.NONE
        await until_moved(cluster, target)
        assert (await cluster.produce(1, "t", b"last")).error_code == Errors.NONE
        assert values_of(target.logs["t", 0])[::2] == [*values, b"last"]  # type: ignore[index]
        await cluster.stop(1)
        await cluster.start(1, **SETTINGS)
        await cluster.until_led("t", 1, 1)
        [path] = tmp_path.glob("[ab]/t-0")
        assert path.parent == target.path
        found = server(cluster).logs.hold(("t", 0), cluster.controller.controller.image.topic_ids["t"], is_new=False)
        assert values_of(found)[::2] == [*values, b"last"]


@story
async def test_a_follower_moves_and_goes_on_fetching(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1) as cluster:
        cluster.format(2, **SETTINGS)
        await cluster.start(2, **SETTINGS)
        await cluster.create("t", [1, 2])
        await cluster.until_led("t", 1, 1, 2)
        for number in range(50):
            await cluster.produce(1, "t", b"%d" % number)
        target = other(cluster, 2)
        assert await alter(cluster, target.path, broker_id=2) is Errors.NONE
        for number in range(50, 100):
            await cluster.produce(1, "t", b"%d" % number)
        await until(lambda: cluster.partition("t").directories[1] == target.directory_id)
        await until(lambda: ("t", 0) in target.logs)
        assert (await cluster.produce(1, "t", b"100")).error_code == Errors.NONE
        await until(lambda: values_of(target.logs["t", 0]) == [b"%d" % each for each in range(101)])  # type: ignore[index]
        assert [*tmp_path.glob("[ab]/t-0*")] == [target.path / "t-0"]
        await cluster.stop(1)
        await cluster.until_led("t", 2, 2)
        assert (await cluster.produce(2, "t", b"more")).base_offset == 101


@story
async def test_nothing_is_promoted_before_the_controller_has_answered(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **SETTINGS) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await cluster.produce(1, "t", b"a")
        await until(lambda: cluster.partition("t").directories[0] in server(cluster).directories.failures.online)
        broker, target = server(cluster), other(cluster)
        broker.may_ask.clear()
        await alter(cluster, target.path)
        await until(lambda: broker.directories.queue.queued)
        await cluster.produce(1, "t", b"b")
        await until(lambda: [each.end_offset for each in target.futures.values()] == [2])
        answer = await cluster.ask(1, DescribeLogDirsRequest(topics=None), 5)
        described = {
            (Path(each.log_dir).name, partition.is_future_key, partition.offset_lag)
            for each in answer.results
            for topic in each.topics
            for partition in topic.partitions
        }
        assert described == {(other.path.name, other is target, 0) for other in broker.logs.directories}
        assert all(0 < each.usable_bytes <= each.total_bytes and not each.is_cordoned for each in answer.results)
        assert ("t", 0) not in target.logs
        await cluster.stop(1)  # A restart in the middle: the future log is found again.
        await cluster.start(1, **SETTINGS)
        [target] = [each for each in server(cluster).logs.directories if each.path == target.path]
        await until_moved(cluster, target)
        assert await cluster.values(1, "t") == [b"a", b"b"]


@story
async def test_what_is_refused(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **SETTINGS) as cluster:
        cluster.format(2)
        await cluster.start(2)
        assert await cluster.create("t", [1]) is Errors.NONE
        assert await cluster.create("of-2", [2]) is Errors.NONE
        await cluster.until_led("t", 1, 1)
        await until(lambda: len(server(cluster).directories.places) == 1)
        path = other(cluster).path
        expected = {
            (str(path), "of-2"): Errors.REPLICA_NOT_AVAILABLE,
            (str(path), "nobody's"): Errors.UNKNOWN_TOPIC_OR_PARTITION,
            (str(path), "x" * 230): Errors.INVALID_TOPIC_EXCEPTION,
            (str(tmp_path / "c"), "t"): Errors.LOG_DIR_NOT_FOUND,
            (f"{path}/", "t"): Errors.LOG_DIR_NOT_FOUND,
            (str(server(cluster).logs.directories[0].path), "t"): Errors.NONE,
            (str(server(cluster).logs.directories[1].path), "t"): Errors.NONE,
        }
        found = {(where, topic): await alter(cluster, where, topic) for where, topic in expected}
        assert found == expected
        broker = server(cluster)
        place = next(each for each in broker.logs.directories if ("t", 0) in each.logs)
        broker._fail(next(each for each in broker.logs.directories if each is not place), "a test")
        assert await alter(cluster, path) is Errors.KAFKA_STORAGE_ERROR
        assert await alter(cluster, place.path) is Errors.NONE
