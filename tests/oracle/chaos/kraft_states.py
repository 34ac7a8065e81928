"""Compares the logs in the folders of a quorum's nodes with each other, and the states that these logs give."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import DICTS
from kcore.metadata.image.replay import replay
from kcore.metadata.table.equality import same_partitions
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.raft.snapshot import SnapshotId, read_snapshot, snapshots_in
from kcore.wire.records import decode_records
from oracle.chaos.kraft_registers import Violation

SHOWN = 3  # Differences that a message shows.
TOPIC = 2  # ConfigResource.Type


def differences(one: ClusterImage, other: ClusterImage) -> str:
    """In what two states differ, empty for nothing; all that `ClusterImage.__eq__` compares, by its name.

    Kafka writes a controller's features in the order of a hash table: they are sorted here.
    """
    for image in (one, other):
        for record in image.controllers.values():
            record.features.sort(key=lambda each: each.name)
    if one == other:
        return ""
    found = []
    for name in DICTS:
        ours, theirs = one.dict_of(name), other.dict_of(name)
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if keys:
            shown = [(key, ours.get(key), theirs.get(key)) for key in keys[:SHOWN]]
            found.append(f"{len(keys)} {name}, such as {shown}")
    for name in ("next_producer_id", "zk_migration_state", "in_transaction"):
        if getattr(one, name) != getattr(other, name):
            found.append(f"{name}: {getattr(one, name)} and {getattr(other, name)}")
    ours, theirs = one.brokers.registrations(), other.brokers.registrations()
    found += [
        f"broker {each}: {ours.get(each)} and {theirs.get(each)}"
        for each in sorted({*ours, *theirs})
        if ours.get(each) != theirs.get(each)
    ][:SHOWN]
    if not same_partitions(one.table, other.table):
        found += _partitions(one, other)
    return "; ".join(found) or "what is compared together"


def _partitions(one: ClusterImage, other: ClusterImage) -> list[str]:
    ours, theirs = (_by_name(each) for each in (one, other))
    differ = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    shown = [f"{key}: {ours.get(key)} and {theirs.get(key)}" for key in differ[:SHOWN]]
    return [f"{len(differ)} partitions, such as {shown}"]


def _by_name(image: ClusterImage) -> dict[tuple[str, int], object]:
    table, names = image.table, image.topics.names
    rows = [int(row) for row in (table.topic_row__p >= 0).nonzero()[0]]
    return {
        (names[table.topic_row__p[row]], int(table.partition_index__p[row])): table.registration(row) for row in rows
    }


def without_stale_settings(image: ClusterImage, reference: ClusterImage) -> ClusterImage:
    """The image of a real node, without settings of topics that the reference does not have.

    Kafka's image keeps those of a topic that was made and deleted between two of its publications, for the next topic
    of that name, and writes them into its snapshots. Source: ConfigurationsDelta.replay(RemoveTopicRecord) of 4.3.1,
    which looks for the settings in the image before the delta alone.
    """
    for (kind, name), config in [*image.configs.items()]:
        if kind == TOPIC:
            known = reference.configs.get((kind, name), {})
            left = {key: value for key, value in config.items() if key in known}
            image.set_key("configs", (kind, name), left or None)
    return image


def with_lost_credentials(image: ClusterImage, reference: ClusterImage) -> ClusterImage:
    """The image of a real node, with the SCRAM credentials that it lacks.

    Kafka's image loses those that are made in the delta that removes the last one of their mechanism. Source:
    ScramDelta.apply of 4.3.1, which drops the mechanism's table and fills it further.
    """
    for key, record in reference.scram.items():
        if key not in image.scram:
            image.set_key("scram", key, record)
    return image


def advance(image: ClusterImage, batches: Sequence[StoredBatch], offset: int) -> ClusterImage:
    """The image, with the records of the log before `offset` that it did not have."""
    for batch in batches:
        if image.end_offset <= batch.base_offset < offset:
            replay(image, decode_records(batch.data), image.end_offset)
    image.end_offset = max(image.end_offset, offset)
    return image


def of_snapshot(path: Path) -> ClusterImage:
    """StorageError or DecodeError for what is no whole snapshot."""
    snapshot, image = read_snapshot(path), ClusterImage()
    assert snapshot.id is not None
    replay(image, snapshot.records)
    image.end_offset, image.epoch = snapshot.id
    return image


@dataclass
class NodeFiles:
    """A node's log and snapshots, read when its process is dead."""

    name: str
    folder: Path
    batches: list[StoredBatch]
    snapshots: list[SnapshotId]
    is_real: bool = False  # Kafka's own.

    @classmethod
    def read(cls, name: str, folder: Path, *, is_real: bool = False) -> "NodeFiles":
        data = b"".join(path.read_bytes() for path in segment_files(folder))
        batches, problem = split_batches(data)
        if problem is not None:
            raise Violation(f"{name}: its log is damaged: {problem}")
        # `format` of 4.4.0 writes the bootstrap records into 0-0.checkpoint: they are no state of the log.
        snapshots = [each for each in snapshots_in(folder) if each.end_offset > 0]
        return cls(name, folder, batches, snapshots, is_real)

    def matching_end(self, reference: Sequence[StoredBatch]) -> int:
        """Up to where its log is the reference's, as far back as that goes.

        Violation where they have another batch at the same offset of the same epoch.
        """
        known = {batch.base_offset: batch for batch in reference}
        begin = reference[0].base_offset if reference else 0
        end = self.snapshots[-1].end_offset if self.snapshots and not self.batches else 0
        for batch in self.batches:
            if batch.base_offset >= begin:
                there = known.get(batch.base_offset)
                if there is None or there.epoch != batch.epoch:
                    break
                if there.data != batch.data:
                    raise Violation(f"{self.name}: its batch at {batch.base_offset} of epoch {batch.epoch} is another")
            end = batch.last_offset + 1
        return end

    def image_at(self, offset: int) -> ClusterImage | None:
        """From its newest snapshot up to there, and the log behind it; None where it has neither."""
        below = [each for each in self.snapshots if each.end_offset <= offset]
        image = of_snapshot(self.folder / below[-1].file_name) if below else ClusterImage()
        if not below and self.batches and self.batches[0].base_offset > 0:
            return None
        return advance(image, self.batches, offset)


class Reference:
    """The state by the log that an observer kept: it reads no snapshot if it can, and only goes forward."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.compared_snapshots: set[tuple[str, SnapshotId]] = set()

    def begin_with(self, image: ClusterImage) -> None:
        """The log that was kept begins there, where that is behind the state so far."""
        if image.end_offset > self.image.end_offset:
            self.image = image.copy()

    def compare(self, nodes: Sequence[NodeFiles], batches: Sequence[StoredBatch], committed: int) -> int:
        """The nodes' snapshots and their states at the last offset that all have; returns that offset."""
        ends = {node.name: node.matching_end(batches) for node in nodes}
        if sum(end >= committed for end in ends.values()) <= len(nodes) // 2:
            raise Violation(f"{committed} was reported as committed, and the logs end at {ends}")
        common = min(committed, *ends.values())
        todo = sorted(
            (snapshot, place)
            for place, node in enumerate(nodes)
            for snapshot in node.snapshots
            if self.image.end_offset <= snapshot.end_offset <= common
            and (node.name, snapshot) not in self.compared_snapshots
        )
        for snapshot, place in todo:
            node = nodes[place]
            advance(self.image, batches, snapshot.end_offset)
            if found := self._differences(node, of_snapshot(node.folder / snapshot.file_name)):
                raise Violation(f"{node.name}: {snapshot.file_name} is not the state there: {found}")
            self.compared_snapshots.add((node.name, snapshot))
        if common >= self.image.end_offset:
            advance(self.image, batches, common)
            for node in nodes:
                image = node.image_at(common)
                if image is not None and (found := self._differences(node, image)):
                    raise Violation(f"{node.name}: its state at {common} is another: {found}")
        return common

    def _differences(self, node: NodeFiles, image: ClusterImage) -> str:
        if node.is_real:
            image = with_lost_credentials(without_stale_settings(image, self.image), self.image)
        return differences(self.image, image)
