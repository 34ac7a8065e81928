"""Bugs of Kafka's that come of the seam between the controller and its quorum: leadership, replay, snapshots."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from controller.kraft import hostile
from controller.kraft.active import Active, read_snapshot
from controller.kraft.broker_clusters import a_cluster, a_topic
from controller.kraft.runtime import BEGIN_MS, Stage, controller_of, setting, settings_of
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.handlers import HANDLERS
from kcore.errors import LevelError, TableError
from kcore.metadata.image.image import ClusterImage
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.protocol_errors import Errors
from kcore.raft.effects import LeaderChanged
from kcore.raft.membership.replicas import ElectionState
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.metadata_records_log import BeginTransactionRecord, EndTransactionRecord
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.schema.structure import MetadataRecord
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record
from raft.nodes import started

MB = 1 << 20
FETCH_TIMEOUT_MS = 2_000
OF_TOPIC = 2  # ConfigResource.Type


def batches_of(begin: int, *records: MetadataRecord) -> bytes:
    values = EncodedRecords.of([encode_metadata_record(each, 0) for each in records])
    return b"".join(bytes(each) for each in values.batches(begin, epoch=1, timestamp=0))


def set_on_all_nodes(value: str) -> AlterConfigsRequest:
    """A change of settings that is a record."""
    one = AlterConfigsRequestAlterableConfig(name="min.insync.replicas", value=value)
    return AlterConfigsRequest(
        resources=[AlterConfigsRequestAlterConfigsResource(resource_type=4, resource_name="", configs=[one])]
    )


def code_of(answer: Any) -> Errors:
    return Errors(answer.responses[0].error_code)


# E5: one of the two resigns, and the other leads on.


@pytest.mark.covers("KRaft E5")
def test_a_controller_that_cannot_write_its_first_records_ends() -> None:
    """KAFKA-13104: raft led, and no controller answered. A node that cannot write its first records ends."""
    first = Active(bootstrap=Bootstrap.of_features({"metadata.version": 7}, "a test"))
    log = first.log + batches_of(first.controller.image.end_offset, BeginTransactionRecord(name="of a later level"))
    with pytest.raises(LevelError, match="transaction"):
        Active(log, epoch=2)


@pytest.mark.covers("KRaft E5")
def test_a_controller_whose_first_records_do_not_fit_ends() -> None:
    level = Versioned(FeatureLevelRecord(name="metadata.version", feature_level=7))
    with pytest.raises(TableError):
        Active(bootstrap=Bootstrap([level, Versioned(EndTransactionRecord())], "a test"))


@pytest.mark.covers("KRaft E5")
def test_a_controller_whose_node_lost_the_majority_leads_no_more() -> None:
    """KAFKA-13104, the other way round: clients of a zombie waited for commits that never came."""
    stage = Stage()
    stage.commit()
    stage.ask(set_on_all_nodes("2"), "open")
    assert stage.answers == {}
    stage.perform(stage.node.on_timer(BEGIN_MS + 2 * FETCH_TIMEOUT_MS))
    assert not stage.node.leads and stage.controller.epoch is None
    stage.ask(set_on_all_nodes("3"), "late")
    assert {name: code_of(answer) for name, answer in stage.answers.items()} == {
        "open": Errors.NOT_CONTROLLER,
        "late": Errors.NOT_CONTROLLER,
    }
    assert settings_of(stage.controller.context) == {}
    assert stage.controller.next_due_ms is None, "it does nothing of its own either"


# E6: a node that led before says that it leads.


class Restarted(Stage):
    """It also keeps the leader that the effects name, as the process does."""

    def perform(self, effects: Any) -> None:
        for each in effects:
            if isinstance(each, LeaderChanged):
                self.controller.raft.leader_id = each.leader_id
        super().perform(effects)


@pytest.mark.covers("KRaft E6")
def test_a_controller_that_led_before_its_restart_is_not_told_that_it_leads() -> None:
    """KAFKA-17333: the resigned node named itself, and its controller claimed the epoch once more."""
    before = Stage()
    before.commit()
    node, effects = started(1, ElectionState(before.node.epoch, 1, None), log=before.node.log)
    assert node.state.name == "Resigned"
    stage = Restarted(controller_of(seed=2), node)
    stage.perform(effects)
    assert stage.controller.epoch is None and stage.controller.raft.leader_id == -1
    stage.ask(set_on_all_nodes("3"), "early")
    answer: Any = stage.answers["early"]
    assert code_of(answer) is Errors.NOT_CONTROLLER
    assert answer.responses[0].error_message == "No controller appears to be active."


# E16: a record that does not fit is passed over.


@pytest.mark.covers("E16")
@pytest.mark.parametrize(
    "record", [EndTransactionRecord(), PartitionChangeRecord(topic_id=Uuid(b"x" * 16), partition_id=0, leader=1)]
)
def test_a_standby_ends_at_a_record_that_it_cannot_apply(record: MetadataRecord) -> None:
    """KAFKA-14275: it went on with a hole in its state, and led with it later."""
    active = Active()
    standby = controller_of()
    end = active.controller.image.end_offset
    standby.on_committed(active.log, end)
    with pytest.raises(TableError):
        standby.on_committed(batches_of(end, record), end + 1)


@pytest.mark.covers("E16")
def test_the_active_controller_appends_only_what_it_could_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-14124: what it wrote first brought down every standby, and itself after the restart."""
    active = Active()
    active.commit()
    bad = Versioned(PartitionChangeRecord(topic_id=Uuid(b"x" * 16), partition_id=0, leader=1))
    monkeypatch.setitem(HANDLERS, AlterConfigsRequest, lambda *_: Decision(None, [setting("a"), bad]))
    before = active.log
    active.answer(set_on_all_nodes("2"))
    assert active.log == before and settings_of(active.controller.context) == {}
    assert active.replayed() == active.controller.image


# E17: what is not committed is shown.


def created(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def with_a_broker() -> Active:
    """One that is unfenced."""
    return Active(hostile.log_of("4.3.1", 30), epoch=2, **hostile.settings_of("4.3.1"))


@pytest.mark.covers("E17")
def test_no_log_line_or_answer_shows_what_is_not_committed() -> None:
    """KAFKA-14457: operators saw topics that were undone a moment later."""
    active = with_a_broker()
    active.commit()
    active.log_lines.clear()
    active.ask(created("lost"), "lost")
    assert active.ask(DescribeClusterRequest(), "seen") is None, "what saw it waits as well"
    assert active.log_lines == [] and active.answers == {}
    active.resign()
    assert not [each.text for each in active.log_lines if "topic lost" in each.text]
    assert "lost" not in active.controller.image.topics
    active.take(active.controller.on_leader(3, active.controller.image.end_offset))
    active.answer(created("kept"))
    assert [each.text for each in active.log_lines if "topic" in each.text] == ["topic kept created with 1 partitions"]


# E18: what is deleted survives a snapshot.


def snapshot_of(image: ClusterImage) -> Iterator[bytes]:
    return snapshot_slices(image, image.end_offset, 1, BEGIN_MS, lambda: None)


@pytest.mark.covers("KRaft E18")
def test_a_deleted_topic_is_gone_behind_a_snapshot() -> None:
    """KAFKA-14894: a standby kept topics, and their settings, that the snapshot it loaded did not have."""
    active = with_a_broker()
    active.answer(created("gone"))
    standby = controller_of(seed=9, **hostile.settings_of("4.3.1"))
    standby.on_committed(active.log, active.controller.image.end_offset)
    assert "gone" in standby.image.topics
    deleted = DeleteTopicsRequest(topics=[], topic_names=["gone", "t", "u.v"])
    active.answer(deleted, version=5)
    image = active.controller.image
    assert image.table.partition_count == 0
    read_snapshot(standby, b"".join(snapshot_of(image)), image.end_offset)
    assert standby.image == image
    assert standby.image.table.partition_count == 0 and (OF_TOPIC, "t") not in standby.image.configs


# E19: a snapshot that does not fit some buffers.


@pytest.mark.covers("KRaft E19")
def test_a_large_snapshot_is_written_and_read_in_pieces() -> None:
    """KAFKA-14222: beyond five batches of 8 MB there was no buffer left, and the controller had no snapshot."""
    context = a_cluster()
    a_topic(context, 300_000, [1, 2, 3])
    image = context.image
    for number in range(800):
        image.apply(ConfigRecord(resource_type=OF_TOPIC, resource_name=f"{number}", name="a", value="x" * 30_000))
    sizes, parts = [], []
    tracemalloc.start()
    try:
        for each in snapshot_of(image):
            sizes.append(len(each))
            parts.append(bytes(each))
        held = sum(sizes)
        peak = tracemalloc.get_traced_memory()[1] - held
    finally:
        tracemalloc.stop()
    assert held > 40 * MB and max(sizes) <= 8 * MB
    assert peak < 130 * MB, "beside the state's copy no more than some slices"
    standby = controller_of()
    data = b"".join(parts)
    assert read_snapshot(standby, data, image.end_offset) > 20, "a slice at once"
    assert standby.image == image
