"""Disks of brokers that fill, go away and are replaced, and what Kafka's tools then tell of directories and replicas.

A disk is a small tmpfs: the tests need root and mount(8), and fail where they have not both.
"""

import asyncio
import json
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from os import statvfs
from pathlib import Path
from shutil import rmtree, which
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

import kcore
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from kcore.schema.structure import Message
from kcore.storage.meta_properties import read_meta_properties, write_meta_properties
from kcore.types import Uuid
from oracle.chaos.kraft_checks import active_controller
from oracle.kafka_tools import LOG_DIRS, REASSIGN, TOPICS, tool_command
from oracle.kcore_brokers import Seen, topic_at, until
from oracle.kraft_clusters import FIRST_CONTROLLER, KCORE_BROKER, UNCORDONED, KraftCluster, Node
from oracle.librdkafka_clients import configuration

SIZE: Final = "64m"
HEADROOM: Final = 128 << 10  # Bytes that a disk has left when it begins to fill.
REPLICAS: Final = {0: (1, 2), 1: (2, 1), 2: (1, 2), 3: (2, 1), 4: (1, 2), 5: (2, 1)}
PER_BROKER: Final = (2, 3)  # Log directories of the brokers 1 and 2.
# By broker, the directory of each partition's replica. An empty directory in place of a lost one gets the same replicas
# again, because no other directory has fewer.
PLACES: Final[dict[int, Sequence[str]]] = {
    1: ("data", "data", "data", "data-2", "data-2", "data-2"),
    2: ("data-2", "data-2", "data", "data", "data-3", "data-3"),
}
MOVED: Final[dict[int, Sequence[str]]] = {
    1: ("data-2", "data-2", "data-2", "data", "data", "data"),
    2: ("data", "data-3", "data-3", "data-2", "data-2", "data"),
}
PROPERTIES: Final = "auto.leader.rebalance.enable=false\n"
OF_BROKERS: Final = f"replica.lag.time.max.ms=4000\nlog.segment.bytes=1048576\n{UNCORDONED}"
# The lines that kcore's and Kafka's brokers log when a directory has failed (ReplicaManager.handleLogDirFailure).
NOTICED: Final = ("goes offline", "Stopping serving logs in dir")
REGISTERED: Final = ("is registered with epoch", "Successfully registered broker")
# When a replica begins to move: kcore's, and Kafka's, which names the future replica's folder.
MOVING: Final = (" moves from ", "-future with properties")
# In the order in which replicas came back, which differs from run to run.
ISR: Final = re.compile(r"(?<=Isr: )[\d,]+")

Places = dict[tuple[int, int], str]
"""By partition and broker, the path of the directory that has the replica."""


class LogDirs(NamedTuple):
    """The output of kafka-log-dirs for a topic: its JSON, by broker and path."""

    brokers: dict[int, dict[str, dict[str, Any]]]

    @classmethod
    def describe(cls, cluster: KraftCluster, asked: Node, topic: str) -> "LogDirs":
        printed = cluster.tool(LOG_DIRS, "--bootstrap-server", asked.address, "--describe", "--topic-list", topic)
        [line] = [each for each in printed.splitlines() if each.startswith("{")]
        return cls(
            {each["broker"]: {path["logDir"]: path for path in each["logDirs"]} for each in json.loads(line)["brokers"]}
        )

    @property
    def places(self) -> Places:
        return {
            (int(partition["partition"].rpartition("-")[2]), broker_id): path
            for broker_id, directories in self.brokers.items()
            for path, each in directories.items()
            for partition in each["partitions"]
        }

    def lines(self) -> list[str]:
        """Without what differs from run to run: where the folders are, and how large the logs."""
        return [
            f"broker {broker_id} {Path(path).name}: {each['error'] or 'no error'}; "
            + " ".join(sorted(_replica(each) for each in each["partitions"]))
            for broker_id, directories in sorted(self.brokers.items())
            for path, each in sorted(directories.items())
        ]


def _sorted(isr: re.Match[str]) -> str:
    return ",".join(sorted(isr[0].split(",")))


def _replica(replica: dict[str, Any]) -> str:
    future = " (future)" if replica["isFuture"] else ""
    return f"{replica['partition'].rpartition('-')[2]}{future} lag {replica['offsetLag']}"


async def ask(node: Node, request: Message) -> Any:
    async with await connect("127.0.0.1", node.port) as connection:
        return await connection.send(request)


def places_of(brokers: Sequence[Node], topic: str) -> dict[tuple[int, int], list[str]]:
    """As LogDirs.places, by requests of kcore's; a replica that moves is in two directories."""
    found: dict[tuple[int, int], list[str]] = {}
    for node in brokers:
        for each in asyncio.run(ask(node, DescribeLogDirsRequest(topics=None))).results:
            indexes = [at.partition_index for known in each.topics if known.name == topic for at in known.partitions]
            for index in indexes:
                found.setdefault((index, node.node_id), []).append(each.log_dir)
    return found


def alter_replica_log_dir(node: Node, topic: str, index: int, path: str) -> None:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    [result] = asyncio.run(ask(node, request)).results
    assert result.partitions[0].error_code == Errors.NONE, result


def finish(futures: dict[str, Any]) -> None:
    for future in futures.values():
        future.result(60)


def assigned_directories(metadata: Path, topic: str, count: int) -> dict[tuple[int, int], Uuid]:
    """By partition and broker, as a controller has written."""
    image = kcore.load_metadata(metadata, stop=True)
    return {
        (index, broker_id): directory
        for index in range(count)
        for known in [image.partition(topic, index)]
        for broker_id, directory in zip(known.replicas, known.directories, strict=True)
    }


def directory_ids(cluster: KraftCluster) -> dict[str, Uuid]:
    """By path."""
    paths = [path for node in cluster.brokers for path in cluster.log_dirs(node)]
    return {str(path): read_meta_properties(path / "meta.properties").directory_id for path in paths}


def run(*command: object) -> None:
    """As root."""
    program, *arguments = map(str, command)
    assert which(program), f"these tests mount small disks: {program} is not installed"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    said = f"{done.stdout} {done.stderr}".strip()
    assert done.returncode == 0, f"these tests mount small disks, as root: {program} {' '.join(arguments)}: {said}"


def mount(path: Path) -> None:
    run("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "kcore-oracle", path)


class Fault(ABC):
    """How a directory is lost, and how an empty one takes its place while the broker is stopped."""

    @abstractmethod
    def strike(self, path: Path) -> None: ...

    @abstractmethod
    def replace(self, path: Path) -> None: ...


class Fill(Fault):
    """No space is left on the disk, a little later."""

    def strike(self, path: Path) -> None:
        found = statvfs(path)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        run("mount", "-o", f"remount,size={used + HEADROOM}", path)

    def replace(self, path: Path) -> None:
        run("umount", path)
        mount(path)


class Unmount(Fault):
    """The disk goes while its files are open, and leaves an empty folder: what is open can be written for ever."""

    def strike(self, path: Path) -> None:
        run("umount", "--lazy", path)

    def replace(self, path: Path) -> None:
        rmtree(path)  # The files that the broker wrote since the umount.
        path.mkdir()
        mount(path)


class ReplaceByFile(Fault):
    """A file is where the directory was."""

    def strike(self, path: Path) -> None:
        path.rename(path.with_name("away"))
        path.write_text("a file")

    def replace(self, path: Path) -> None:
        rmtree(path.with_name("away"))
        path.unlink()
        path.mkdir()


class Loss(NamedTuple):
    """A directory of a broker, and how it is lost."""

    broker_id: int
    name: str
    fault: Fault


LOSSES: Final = {
    "full": Loss(1, "data-2", Fill()),
    "unmounted": Loss(2, "data-2", Unmount()),
    "file": Loss(2, "data-3", ReplaceByFile()),
}
ON_DISKS: Final = [(each.broker_id, each.name) for each in LOSSES.values() if not isinstance(each.fault, ReplaceByFile)]


class Disks(KraftCluster):
    """Two brokers with two and three log directories, and three controllers."""

    def __init__(self, brokers: tuple[str, str], controllers: str, release: str) -> None:
        """Each broker is `kafka` or `kcore`, and so are all controllers."""
        super().__init__(
            controllers=3,
            brokers=2,
            properties=PROPERTIES,
            of_brokers=OF_BROKERS,
            log_dirs=PER_BROKER,
            real=range(FIRST_CONTROLLER, FIRST_CONTROLLER + 3) if controllers == "kafka" else [],
            kcore_brokers=[broker_id for broker_id, kind in enumerate(brokers, 1) if kind == "kcore"],
            release=release,
        )

    def start(self) -> None:
        for broker_id, name in ON_DISKS:
            path = self.path(broker_id, name)
            meta = read_meta_properties(path / "meta.properties")
            mount(path)
            write_meta_properties(path / "meta.properties", meta)
        super().start()

    def close(self) -> None:
        for node in [*self.brokers, *self.controllers]:
            node.kill()
        for broker_id, name in ON_DISKS:
            subprocess.run(["umount", "--lazy", str(self.path(broker_id, name))], capture_output=True, check=False)
        super().close()

    def broker(self, broker_id: int) -> Node:
        return self.brokers[broker_id - 1]

    def path(self, broker_id: int, name: str) -> Path:
        return self.broker(broker_id).folder / name

    # Topics and where they are.

    def paths(self, places: dict[int, Sequence[str]]) -> Places:
        """As PLACES has them."""
        return {
            (index, broker_id): str(self.path(broker_id, places[broker_id][index]))
            for index, replicas in REPLICAS.items()
            for broker_id in replicas
        }

    def make(self, topic: str) -> None:
        """With all replicas where PLACES has them, and the first of each partition as its leader."""
        assignment = [[*replicas] for replicas in REPLICAS.values()]
        new = NewTopic(topic, len(REPLICAS), replica_assignment=assignment)
        admin = AdminClient(configuration(self.bootstrap))
        finish(admin.create_topics([new]))
        self.until(topic, self.is_whole)
        wanted = self.paths(PLACES)
        for (index, broker_id), path in wanted.items():
            alter_replica_log_dir(self.broker(broker_id), topic, index, path)
        self.until_there(topic, wanted)

    def delete(self, topic: str) -> None:
        """Until no broker counts a replica of it."""
        admin = AdminClient(configuration(self.bootstrap))
        finish(admin.delete_topics([topic]))
        until(lambda: places_of(self.brokers, topic) == {}, self.story)

    def move(self, topic: str, wanted: Places) -> None:
        """By kafka-reassign-partitions, which asks the brokers for up to ten seconds until they take it."""
        partitions = [
            {"topic": topic, "partition": index, "replicas": each, "log_dirs": [wanted[index, at] for at in each]}
            for index, each in REPLICAS.items()
        ]
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        where = ("--bootstrap-server", self.bootstrap, "--timeout", "60000")
        self.tool(REASSIGN, *where, "--reassignment-json-file", plan, "--execute", timeout_s=240)

    def until_there(self, topic: str, wanted: Places) -> None:
        """The brokers have each replica there, and so has the controller."""
        until(
            lambda: places_of(self.brokers, topic) == {each: [path] for each, path in wanted.items()},
            lambda: (places_of(self.brokers, topic), wanted, self.story()),
            within_s=120,
        )
        ids = directory_ids(self)
        folder = active_controller(self).data / "__cluster_metadata-0"
        until(
            lambda: (
                assigned_directories(folder, topic, len(REPLICAS)) == {each: ids[path] for each, path in wanted.items()}
            ),
            lambda: (ids, assigned_directories(folder, topic, len(REPLICAS)), self.story()),
        )

    def until(self, topic: str, holds: Callable[[dict[int, Seen]], object], asked: Node | None = None) -> None:
        """By what a broker tells clients, with all partitions."""
        seen: dict[int, Seen] = {}

        def there() -> object:
            seen.update(topic_at((asked or self.broker(1)).address, topic))
            return len(seen) == len(REPLICAS) and holds(seen)

        until(there, lambda: (seen, self.story()), within_s=120)

    @staticmethod
    def is_whole(seen: dict[int, Seen]) -> bool:
        return all(each.leader > 0 and each.isr == {1, 2} and not each.offline for each in seen.values())

    def tell(self, topic: str, asked: Node) -> list[str]:
        """The output of kafka-topics and kafka-log-dirs, without the parts that differ from run to run."""
        printed = self.tool(TOPICS, "--bootstrap-server", asked.address, "--describe", "--topic", topic)
        lines = [
            ISR.sub(_sorted, line.strip().replace("\t", "; ").replace(topic, "t")) for line in printed.splitlines()
        ]
        lines[0] = "; ".join(each for each in lines[0].split("; ") if not each.startswith("TopicId"))
        return [*lines, *LogDirs.describe(self, asked, topic).lines()]

    def story(self) -> list[str]:
        return [f"{node.name}: {node.log.read_text()[-1500:]}" for node in [*self.brokers, *self.controllers]]

    def tracebacks(self) -> list[str]:
        """The tracebacks in the nodes' logs: no injected fault explains one."""
        texts = [node.log.read_text() for node in [*self.brokers, *self.controllers]]
        return [text[text.index("Traceback") - 300 :][:3000] for text in texts if "Traceback" in text]

    # Disks.

    def format(self, node: Node) -> None:
        """The directories that are not formatted."""
        of_kafka = tool_command("kafka.tools.StorageTool", "format", release=self.release)
        program = [*KCORE_BROKER, "format"] if self.is_kcore(node) else of_kafka
        command = [*program, "--ignore-formatted", "-c", str(node.properties), "-t", self.cluster_id]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
