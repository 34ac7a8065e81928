"""`kcore storm` on a cluster of others, next to a real broker with a topic: both are afterwards as they were before."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from kcore.measure.hollow.fleet import cluster_of
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.equality import same_partitions
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.spark.java import java_home
from oracle.clusters import image_of
from oracle.kafka_tools import RELEASE

COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "storm")
LIMIT_S = 240


@dataclass
class Others:
    """Where the controller listens, and what was there when the broker had made its topic."""

    address: str
    before: ClusterImage
    folder: Path  # of the broker's log


def java(kafka: KafkaQuorum, main: str, *arguments: object) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={kafka.folder / 'log4j2.properties'}"
    command = [str(java_home() / "bin" / "java"), "-Xmx384m", logging, "-cp", f"{kafka_jars(RELEASE)}/*", main]
    return [*command, *map(str, arguments)]


def configured(kafka: KafkaQuorum) -> Path:
    """The properties of a formatted broker with id 1."""
    folder = kafka.folder / "broker"
    folder.mkdir()
    path = folder / "broker.properties"
    path.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers={kafka.bootstrap[0]}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{free_ports(1)[0]}\nlog.dirs={folder / 'log'}\n"
    )
    command = java(kafka, "kafka.tools.StorageTool", "format", "-t", kafka.cluster_id, "-c", path)
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    return path


async def with_topic(address: str) -> ClusterImage:
    """The cluster when its broker runs and leads the partitions of a topic."""
    quorum = Quorum([address], random=Random())
    await quorum.open()
    try:
        async with asyncio.timeout(LIMIT_S):
            brokers = BrokerTable.from_arrays([])
            while brokers.ids[brokers.live].size != 1:
                await asyncio.sleep(0.2)
                brokers = (await cluster_of(quorum, Random())).brokers
        topic = CreatableTopic(name="theirs", num_partitions=3, replication_factor=1)
        [made] = (await quorum.ask(CreateTopicsRequest(topics=[topic]))).topics
        assert made.error_code == 0
        await asyncio.sleep(2)  # The broker says where its replicas are.
        return await cluster_of(quorum, Random())
    finally:
        await quorum.close()


@pytest.fixture(scope="module")
def others() -> Iterator[Others]:
    with KafkaQuorum(RELEASE, heap="512m", first_node_id=3001) as kafka:
        properties = configured(kafka)
        with (properties.parent / "kafka.log").open("wb") as log:
            broker = subprocess.Popen(java(kafka, "kafka.Kafka", properties), stdout=log, stderr=subprocess.STDOUT)
        try:
            address = kafka.bootstrap[0]
            yield Others(address, asyncio.run(with_topic(address)), properties.parent / "log")
        finally:
            broker.kill()
            broker.wait()


def unchanged(others: Others) -> None:
    now = asyncio.run(image_of(others.address))
    assert now.topic_ids == others.before.topic_ids and list(now.topic_ids) == ["theirs"]
    assert now.brokers == others.before.brokers and list(now.brokers) == [1]
    assert same_partitions(now.table, others.before.table)
    assert not list(others.folder.glob("kcore-*")), "the real broker was given a replica of ours"


def test_a_storm_beside_a_real_broker_leaves_it_alone(others: Others, tmp_path: Path):
    command = [*COMMAND, "broker-lost", "--target", others.address, "--brokers", "20", "--partitions", "2000"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--json"], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["scenario"] for row in rows] == ["register", "create", "broker-lost"]
    assert [row["brokers"] for row in rows] == [20, 20, 19]
    assert [row["partitions"] for row in rows] == [3, 2003, 2003]
    assert rows[1]["changes"] == 2000
    assert 0 < rows[2]["changes"] == rows[2]["records"]["PartitionChangeRecord"] <= 2000
    unchanged(others)


@pytest.mark.parametrize("line", ["register: ", "create: "])
def test_an_interrupted_storm_beside_a_real_broker_leaves_it_alone(others: Others, tmp_path: Path, line: str):
    command = [*COMMAND, "delete-topics", "broker-lost", "--target", others.address, "--partitions", "20k"]
    process = subprocess.Popen([*command, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    end = time.monotonic() + LIMIT_S
    for printed in process.stderr:
        if line in printed or time.monotonic() > end:
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3 and "interrupted" in rest, rest
    assert "left behind" not in rest
    unchanged(others)
