"""Snapshots of kcore: Kafka's dump tool prints them as it prints its own, and real controllers start from them."""

import re
from pathlib import Path
from shutil import rmtree

import pytest

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import MetadataVersion
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.snapshot import SnapshotId, read_snapshot, snapshots_in, write_snapshot
from oracle.kafka_tools import CONFIGS, TOPICS, dump_log, run_tool
from oracle.raft_quorums import Member, RaftQuorum, until

SNAPSHOT_OFTEN = "metadata.log.max.record.bytes.between.snapshots=1000"
PAYLOAD = re.compile(r"payload: (\{.*\})")
USER = ("--entity-type", "users", "--entity-name", "ann")


def fill(address: str) -> None:
    """Topics, one of which goes again, settings of a topic and of all brokers, a quota and a credential."""
    at = ("--bootstrap-server", address)
    for name, partitions in (("orders", 3), ("gone", 2), ("audit", 40)):
        run_tool(TOPICS, *at, "--create", "--topic", name, "--partitions", partitions)
    run_tool(TOPICS, *at, "--delete", "--topic", "gone")
    for entity, setting in [
        (("--entity-type", "topics", "--entity-name", "orders"), "retention.ms=60000"),
        (("--entity-type", "brokers", "--entity-default"), "message.max.bytes=2000000"),
        (USER, "producer_byte_rate=1000"),
        (USER, "SCRAM-SHA-256=[iterations=4096,password=secret]"),
    ]:
        run_tool(CONFIGS, *at, "--alter", *entity, "--add-config", setting)


def described(address: str) -> list[str]:
    """The topics and settings that Kafka's tools print, without epochs and leaders, which change with a restart."""
    at = ("--bootstrap-server", address)
    topics = run_tool(TOPICS, *at, "--describe")
    configs = [run_tool(CONFIGS, *at, "--describe", *entity) for entity in (USER, ("--entity-type", "topics", "--all"))]
    return [*sorted(topics.splitlines()), *(line for text in configs for line in sorted(text.splitlines()))]


def dumped(path: Path) -> list[str]:
    """The records of a snapshot as Kafka's tool prints them, in any order: Kafka's own is that of hash tables."""
    lines, complaints = dump_log([path], "--cluster-metadata-decoder")
    assert complaints == ""
    return sorted(found[1] for line in lines if (found := PAYLOAD.search(line)))


def write_ours(image: ClusterImage, folder: Path, snapshot: SnapshotId, level: MetadataVersion) -> Path:
    values = [value for piece in records_of(image, level) for value in piece]
    return write_snapshot(folder, snapshot, values, time_ms=1, last_contained_log_timestamp=1)


def start_from_ours(node: Member, release: str) -> ClusterImage:
    """Nothing is left of a controller's log but a snapshot of kcore's."""
    image = load_metadata(node.log_folder)
    quorum_state = (node.log_folder / "quorum-state").read_bytes()
    rmtree(node.log_folder)
    node.log_folder.mkdir()
    (node.log_folder / "quorum-state").write_bytes(quorum_state)
    level = MetadataVersion.of_level(image.features["metadata.version"], release)
    write_ours(image, node.log_folder, SnapshotId(image.end_offset, image.epoch), level)
    node.start()
    return image


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_kafka_dumps_it_like_its_own_and_starts_from_it(release: str, tmp_path: Path) -> None:
    with RaftQuorum(release, real=1, kcore=0, broker=True, properties=SNAPSHOT_OFTEN) as quorum:
        [controller], [broker] = quorum.real, quorum.brokers
        fill(broker.address)
        before = described(broker.address)
        until(lambda: has_all(controller.log_folder), lambda: snapshots_in(controller.log_folder))
        quorum.stop(broker, controller)
        theirs = snapshots_in(controller.log_folder)[-1]
        their_path = controller.log_folder / theirs.file_name
        image = ClusterImage()
        replay(image, read_snapshot(their_path).records)
        level = MetadataVersion.of_level(image.features["metadata.version"], release)
        our_path = write_ours(image, tmp_path, theirs, level)
        found = dumped(our_path)
        assert found == dumped(their_path)
        assert sum("PARTITION_RECORD" in line for line in found) == 43

        start_from_ours(controller, release)
        rmtree(broker.log_folder)  # So that the broker begins with this snapshot, too.
        broker.start()
        assert described(broker.address) == before
        run_tool(TOPICS, "--bootstrap-server", broker.address, "--create", "--topic", "later", "--partitions", 2)
        assert "later" in run_tool(TOPICS, "--bootstrap-server", broker.address, "--list")


def has_all(folder: Path) -> bool:
    """A snapshot of Kafka's holds the last that was set."""
    found = snapshots_in(folder)
    if not found:
        return False
    image = ClusterImage()
    replay(image, read_snapshot(folder / found[-1].file_name).records)
    return bool(image.scram)
