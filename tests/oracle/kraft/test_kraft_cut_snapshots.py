"""A checkpoint of kcore's controller loses its end under real Kafka brokers: the controller never loads it.

The log begins behind offset 0, so that a snapshot is needed. Broker 2 forgets its metadata log after each start of the
controller: what it then knows comes from the controller's snapshot and log alone.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from kcore.protocol_errors import Errors
from kcore.storage.raft.raft_snapshots import DAMAGED
from oracle.chaos.kraft_checks import active_controller
from oracle.chaos.kraft_pages import Page, create_topics, led_topics
from oracle.kcore_brokers import until
from oracle.kraft_clusters import KraftCluster, Node

PROPERTIES = """metadata.log.max.record.bytes.between.snapshots=2000
metadata.log.segment.ms=1000
metadata.max.retention.ms=1
"""
CUTS = (130, 400, 800)
FOLDER = "__cluster_metadata-0"
START = "kcore_raft_log_start_offset"


class Story:
    """One controller and two brokers; `names` are the topics so far."""

    def __init__(self, cluster: KraftCluster) -> None:
        self.cluster, self.names = cluster, list[str]()
        [self.controller] = cluster.controllers
        self.page = Page(self.controller)

    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.controller.data / FOLDER).glob("*.checkpoint"))

    def create(self, count: int) -> None:
        made = [f"topic-{len(self.names) + at}" for at in range(count)]
        error = create_topics(self.cluster.brokers[0].address, *made, partitions=2, replicas=2)
        assert error is Errors.NONE, error
        self.names += made

    def stop_with_two_snapshots(self) -> tuple[Path, Path]:
        """The controller has ended; its log begins behind offset 0. The older one of its last two snapshots, and the
        newest."""
        until(lambda: self.page.figures().get(START, 0) > 0, self.page.figures, within_s=240)
        while True:
            while len(self.checkpoints()) < 2:
                self.create(5)
                time.sleep(2)  # The controller looks once a second whether a snapshot is due.
            assert self.controller.terminate() == 0
            if len(found := self.checkpoints()) >= 2:  # The older ones may just have been deleted.
                return found[-2], found[-1]
            self.controller.start()

    def check(self) -> None:
        """A broker that knows nothing learns all topics from the controller, and topics can be made."""
        active_controller(self.cluster)
        second = self.cluster.brokers[1]
        second.terminate(timeout_s=90)
        rmtree(second.data / FOLDER)
        second.start()
        until(lambda: {*self.names} <= led_topics(second.address), lambda: led_topics(second.address), within_s=120)
        self.create(1)


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    cluster = KraftCluster(controllers=1, brokers=2, properties=PROPERTIES, real=[])
    made = Story(cluster)
    with cluster:
        made.create(20)
        yield made


def cut(path: Path, size: int) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-size])


def files(node: Node) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in node.data.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", CUTS)
def test_the_older_snapshot_and_the_log_take_the_place_of_a_cut_one(story: Story, size: int) -> None:
    older, newest = story.stop_with_two_snapshots()
    cut(newest, size)
    story.controller.start()
    story.check()
    offset, epoch = map(int, older.stem.split("-"))
    lines = [line for line in story.controller.log_text().splitlines() if str(newest) in line]
    print("\n".join(lines))
    [line] = lines
    assert f"It is renamed to *{DAMAGED}; the node starts from snapshot {offset}-{epoch} and the log up to" in line
    assert newest.with_name(newest.name + DAMAGED).exists()


@pytest.mark.parametrize("size", CUTS)
def test_a_controller_with_nothing_but_a_cut_snapshot_refuses_to_start(story: Story, size: int) -> None:
    _, newest = story.stop_with_two_snapshots()
    controller, good = story.controller, story.cluster.folder / f"good-{size}"
    copytree(controller.data, good)
    for path in story.checkpoints():
        if path != newest:
            path.unlink()
    cut(newest, size)
    before = files(controller)
    controller.start(wait=False)
    assert controller.wait(120) == 2
    print(controller.log_text())
    [line] = controller.log_text().splitlines()
    assert f"{newest}: " in line and "no snapshot there or later" in line
    assert files(controller) == before, "the next start, with good files, finds what was there"
    rmtree(controller.data)
    good.rename(controller.data)
    controller.start()
    story.check()
