"""The log directories of brokers under a KRaft controller (KIP-858): real disks, real sockets, one process."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kcore.broker.lifecycle.machine import BrokerState
from kcore.errors import TableError
from kcore.metadata.table.directory_table import MIGRATING_UUID
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import DescribeLogDirsRequest
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.topics import DeleteTopicsRequest, DeleteTopicState
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.kraft_broker.timed_requests import TimedRequests
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.log_directory import HIGH_WATERMARKS, LogDirectory
from kcore.storage.partition_metadata import (
    PARTITION_METADATA,
    read_partition_metadata,
    write_partition_metadata,
)
from kcore.storage.raft.raft_format import format_log_directories
from kcore.types import Uuid
from net.loops import story, until
from server.kraft.test_found_directories import a_file
from server.kraft.test_kraft_broker import CLUSTER, Cluster, cluster_in
from storage import building


def of(broker_id: int, count: int = 2) -> dict[str, str]:
    """The setting log.dirs of one broker."""
    return {"log_dirs": ",".join(f"{{folder}}/{name}{broker_id}" for name in "abc"[:count])}


async def two_brokers(cluster: Cluster, count: int = 2) -> None:
    """1 and 2, each with so many directories."""
    for broker_id in (1, 2):
        cluster.format(broker_id, **of(broker_id, count))
        await cluster.start(broker_id, **of(broker_id, count))


def assigned(cluster: Cluster, broker_id: int, topic: str = "t") -> dict[int, Uuid]:
    """The directory of the broker's replica of each partition, by the controller."""
    image, found = cluster.controller.controller.image, {}
    for index in range(9):
        with suppress(TableError):
            known = image.partition(topic, index)
            if broker_id in known.replicas:
                found[index] = known.directories[known.replicas.index(broker_id)]
    return found


def lying(broker: KraftBrokerServer, topic: str = "t") -> dict[int, Uuid | None]:
    """By index, the directory that has the log."""
    return {
        key.partition: each.directory_id
        for each in broker.runtime.logs.directories
        for key in each.logs
        if key.topic == topic
    }


async def until_assigned(cluster: Cluster, *broker_ids: int, topic: str = "t") -> None:
    await until(
        lambda: all(
            assigned(cluster, each, topic) == lying(cluster.brokers[each], topic)
            and not cluster.brokers[each].directories.queued_assignments
            for each in broker_ids
        )
    )


def holds(cluster: Cluster, broker_id: int, count: int) -> bool:
    return len(cluster.brokers[broker_id].runtime.manager.partitions) == count


def leads(cluster: Cluster, broker_id: int, count: int) -> bool:
    """True if the broker leads so many partitions: only then does it take records."""
    return [each.role.value for each in cluster.brokers[broker_id].runtime.manager.partitions.values()] == [
        "leader"
    ] * count


def directory_with(broker: KraftBrokerServer, index: int, topic: str = "t") -> LogDirectory:
    [found] = [each for each in broker.runtime.logs.directories if TopicPartition(topic, index) in each.logs]
    return found


@story
async def test_the_directories_of_replicas_are_reported_and_kafkas_tools_show_them(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=0) as cluster:
        await two_brokers(cluster, 3)
        await cluster.create("t", *[[1, 2]] * 6)
        await until(lambda: holds(cluster, 1, 6) and holds(cluster, 2, 6))
        await until_assigned(cluster, 1, 2)
        assert sorted(lying(cluster.brokers[1]).values(), key=str) == sorted(
            [each.directory_id for each in cluster.brokers[1].runtime.logs.directories] * 2, key=str
        )
        described = await cluster.ask(1, DescribeLogDirsRequest(topics=None))
        by_path = {str(each.path): each.directory_id for each in cluster.brokers[1].runtime.logs.directories}
        assert assigned(cluster, 1) == {
            partition.partition_index: by_path[result.log_dir]
            for result in described.results
            for topic in result.topics
            for partition in topic.partitions
        }


@story
async def test_a_directory_fails_under_a_leader_and_the_other_broker_leads(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=0) as cluster:
        await two_brokers(cluster)
        await cluster.create("t", *[[1, 2]] * 2)
        await cluster.until_led("t", 1, 1, 2)
        await until_assigned(cluster, 1, 2)
        broker, image = cluster.brokers[1], cluster.controller.controller.image
        kept, lost = broker.runtime.logs.directories
        [index] = [each for each, place in lying(broker).items() if place == lost.directory_id]
        a_file(lost.path)
        broker.runtime.directories_failed(broker.runtime.logs.checkpoint())
        broker.runtime.perform()
        await until(lambda: image.brokers[1].directories == (kept.directory_id,))
        await until(lambda: image.partition("t", index).leader == 2 and image.partition("t", index).isr == (2,))
        assert broker.runtime.manager.partitions["t", index].role.value == "offline"
        assert image.partition("t", 1 - index).leader == 1
        assert (await produce(cluster, index, b"b")).error_code == Errors.KAFKA_STORAGE_ERROR
        assert (await produce(cluster, 1 - index, b"b")).error_code == Errors.NONE
        assert not broker.runtime.tasks.failed.is_set()
        assert broker.lifecycle.machine.failures.offline_log_dirs == [lost.directory_id]


@story
async def test_without_the_directory_of_the_metadata_log_a_broker_stops(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **of(1)) as cluster:
        broker = cluster.brokers[1]
        broker.directories.fail(broker.runtime.logs.directories[1], "a test")
        assert not broker.runtime.tasks.failed.is_set()
        await cluster.stop(1)
        await cluster.start(1, **of(1))
        broker = cluster.brokers[1]
        broker.directories.fail(broker.runtime.logs.directories[0], "a test")
        assert broker.runtime.tasks.failed.is_set()


@story
async def test_a_broker_with_one_directory_stops(tmp_path: Path) -> None:
    """The metadata log is elsewhere."""
    settings = of(1, 1) | {"metadata_log_dir": "{folder}/metadata"}
    async with cluster_in(tmp_path, brokers=0) as cluster:
        cluster.format(1, **settings)
        format_log_directories([tmp_path / "metadata"], node_id=1, cluster_id=CLUSTER)
        await cluster.start(1, **settings)
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        broker = cluster.brokers[1]
        (broker.runtime.logs.directories[0].path / f"{HIGH_WATERMARKS}.tmp").mkdir()
        broker.runtime.directories_failed(broker.runtime.logs.checkpoint())
        assert broker.runtime.tasks.failed.is_set()


@story
async def test_a_leader_in_a_failed_directory_stops_without_an_acknowledgement(tmp_path: Path) -> None:
    settings = of(1) | {"log_dir_failure_timeout_ms": "600"}
    async with cluster_in(tmp_path, brokers=1, **settings) as cluster:
        await cluster.create("t", *[[1]] * 2)
        await until(lambda: holds(cluster, 1, 2))
        await until_assigned(cluster, 1)
        broker = cluster.brokers[1]
        lost = broker.runtime.logs.directories[1]
        broker.lifecycle.requests._channel._connection.endpoint = lambda: None
        broker.lifecycle.requests._channel.close()
        broker.directories.fail(lost, "a test")
        assert not broker.runtime.tasks.failed.is_set()
        await until(broker.runtime.tasks.failed.is_set)


@story
async def test_a_replaced_disk_gets_its_replicas_anew(tmp_path: Path) -> None:
    """It comes back empty, and is formatted: with another id, and what was in it comes from the leader."""
    async with cluster_in(tmp_path, brokers=0) as cluster:
        await two_brokers(cluster)
        await cluster.create("t", *[[2, 1]] * 2)
        await cluster.until_led("t", 2, 1, 2)
        await until_assigned(cluster, 1, 2)
        for value in (b"a", b"b"):
            assert (await cluster.produce(2, "t", value)).error_code == Errors.NONE
        lost = cluster.brokers[1].runtime.logs.directories[1]
        there = {index for index, each in lying(cluster.brokers[1]).items() if each == lost.directory_id}
        assert len(there) == 1
        await cluster.stop(1)
        shutil.rmtree(lost.path)
        [made] = format_log_directories(
            [tmp_path / "a1", tmp_path / "b1"], node_id=1, cluster_id=CLUSTER, passes_over_formatted=True
        ).values()
        assert made != lost.directory_id
        await cluster.start(1, **of(1))
        await cluster.until_led("t", 2, 1, 2)
        await until_assigned(cluster, 1)
        broker = cluster.brokers[1]
        assert lying(broker).keys() == {0, 1}
        await until(lambda: broker.runtime.logs.hold(("t", 0), Uuid(bytes(16)), is_new=False).end_offset == 2)


@story
async def test_a_directory_that_is_missing_at_the_start_is_offline_and_nothing_is_made_elsewhere(
    tmp_path: Path,
) -> None:
    async with cluster_in(tmp_path, brokers=0) as cluster:
        await two_brokers(cluster)
        await cluster.create("t", *[[1, 2]] * 2)
        await cluster.until_led("t", 1, 1, 2)
        await until_assigned(cluster, 1, 2)
        lost = cluster.brokers[1].runtime.logs.directories[1]
        there = [index for index, each in lying(cluster.brokers[1]).items() if each == lost.directory_id]
        await cluster.stop(1)
        a_file(lost.path)
        await cluster.start(1, **of(1))
        image, broker = cluster.controller.controller.image, cluster.brokers[1]
        await until(lambda: all(image.partition("t", index).leader == 2 for index in there))
        assert image.brokers[1].directories == (broker.runtime.logs.directories[0].directory_id,)
        assert lying(broker).keys() == {0, 1} - {*there}
        assert all(broker.runtime.manager.partitions["t", index].role.value == "offline" for index in there)
        assert assigned(cluster, 1)[there[0]] == lost.directory_id
        # New replicas are still created (KAFKA-16157).
        await cluster.create("u", [1])
        await cluster.until_led("u", 1, 1)
        # The disk comes back with all its records.
        await cluster.stop(1)
        lost.path.unlink()
        lost.path.with_name(f"{lost.path.name}-away").rename(lost.path)
        await cluster.start(1, **of(1))
        await until(lambda: all({*image.partition("t", index).isr} == {1, 2} for index in (0, 1)))
        await until_assigned(cluster, 1)
        assert lying(cluster.brokers[1]).keys() == {0, 1}


@story
async def test_a_copy_that_is_not_the_assigned_one_is_not_served_while_a_directory_is_offline(tmp_path: Path) -> None:
    """It may lack records: it stays as it is, until the directory is back that the metadata log names."""
    async with cluster_in(tmp_path, brokers=1, **of(1)) as cluster:
        await cluster.create("t", *[[1]] * 2)
        await until(lambda: holds(cluster, 1, 2))
        await until_assigned(cluster, 1)
        kept, lost = cluster.brokers[1].runtime.logs.directories
        [index] = [each for each, place in lying(cluster.brokers[1]).items() if place == lost.directory_id]
        await cluster.stop(1)
        shutil.copytree(lost.path / f"t-{index}", kept.path / f"t-{index}")
        a_file(lost.path)
        await cluster.start(1, **of(1))
        assert cluster.brokers[1].runtime.manager.partitions["t", index].role.value == "offline"
        assert (kept.path / f"t-{index}").is_dir()
        assert assigned(cluster, 1)[index] == lost.directory_id
        assert cluster.controller.controller.image.partition("t", index).leader == -1


@story
@pytest.mark.covers("C12")
async def test_a_topic_made_again_while_its_disk_is_away(tmp_path: Path) -> None:
    """Its replica is made in the other directory; what the disk has of the old topic goes when it comes back."""
    async with cluster_in(tmp_path, brokers=0) as cluster:
        await two_brokers(cluster)
        await cluster.create("t", *[[1, 2]] * 2)
        await until(lambda: holds(cluster, 1, 2))
        await until_assigned(cluster, 1, 2)
        broker = cluster.brokers[1]
        lost = broker.runtime.logs.directories[1]
        [index] = [each for each, place in lying(broker).items() if place == lost.directory_id]
        broker.directories.fail(lost, "a test")
        await until(lambda: cluster.controller.controller.image.partition("t", index).leader == 2)
        await delete(cluster, "t")
        await cluster.create("t", *[[1, 2]] * 2)
        await until_assigned(cluster, 1, 2)
        await until(lambda: len(lying(broker)) == 2)
        assert (lost.path / f"t-{index}").is_dir()
        assert broker.runtime.manager.partitions["t", index].role.value in ("leader", "follower")
        await cluster.stop(1)
        await cluster.start(1, **of(1))
        await until_assigned(cluster, 1)
        assert not (lost.path / f"t-{index}").exists()
        assert lying(cluster.brokers[1]).keys() == {0, 1}


@story
@pytest.mark.covers("C5")
async def test_assignments_are_sent_once_the_metadata_version_allows_it(tmp_path: Path) -> None:
    """At 3.7-IV1 no directory is known; at 3.7-IV2 the broker registers again and tells all."""
    async with cluster_in(tmp_path, brokers=1, levels={"metadata.version": 16}, **of(1)) as cluster:
        await cluster.create("t", *[[1]] * 4)
        await until(lambda: holds(cluster, 1, 4))
        broker, image = cluster.brokers[1], cluster.controller.controller.image
        assert len({*lying(broker).values()}) == 2
        assert not image.brokers[1].directories and broker.directories.queued_assignments == 0
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=17)
        answer = await cluster.ask(1, UpdateFeaturesRequest(feature_updates=[update]))
        assert answer.error_code == Errors.NONE
        await until_assigned(cluster, 1)
        assert {*image.brokers[1].directories} == {*lying(broker).values()}
        assert await cluster.produce(1, "t", b"a")


@story
@pytest.mark.covers("KIP-858 migration 8", "KIP-858 migration 9")
async def test_a_broker_whose_replicas_are_in_migrating_stays_fenced_until_all_are_assigned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are so behind a migration from ZooKeeper, and behind an upgrade that the broker did not see."""
    async with cluster_in(tmp_path, brokers=0, levels={"metadata.version": 16}) as cluster:
        await two_brokers(cluster)
        await cluster.create("t", *[[1, 2]] * 3)
        await until(lambda: holds(cluster, 1, 3) and holds(cluster, 2, 3))
        await cluster.stop(1)
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=17)
        assert (await cluster.ask(2, UpdateFeaturesRequest(feature_updates=[update]))).error_code == Errors.NONE
        await until_assigned(cluster, 2)
        may_ask, ask = asyncio.Event(), TimedRequests._ask

        async def when_it_may(self: TimedRequests, make: Any, timeout_s: float) -> None:
            if self._name.startswith("assignments"):
                await may_ask.wait()
            await ask(self, make, timeout_s)

        monkeypatch.setattr(TimedRequests, "_ask", when_it_may)
        broker, image = await cluster.start(1, is_awaited=False, **of(1)), cluster.controller.controller.image
        await until(lambda: holds(cluster, 1, 3) and broker.directories.queued_assignments == 3)
        machine = broker.lifecycle.machine
        await until(lambda: machine.state is BrokerState.RECOVERY and machine.in_flight is None)
        await until(lambda: machine.in_flight is not None)  # One more heartbeat does not unfence it either.
        assert image.brokers[1].fenced and {*assigned(cluster, 1).values()} == {MIGRATING_UUID}
        may_ask.set()
        await broker.until_running()
        assert assigned(cluster, 1) == lying(broker)
        assert not image.brokers[1].fenced


async def delete(cluster: Cluster, topic: str) -> None:
    state = DeleteTopicState(name=topic, topic_id=Uuid(bytes(16)))
    answer = await cluster.ask(2, DeleteTopicsRequest(topics=[state], timeout_ms=5_000), 6)
    assert answer.responses[0].error_code == Errors.NONE


@story
async def test_of_two_logs_that_one_counts_which_the_metadata_log_names(tmp_path: Path) -> None:
    """A crash between the two renamings of a promotion leaves both."""
    async with cluster_in(tmp_path, brokers=1, **of(1)) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await until_assigned(cluster, 1)
        await cluster.produce(1, "t", b"a")
        right = directory_with(cluster.brokers[1], 0)
        [wrong] = [each for each in cluster.brokers[1].runtime.logs.directories if each is not right]
        await cluster.stop(1)
        shutil.copytree(right.path / "t-0", wrong.path / "t-0")
        await cluster.start(1, **of(1))
        await cluster.until_led("t", 1, 1)
        assert await cluster.values(1, "t") == [b"a"]
        assert not (wrong.path / "t-0").exists() and directory_with(cluster.brokers[1], 0).path == right.path


@story
async def test_of_two_logs_that_the_metadata_log_does_not_name_none_counts(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **of(1, 3)) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await until_assigned(cluster, 1)
        right, *others = sorted(cluster.brokers[1].runtime.logs.directories, key=lambda each: ("t", 0) not in each.logs)
        await cluster.stop(1)
        for each in others:
            shutil.copytree(right.path / "t-0", each.path / "t-0")
        shutil.rmtree(right.path / "t-0")
        server = await cluster.start(1, is_awaited=False, **of(1, 3))
        await until(server.runtime.tasks.failed.is_set)
        assert cluster.role(1, "t") == "offline"
        assert all((each.path / "t-0").is_dir() for each in others)


@story
async def test_a_stray_beside_the_replica_is_kept_under_another_name(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, **of(1)) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await until_assigned(cluster, 1)
        await cluster.produce(1, "t", b"a")
        right = directory_with(cluster.brokers[1], 0)
        [other] = [each for each in cluster.brokers[1].runtime.logs.directories if each is not right]
        await cluster.stop(1)
        for each in (right, other):
            (each.path / "gone-0").mkdir()
        (other.path / "t-0").mkdir()
        write_partition_metadata(other.path / "t-0" / "partition.metadata", Uuid(b"o" * 16))
        await cluster.start(1, **of(1))
        await cluster.until_led("t", 1, 1)
        assert await cluster.values(1, "t") == [b"a"]
        assert not (other.path / "t-0").exists()
        assert not (other.path / "gone-0").exists() and not (right.path / "gone-0").exists()
        assert [len([*other.path.glob(pattern)]) for pattern in ("t-0.*-stray", "gone-0.*-stray")] == [1, 1]


@contextmanager
def small_disk(path: Path) -> Iterator[bool]:
    """A file system of 3 MB; False where this process may mount none."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(path)]
    is_mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.covers("C16")
@story
async def test_a_log_without_its_partition_metadata_stops_nothing(tmp_path: Path) -> None:
    """A crash between the folder and that file, or a disk that lost it: the broker starts, and nothing else is lost."""
    async with cluster_in(tmp_path, brokers=1, log_dirs="{folder}/a,{folder}/b") as cluster:
        await cluster.create("t", *[[1]] * 2)
        await until(lambda: leads(cluster, 1, 2))
        for index in (0, 1):
            assert (await produce(cluster, index, b"a")).error_code == Errors.NONE
        topic_id = cluster.controller.controller.image.topic_ids["t"]
        await cluster.stop(1)
        [path] = tmp_path.glob(f"*/t-0/{PARTITION_METADATA}")
        path.unlink()
        await cluster.start(1, log_dirs="{folder}/a,{folder}/b")
        await until(lambda: leads(cluster, 1, 2) and path.exists())
        assert read_partition_metadata(path) == topic_id
        assert [(await produce(cluster, index, b"b")).base_offset for index in (0, 1)] == [1, 1]


@story
async def test_a_disk_is_full(tmp_path: Path) -> None:
    """Its leader fails, and the other broker has all that was acknowledged."""
    with small_disk(tmp_path / "b1") as is_small:
        async with cluster_in(tmp_path, brokers=0) as cluster:
            await two_brokers(cluster)
            await cluster.create("t", *[[1, 2]] * 2, segment_bytes="1048576")
            await cluster.until_led("t", 1, 1, 2)
            await until_assigned(cluster, 1, 2)
            broker, image = cluster.brokers[1], cluster.controller.controller.image
            lost = broker.runtime.logs.directories[1]
            [index] = [each for each, place in lying(broker).items() if place == lost.directory_id]
            if not is_small:
                a_file(lost.path)
            acknowledged = 0
            while (await produce(cluster, index, b"x" * 200_000)).error_code == Errors.NONE:
                acknowledged += 1
                assert acknowledged < 100
            assert acknowledged
            await until(lambda: image.partition("t", index).leader == 2)
            assert not broker.runtime.tasks.failed.is_set()
            log = directory_with(cluster.brokers[2], index).logs[TopicPartition("t", index)]
            assert log.end_offset >= acknowledged


@story
async def test_what_a_disk_refuses_to_a_producer_takes_that_directory_offline(tmp_path: Path) -> None:
    """The other directory goes on."""
    async with cluster_in(tmp_path, brokers=0) as cluster:
        await two_brokers(cluster)
        await cluster.create("t", *[[1, 2]] * 2, segment_bytes="1048576")
        await cluster.until_led("t", 1, 1, 2)
        await until_assigned(cluster, 1, 2)
        broker, image = cluster.brokers[1], cluster.controller.controller.image
        lost = broker.runtime.logs.directories[1]
        [index] = [each for each, place in lying(broker).items() if place == lost.directory_id]
        a_file(lost.path)
        answers: list[Any] = []
        while not answers or answers[-1].error_code == Errors.NONE:  # Until the next segment is to be made.
            answers.append(await produce(cluster, index, b"x" * 400_000))
            assert len(answers) < 10
        assert answers[-1].error_code == Errors.KAFKA_STORAGE_ERROR
        await until(lambda: image.partition("t", index).leader == 2)
        assert image.partition("t", 1 - index).leader == 1 and not broker.runtime.tasks.failed.is_set()


async def produce(cluster: Cluster, index: int, value: bytes) -> Any:
    data = [PartitionProduceData(index=index, records=building.batch(0, [value]))]
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    answer = await cluster.ask(1, request, 9)
    return answer.responses[0].partition_responses[0]
