"""Replicas move between directories of brokers under a real KRaft controller: requests over sockets, logs on a disk."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from kcore.server.kraft_broker.image_follower import CORDONED_BY_DEFAULT
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.storage.log.log_directory import LogDirectory
from net.loops import story, until
from server.kraft.test_kraft_broker import Cluster, cluster_in
from server.moving import values_of

SETTINGS = {"log_dirs": "{folder}/a,{folder}/b"}


class CordonedByDefault(Cluster):
    """cordoned.log.dirs is not given."""

    def properties(self, broker_id: int, **settings: str) -> dict[str, str]:
        found = super().properties(broker_id, **settings)
        del found["cordoned.log.dirs"]
        return found


def server(cluster: Cluster, broker_id: int = 1) -> KraftBrokerServer:
    return cluster.brokers[broker_id]


def other(cluster: Cluster, broker_id: int = 1) -> LogDirectory:
    """The directory in which t-0 is not."""
    [found] = [each for each in server(cluster, broker_id).runtime.logs.directories if ("t", 0) not in each.logs]
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
    await until(lambda: [*cluster.folder.glob("[ab]/t-0*")] == [directory.path / "t-0"])  # A thread deletes folders.


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
        found = server(cluster).runtime.logs.hold(
            ("t", 0), cluster.controller.controller.image.topic_ids["t"], is_new=False
        )
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
        await until(lambda: [*tmp_path.glob("[ab]/t-0*")] == [target.path / "t-0"])  # A thread deletes folders.
        await cluster.stop(1)
        await cluster.until_led("t", 2, 2)
        assert (await cluster.produce(2, "t", b"more")).base_offset == 101


@story
async def test_nothing_is_promoted_before_the_controller_has_answered(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **SETTINGS) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await cluster.produce(1, "t", b"a")
        broker, target = server(cluster), other(cluster)
        machine = broker.directories.machine
        queue = machine.queue
        await until(lambda: cluster.partition("t").directories[0] in machine.failures.online)
        queue.broker_epoch = UNKNOWN_BROKER_EPOCH  # Nothing is sent from now on.
        await alter(cluster, target.path)
        await until(lambda: queue.queued)
        await cluster.produce(1, "t", b"b")
        await until(lambda: [each.end_offset for each in target.futures.values()] == [2])
        answer = await cluster.ask(1, DescribeLogDirsRequest(topics=None), 5)
        described = {
            (Path(each.log_dir).name, partition.is_future_key, partition.offset_lag)
            for each in answer.results
            for topic in each.topics
            for partition in topic.partitions
        }
        assert described == {(other.path.name, other is target, 0) for other in broker.runtime.logs.directories}
        assert all(0 < each.usable_bytes <= each.total_bytes and not each.is_cordoned for each in answer.results)
        assert ("t", 0) not in target.logs
        await cluster.stop(1)  # A restart in the middle: the future log is found again.
        await cluster.start(1, **SETTINGS)
        [target] = [each for each in server(cluster).runtime.logs.directories if each.path == target.path]
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
        await until(lambda: len(server(cluster).directories.machine.places) == 1)
        await until(lambda: server(cluster).runtime.manager.cluster.knows(("of-2", 0)))
        path = other(cluster).path
        expected = {
            (str(path), "of-2"): Errors.REPLICA_NOT_AVAILABLE,
            (str(path), "nobody's"): Errors.UNKNOWN_TOPIC_OR_PARTITION,
            (str(path), "x" * 230): Errors.INVALID_TOPIC_EXCEPTION,
            (str(tmp_path / "c"), "t"): Errors.LOG_DIR_NOT_FOUND,
            (f"{path}/", "t"): Errors.LOG_DIR_NOT_FOUND,
            (str(server(cluster).runtime.logs.directories[0].path), "t"): Errors.NONE,
            (str(server(cluster).runtime.logs.directories[1].path), "t"): Errors.NONE,
        }
        found = {(where, topic): await alter(cluster, where, topic) for where, topic in expected}
        assert found == expected
        broker = server(cluster)
        place = next(each for each in broker.runtime.logs.directories if ("t", 0) in each.logs)
        broker.directories.fail(next(each for each in broker.runtime.logs.directories if each is not place), "a test")
        assert await alter(cluster, path) is Errors.KAFKA_STORAGE_ERROR
        assert await alter(cluster, place.path) is Errors.NONE


@story
async def test_replicas_move_between_directories_that_are_cordoned_by_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For internal topics alone: nobody has asked for it. DescribeLogDirs says so."""
    async with AsyncExitStack() as stack:
        cluster = await CordonedByDefault(stack, tmp_path).open(brokers=1, release="4.3.1", **SETTINGS)
        assert CORDONED_BY_DEFAULT in caplog.messages
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        answer = await cluster.ask(1, DescribeLogDirsRequest(topics=None), 5)
        assert [each.is_cordoned for each in answer.results] == [True, True]
        target = other(cluster)
        assert await alter(cluster, target.path) is Errors.NONE
        await until_moved(cluster, target)


@story
async def test_no_replica_moves_into_a_directory_that_is_cordoned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_in(tmp_path, brokers=1, cordoned_log_dirs="{folder}/b", **SETTINGS) as cluster:
        assert CORDONED_BY_DEFAULT not in caplog.messages
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        assert other(cluster).path == tmp_path / "b"
        answer = await cluster.ask(1, DescribeLogDirsRequest(topics=None), 5)
        assert [each.is_cordoned for each in answer.results] == [False, True]
        assert await alter(cluster, tmp_path / "b") is Errors.INVALID_REPLICA_ASSIGNMENT
