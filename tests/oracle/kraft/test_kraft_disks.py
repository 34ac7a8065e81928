"""Brokers with two and three log directories, Kafka's, kcore's and one of each, under three controllers of each kind.

Under load a disk fills, is unmounted, or a file takes a directory's place; an empty disk replaces it; replicas move. In
the middle of each the active controller is killed (kill -9). No acknowledged record is lost, none is there twice, and
Kafka's tools tell what they tell where brokers and controllers are all Kafka's.
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from oracle.chaos.kraft_checks import active_controller
from oracle.chaos.kraft_disks import LOSSES, MOVED, MOVING, NOTICED, PLACES, REGISTERED, REPLICAS, Disks, Loss
from oracle.kafka_tools import OLDER_RELEASE, RELEASE
from oracle.kcore_brokers import Seen
from oracle.kraft.test_kraft_broker import load, progress
from oracle.kraft_clusters import Node

DIGITS: Final = 4000  # So that segments of a MiB are full within seconds.
CLUSTERS: Final = (
    # Brokers 1 and 2, controllers, and the release of all.
    ("kafka", "kafka", "kafka", RELEASE),
    ("kafka", "kafka", "kcore", RELEASE),
    ("kcore", "kcore", "kafka", RELEASE),
    ("kcore", "kcore", "kcore", RELEASE),
    ("kafka", "kcore", "kafka", RELEASE),
    ("kcore", "kafka", "kcore", RELEASE),
    ("kcore", "kafka", "kcore", OLDER_RELEASE),
)
PRINTED: Final = json.loads(Path(__file__).with_name("kraft_disks_printed.json").read_text())


@pytest.fixture(scope="module", params=CLUSTERS, ids="-".join)
def cluster(request: pytest.FixtureRequest) -> Iterator[Disks]:
    first, second, controllers, release = request.param
    with Disks((first, second), controllers, release) as made:
        yield made


class Killer(Thread):
    """Kills the active controller as soon as one of some brokers logs one of some texts."""

    def __init__(self, cluster: Disks, brokers: Sequence[Node], texts: Collection[str]) -> None:
        super().__init__()
        self.controller = active_controller(cluster)
        self._logs = [(node, node.log.stat().st_size) for node in brokers]
        self._texts, self._end_s = texts, time.monotonic() + 90
        self.start()

    def run(self) -> None:
        while not self._is_logged():
            if time.monotonic() > self._end_s:
                return
            time.sleep(0.002)
        self.controller.kill()

    def _is_logged(self) -> bool:
        for node, begin in self._logs:
            with node.log.open("rb") as log:
                log.seek(begin)
                logged = log.read().decode(errors="replace")
            if any(each in logged for each in self._texts):
                return True
        return False

    def end(self, cluster: Disks) -> None:
        """Another controller is active; the killed one starts again."""
        self.join()
        assert not self.controller.is_running, ("nothing was logged", cluster.story())
        assert active_controller(cluster) is not self.controller
        self.controller.start()


@pytest.mark.parametrize("name", LOSSES)
def test_a_directory_is_lost_and_an_empty_one_takes_its_place(cluster: Disks, name: str) -> None:
    loss = LOSSES[name]
    node, other = cluster.broker(loss.broker_id), cluster.broker(3 - loss.broker_id)
    path = cluster.path(loss.broker_id, loss.name)
    lost = [index for index in REPLICAS if PLACES[loss.broker_id][index] == loss.name]
    lines: dict[str, list[str]] = {}
    cluster.make(name)
    with load(cluster, name, len(REPLICAS), DIGITS) as writer:
        progress(writer)
        killer = Killer(cluster, [node], NOTICED)
        loss.fault.strike(path)
        killer.end(cluster)
        for asked in (other, node):
            cluster.until(name, lambda seen: is_lost(seen, lost, loss), asked)
        progress(writer)
        lines["lost"] = cluster.tell(name, node)
        come_back_empty(cluster, node, loss)
        cluster.until(name, cluster.is_whole)
        progress(writer)
        cluster.until_there(name, cluster.paths(PLACES))
        lines["back"] = cluster.tell(name, other)
    cluster.delete(name)
    assert cluster.tracebacks() == []
    assert lines == PRINTED[name], json.dumps(lines, indent=2)


def is_lost(seen: dict[int, Seen], lost: Sequence[int], loss: Loss) -> bool:
    """Whether the other broker alone is leader and ISR of the `lost` partitions, and all other partitions are whole."""
    other = 3 - loss.broker_id
    gone = Seen(other, frozenset({other}), frozenset({loss.broker_id}))
    return all(
        each == gone if index in lost else each.leader == REPLICAS[index][0] and each.isr == {1, 2}
        for index, each in seen.items()
    )


def come_back_empty(cluster: Disks, node: Node, loss: Loss) -> None:
    """The broker is started again; the active controller is killed as soon as the broker is registered."""
    path = cluster.path(loss.broker_id, loss.name)
    assert node.is_running
    node.terminate()
    loss.fault.replace(path)
    cluster.format(node)
    killer = Killer(cluster, [node], REGISTERED)
    node.start(wait=False)
    killer.end(cluster)
    node.await_ready()


def test_every_replica_moves_to_another_directory(cluster: Disks) -> None:
    """By kafka-reassign-partitions."""
    lines: dict[str, list[str]] = {}
    wanted = cluster.paths(MOVED)
    cluster.make("moved")
    with load(cluster, "moved", len(REPLICAS), DIGITS) as writer:
        progress(writer, 300)
        lines["before"] = cluster.tell("moved", cluster.broker(1))
        killer = Killer(cluster, cluster.brokers, MOVING)
        cluster.move("moved", wanted)
        killer.end(cluster)
        cluster.until_there("moved", wanted)
        progress(writer)
        lines["moved"] = cluster.tell("moved", cluster.broker(2))
    cluster.delete("moved")
    assert cluster.tracebacks() == []
    assert lines == PRINTED["moved"], json.dumps(lines, indent=2)
