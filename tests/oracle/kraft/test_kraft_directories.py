"""kcore's brokers with two and three log directories, beside Kafka's with three, under Kafka's controllers and kcore's.

A directory is lost by putting a file in its place: root ignores permissions.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kcore.storage.meta_properties import read_meta_properties
from oracle.chaos.kraft_disks import LogDirs, Places, assigned_directories, directory_ids
from oracle.kraft.test_kraft_broker import REPLICAS, TOPIC, Mixed, load, progress
from oracle.kraft_clusters import KCORE_BROKER, Node

PER_BROKER: Final = {1: 2, 2: 3, 3: 3}  # Log directories; 3 is Kafka's.
DATA: Final = "data-2"  # The directory that is lost: the first has the metadata log.


class Directories(Mixed):
    """As Mixed, with several log directories a broker."""

    def described(self) -> LogDirs:
        return LogDirs.describe(self, self.broker(3), TOPIC)

    def lying(self) -> Places:
        return self.described().places

    def until_agreed(self) -> None:
        """The controller and the brokers have each replica in the same directory."""

        def agree(_: object) -> bool:
            [controller] = self.controllers
            assigned = assigned_directories(controller.data / "__cluster_metadata-0", TOPIC, len(REPLICAS))
            ids = directory_ids(self)
            return {each: ids[path] for each, path in self.lying().items()} == assigned

        self.until(agree)

    def lose(self, node: Node) -> Path:
        """A file takes a directory's place."""
        path = node.folder / DATA
        path.rename(node.folder / "away")
        path.write_text("a file")
        return path


@pytest.fixture(scope="module", params=["kafka", "kcore"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Directories]:
    with Directories(real_controllers=request.param == "kafka", log_dirs=(2, 3, 3)) as made:
        made.create_topic()
        yield made


def there(cluster: Directories, node: Node, path: Path) -> list[int]:
    """The partitions whose replica is in that directory."""
    return [
        index for (index, broker), place in cluster.lying().items() if broker == node.node_id and place == str(path)
    ]


def test_the_controller_knows_where_every_replica_is(cluster: Directories) -> None:
    """Each broker has spread them, and tells the controller."""
    cluster.until_agreed()
    for broker_id, directories in cluster.described().brokers.items():
        assert len(directories) == PER_BROKER[broker_id]
        assert all(each["error"] is None for each in directories.values())
        counts = sorted(len(each["partitions"]) for each in directories.values())
        assert sum(counts) == len(REPLICAS) and counts[-1] - counts[0] <= 1


@pytest.mark.parametrize("broker_id", [1, 2])
def test_a_directory_is_lost_under_load_and_comes_back_as_a_new_disk(cluster: Directories, broker_id: int) -> None:
    node = cluster.broker(broker_id)
    cluster.elect_preferred()
    cluster.until_agreed()
    path = node.folder / DATA
    lost = there(cluster, node, path)
    assert lost
    with load(cluster) as writer:
        progress(writer)
        cluster.lose(node)
        cluster.until(lambda seen: all(broker_id not in seen[index][1] for index in lost))
        cluster.until(lambda seen: all(seen[index][0] not in (-1, broker_id) for index in lost))
        progress(writer)
        seen = cluster.seen()
        assert all(broker_id in isr for index, (_, isr) in seen.items() if index not in lost)
        assert node.is_running
        described = cluster.described().brokers[broker_id]
        assert {each for each, found in described.items() if found["error"] is not None} == {str(path)}
        assert f"log directory {path} goes offline" in node.log.read_text()
        come_back_empty(cluster, node, path)
        cluster.until_whole()
        progress(writer)
    cluster.until_agreed()
    assert sorted(cluster.lying()) == sorted((index, each) for index in REPLICAS for each in REPLICAS[index])


def come_back_empty(cluster: Directories, node: Node, path: Path) -> None:
    """Another disk is in its place, and gets another id; the broker is started again."""
    before = read_meta_properties(node.folder / "away" / "meta.properties").directory_id
    assert node.terminate() == 0
    path.unlink()
    path.mkdir()
    command = [*KCORE_BROKER, "format", "-g", "-c", str(node.properties), "-t", cluster.cluster_id]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert read_meta_properties(path / "meta.properties").directory_id != before
    node.start()
    shutil.rmtree(node.folder / "away")


def test_a_directory_is_lost_while_the_controller_is_away(cluster: Directories) -> None:
    """The broker reports the failed directory to the controller as soon as one runs again."""
    node, [controller] = cluster.broker(1), cluster.controllers
    cluster.elect_preferred()
    cluster.until_agreed()
    lost = there(cluster, node, node.folder / DATA)
    with load(cluster) as writer:
        progress(writer)
        controller.kill()
        path = cluster.lose(node)
        node.await_log(f"log directory {path} goes offline")
        controller.start()
        cluster.until(lambda seen: all(seen[index][0] > 0 and 1 not in seen[index][1] for index in lost))
        progress(writer)
        assert node.is_running
        come_back_empty(cluster, node, path)
        cluster.until_whole()
        progress(writer)
    cluster.until_agreed()
