"""Records a trace: a controller and brokers of real Kafka, and everything that a busy day does to them.

    python tests/recorder/record_day.py DIR [--release 4.4.0] [--minutes 10] [--brokers 3] [--seed 1]

The brokers have two log directories each. At random moments topics are created, grown and deleted, settings change,
partitions move, and preferred leaders are elected; brokers are killed, bounced and shut down, and one loses a disk.
DIR/trace then has the controller's metadata log, for `kcore storm replay DIR/trace`.
"""

import argparse
import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from kcore.measure.hollow.fleet import cluster_of
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.java_process import ChildProcess, stop_all
from kcore.measure.processes.kafka_quorum import KafkaQuorum, log_options
from kcore.measure.processes.local_process import free_ports
from kcore.measure.storm.replay.events import (
    Elected,
    NewTopic,
    Partition,
    PartitionsAdded,
    Setting,
    TopicsCreated,
    TopicsDeleted,
)
from kcore.measure.storm.replay.requests import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    elect,
    errors_of,
    reassign,
)
from kcore.metadata.image.image import ClusterImage
from kcore.spark.java import java_home

TOPIC: Final = 2  # ConfigResourceType
PAUSE_S: Final = 2.0  # The mean pause between two actions.
FACTOR: Final = 3
_FENCED_S: Final = 12.0  # A killed broker stays away until its session has ended.


class Day:
    """A cluster of real processes, and the actions on it."""

    def __init__(self, folder: Path, release: str, brokers: int, random: Random) -> None:
        self.folder, self.random = folder, random
        self.jars = kafka_jars(release)
        self.controllers = KafkaQuorum(release, heap="512m")
        self.ports = free_ports(brokers)
        self.brokers = {at + 1: self._broker(at + 1) for at in range(brokers)}
        self.quorum = Quorum(self.controllers.bootstrap, random=random)
        self.topics: dict[str, int] = {}  # Partitions by name.
        self.named = 0
        self.disk_is_lost = False

    def _directories(self, broker_id: int) -> list[Path]:
        return [self.folder / f"broker-{broker_id}" / name for name in ("a", "b")]

    def _broker(self, broker_id: int) -> ChildProcess:
        home, port = self.folder / f"broker-{broker_id}", self.ports[broker_id - 1]
        home.mkdir(parents=True)
        listener = f"PLAINTEXT://127.0.0.1:{port}"
        lines = {
            "process.roles": "broker",
            "node.id": broker_id,
            "broker.rack": f"rack-{broker_id % 2}",
            "controller.quorum.bootstrap.servers": ",".join(self.controllers.bootstrap),
            "controller.listener.names": "CONTROLLER",
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": ",".join(map(str, self._directories(broker_id))),
            "log.cleaner.dedupe.buffer.size": 4_194_304,
        }
        properties = home / "broker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        java = [str(java_home() / "bin" / "java"), "-XX:+UseSerialGC", "-Xmx256m", *log_options(home)]
        java += ["-cp", f"{self.jars}/*"]
        self.format = [*java, "kafka.tools.StorageTool", "format", "-t", self.controllers.cluster_id, "-c"]
        command = [*java, "kafka.Kafka", str(properties)]
        return ChildProcess(f"broker {broker_id}", home / "broker.log", command, "Kafka Server started")

    async def run(self, seconds: float) -> None:
        """Starts the cluster, acts for so many seconds, and lets all brokers come back."""
        self.controllers.start()
        for broker_id, broker in self.brokers.items():
            properties = self.folder / f"broker-{broker_id}" / "broker.properties"
            formatting = await asyncio.create_subprocess_exec(*self.format, str(properties))
            assert await formatting.wait() == 0, f"broker {broker_id} was not formatted"
            broker.start(wait=False)
        for broker in self.brokers.values():
            await asyncio.to_thread(broker.await_ready)
        await self.quorum.open()
        end_s = time.monotonic() + seconds
        actions: dict[Callable[[], Awaitable[None]], int] = {
            self.create: 6, self.grow: 2, self.delete: 3, self.set: 2, self.move: 4, self.elect: 2,
            self.kill: 1, self.shut_down: 1, self.lose_disk: 1,
        }  # fmt: skip
        waiting: list[Callable[[], Awaitable[None]]] = []
        while time.monotonic() < end_s:
            if not waiting:
                waiting = [act for act, times in actions.items() for _ in range(times)]
                self.random.shuffle(waiting)
            act = waiting.pop()
            print(f"{time.strftime('%H:%M:%S')} {act.__name__}", flush=True)
            await act()
            await asyncio.sleep(self.random.expovariate(1 / PAUSE_S))

    async def ask(self, request: Any) -> None:
        """Sends a request; refusals are part of the day."""
        if found := errors_of(await self.quorum.ask(request)):
            print(f"  refused: {', '.join(sorted({each.name for each in found}))}", flush=True)

    async def create(self) -> None:
        name, partitions = f"day-{self.named}", self.random.randint(1, 6)
        self.named += 1
        ids = [*self.brokers]
        factor = min(FACTOR, len(ids))
        replicas = {at: tuple(self.random.sample(ids, factor)) for at in range(partitions)}
        self.topics[name] = partitions
        await self.ask(create_topics(TopicsCreated((NewTopic(name, replicas, {"retention.ms": "60000"}),))))

    async def grow(self) -> None:
        if self.topics:
            name = self.random.choice([*self.topics])
            replicas = tuple(self.random.sample([*self.brokers], min(FACTOR, len(self.brokers))))
            await self.ask(create_partitions(PartitionsAdded(name, {self.topics[name]: replicas})))
            self.topics[name] += 1

    async def delete(self) -> None:
        if len(self.topics) > FACTOR:
            name = self.random.choice([*self.topics])
            del self.topics[name]
            await self.ask(delete_topics(TopicsDeleted((name,))))

    async def set(self) -> None:
        if self.topics:
            value = str(self.random.randint(1, 2))
            name = self.random.choice([*self.topics])
            await self.ask(alter_configs((Setting(TOPIC, name, "min.insync.replicas", value),)))

    async def move(self) -> None:
        if self.topics:
            name = self.random.choice([*self.topics])
            count = self.random.randint(1, min(FACTOR, len(self.brokers)))
            replicas = tuple(self.random.sample([*self.brokers], count))
            await self.ask(reassign({Partition(name, self.random.randrange(self.topics[name])): replicas}))

    async def elect(self) -> None:
        found = tuple(Partition(name, at) for name, count in self.topics.items() for at in range(count))
        if found:
            await self.ask(elect(Elected(found)))

    async def kill(self) -> None:
        broker = self.random.choice([*self.brokers.values()])
        broker.kill()
        await asyncio.sleep(_FENCED_S)
        await asyncio.to_thread(broker.start)

    async def shut_down(self) -> None:
        broker = self.random.choice([*self.brokers.values()])
        await asyncio.to_thread(stop_all, [broker], 30.0)
        await asyncio.to_thread(broker.start)

    async def lose_disk(self) -> None:
        """Replaces a directory by a file: the broker's next write into it fails. Only once a day."""
        if self.disk_is_lost:
            return
        self.disk_is_lost = True
        lost = self._directories(self.random.choice([*self.brokers]))[1]
        shutil.rmtree(lost)
        lost.write_text("lost")
        await self.create()  # The new replicas show the broker the failure.

    async def end(self) -> None:
        """Copies the log, and ends all processes."""
        image: ClusterImage = await cluster_of(self.quorum, self.random)
        print(f"{len([*image.brokers])} brokers, {image.table.partition_count} partitions", flush=True)
        await self.quorum.close()

    def close(self) -> None:
        stop_all([*self.brokers.values()], 5.0)
        [node] = self.controllers.nodes
        shutil.copytree(node.folder / "log", self.folder / "trace", dirs_exist_ok=True)
        self.controllers.close()


async def main() -> None:
    """Records one day."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--release", default="4.4.0")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    day = Day(options.folder.absolute(), options.release, options.brokers, Random(options.seed))
    try:
        await day.run(options.minutes * 60)
        await day.end()
    finally:
        day.close()


if __name__ == "__main__":
    asyncio.run(main())
