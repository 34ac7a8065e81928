"""The checks of `kraft_chaos` find lost answers, phantoms, numbers given twice, states that differ."""

from pathlib import Path

import pytest

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.protocol_errors import Errors
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.storage.log.segment import segment_path
from kcore.storage.raft.snapshot import SnapshotId, write_snapshot
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.records import decode_records
from oracle.chaos.kraft_registers import Acl, Given, Topic, TopicState, Violation, becomes, unchanged
from oracle.chaos.kraft_states import NodeFiles, Reference
from oracle.kraft_observer import Claim, Partitions

TOPIC_ID = Uuid(bytes(15) + b"\5")
RECORDS = (
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    RegisterBrokerRecord(broker_id=1, incarnation_id=Uuid(bytes(15) + b"\1"), broker_epoch=1, fenced=False),
    TopicRecord(name="t", topic_id=TOPIC_ID),
    PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[Uuid(bytes(15) + b"\7")],
    ),
)


def batches_of(*records: MetadataRecord, epoch: int = 1, begin: int = 0) -> list[StoredBatch]:
    """One record each."""
    found = []
    for offset, record in enumerate(records, begin):
        values = EncodedRecords.of([encode_metadata_record(record, record.versions.highest)])
        [data] = values.batches(offset, epoch=epoch, timestamp=0)
        found += split_batches(bytes(data))[0]
    return found


def image_of(*records: MetadataRecord) -> ClusterImage:
    image = ClusterImage()
    for each in batches_of(*records):
        replay(image, decode_records(each.data))
    return image


def test_an_answer_leaves_the_states_that_give_it() -> None:
    acl = Acl("a")
    acl.settle(becomes(True), None)
    assert acl.states == {None, True}, "no answer: either"
    acl.settle(becomes(True), Errors.NOT_CONTROLLER)
    assert acl.states == {None, True}
    acl.settle(lambda state: ((Errors.NONE, int(state is not None)), None), (Errors.NONE, 1))
    assert acl.states == {None}
    with pytest.raises(Violation, match="can be"):
        acl.settle(lambda state: ((Errors.NONE, int(state is not None)), None), (Errors.NONE, 1))


def test_what_was_answered_is_in_the_log_and_what_was_refused_is_not() -> None:
    topic = Topic("t")
    topic.settle(becomes(TopicState(1)), Errors.NONE)
    with pytest.raises(Violation, match="is None in the log"):
        topic.check(image_of())
    topic.check(image_of(*RECORDS))
    other = Topic("t")
    other.settle(unchanged(Errors.INVALID_PARTITIONS), Errors.INVALID_PARTITIONS)
    with pytest.raises(Violation, match="can be"):
        other.check(image_of(*RECORDS))


def test_a_topic_that_was_lost_and_made_again_is_another() -> None:
    topic = Topic("t")
    topic.settle(becomes(TopicState(1)), Errors.NONE)
    topic.topic_id = Uuid(bytes(15) + b"\6")
    with pytest.raises(Violation, match="was created as"):
        topic.check(image_of(*RECORDS))


def test_epochs_and_producer_ids_are_given_once() -> None:
    given = Given()
    given.epoch(5, 1, TOPIC_ID)
    given.epoch(5, 1, TOPIC_ID)
    with pytest.raises(Violation, match="broker epoch 5"):
        given.epoch(5, 2, TOPIC_ID)
    given.block(0, 1000)
    given.block(999, 1000)
    with pytest.raises(Violation, match="producer id 999"):
        given.check(ClusterImage())


def test_a_granted_change_is_in_the_history_of_its_partition() -> None:
    partitions = Partitions()
    for record in (*RECORDS, PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1)):
        partitions.take(record)
    partitions.claims.append(Claim("it had a leader", (TOPIC_ID, 0), lambda seen: seen.leader == 1))
    assert partitions.check() == 1
    partitions.claims.append(Claim("epoch 7 was granted", (TOPIC_ID, 0), lambda seen: seen.partition_epoch == 7))
    with pytest.raises(Violation, match="epoch 7"):
        partitions.check()


def node(folder: Path, batches: list[StoredBatch]) -> NodeFiles:
    folder.mkdir()
    segment_path(folder, 0).write_bytes(b"".join(each.data for each in batches))
    return NodeFiles.read(folder.name, folder)


def test_three_nodes_have_the_log_that_was_committed(tmp_path: Path) -> None:
    """One may be behind, or have a tail of its own; the others may not."""
    log = batches_of(*RECORDS)
    setting = ConfigRecord(resource_type=4, resource_name="", name="x", value="1")
    own_tail = [*log[:3], *batches_of(setting, epoch=1, begin=3)]
    newer = [*log[:3], *batches_of(RECORDS[3], epoch=2, begin=3)]
    nodes = [node(tmp_path / "a", newer), node(tmp_path / "b", newer), node(tmp_path / "c", own_tail)]
    assert Reference().compare(nodes, newer, 4) == 3
    with pytest.raises(Violation, match="was reported as committed"):
        Reference().compare([nodes[0], nodes[2], node(tmp_path / "d", log[:2])], newer, 4)
    with pytest.raises(Violation, match="is another"):
        Reference().compare([nodes[2], *nodes[:2]], [*log[:3], *batches_of(RECORDS[3], begin=3)], 4)


def test_a_snapshot_is_the_state_at_its_offset(tmp_path: Path) -> None:
    log = batches_of(*RECORDS)
    values = [encode_metadata_record(each, each.versions.highest) for each in RECORDS]
    nodes = [node(tmp_path / name, log) for name in "abc"]

    def with_snapshot(values: list[bytes]) -> list[NodeFiles]:
        folder = nodes[0].folder
        write_snapshot(folder, SnapshotId(4, 1), values, time_ms=0, last_contained_log_timestamp=0)
        return [NodeFiles.read("a", folder), *nodes[1:]]

    reference = Reference()
    assert reference.compare(with_snapshot(values), log, 4) == 4
    assert len(reference.compared_snapshots) == 1
    with pytest.raises(Violation, match=r"is not the state there: 1 partitions"):
        Reference().compare(with_snapshot(values[:3]), log, 4)
