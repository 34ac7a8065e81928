"""Kafka's tools move replicas between the directories of kcore's brokers and of Kafka's, under load (KIP-113)."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from oracle.kafka_tools import REASSIGN
from oracle.kraft.test_kraft_broker import REPLICAS, TOPIC, load, progress
from oracle.kraft.test_kraft_directories import PER_BROKER, Directories
from oracle.kraft_clusters import CORDONED

ROUNDS: Final = 2


@pytest.fixture(scope="module", params=["kafka", "kcore"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Directories]:
    with Directories(real_controllers=request.param == "kafka", log_dirs=(2, 3, 3)) as made:
        made.create_topic()
        made.alter_kcore_brokers("--add-config", f"{CORDONED}=")  # The tool writes the replicas with their directories.
        yield made


def next_place(cluster: Directories, broker_id: int, place: str) -> str:
    """The broker's next directory after that one."""
    paths = [str(each) for each in cluster.log_dirs(cluster.broker(broker_id))]
    return paths[(paths.index(place) + 1) % PER_BROKER[broker_id]]


def execute(cluster: Directories, name: str, wanted: dict[tuple[int, int], str]) -> Path:
    """Every replica is to move there, by partition and broker."""
    partitions = [
        {
            "topic": TOPIC,
            "partition": index,
            "replicas": replicas,
            "log_dirs": [wanted[index, each] for each in replicas],
        }
        for index, replicas in REPLICAS.items()
    ]
    plan = cluster.folder / name
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    where = ("--bootstrap-server", cluster.broker(3).address)
    cluster.tool(REASSIGN, *where, "--reassignment-json-file", str(plan), "--execute", timeout_s=240)
    return plan


def test_every_replica_moves_to_the_next_directory_of_its_broker(cluster: Directories) -> None:
    cluster.until_agreed()
    where = ("--bootstrap-server", cluster.broker(3).address)
    with load(cluster) as writer:
        for number in range(ROUNDS):
            progress(writer)
            places = cluster.lying()
            wanted = {(index, each): next_place(cluster, each, place) for (index, each), place in places.items()}
            plan = execute(cluster, f"plan-{number}.json", wanted)
            cluster.until(lambda _, wanted=wanted: cluster.lying() == wanted)
            printed = cluster.tool(REASSIGN, *where, "--reassignment-json-file", str(plan), "--verify")
            assert printed.count("completed successfully") >= len(REPLICAS) * 3, printed
            progress(writer)
        cluster.until_agreed()
        cluster.until_whole()
    for node in cluster.brokers:
        folders = [each.name for path in cluster.log_dirs(node) for each in path.glob(f"{TOPIC}-*")]
        assert sorted(each for each in folders if not each.endswith("-delete")) == ["t-0", "t-1", "t-2"]
    assert cluster.faults() == []


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
def test_a_broker_is_killed_while_its_replicas_move(cluster: Directories, delay_s: float) -> None:
    """After the restart each replica is in one directory, the old or the new one, and the controller knows which."""
    cluster.until_whole()
    places = cluster.lying()
    wanted = {(index, each): next_place(cluster, each, place) for (index, each), place in places.items()}
    node = cluster.broker(1)
    with load(cluster) as writer:
        progress(writer, 200)
        begins = node.log.stat().st_size

        def kill() -> None:
            while " moves from " not in node.log.read_text()[begins:]:
                time.sleep(0.001)
            time.sleep(delay_s)
            node.kill()
            node.start()

        killer = threading.Thread(target=kill)
        killer.start()
        with suppress(AssertionError):  # The tool may have given up.
            execute(cluster, "killed.json", wanted)
        killer.join()
        cluster.until_whole()
        progress(writer)
        execute(cluster, "again.json", wanted)
        cluster.until(lambda _: cluster.lying() == wanted)
        cluster.until_agreed()
        progress(writer)
    folders = [each.name for path in cluster.log_dirs(node) for each in path.glob(f"{TOPIC}-*")]
    assert sorted(folders) == ["t-0", "t-1", "t-2"]
