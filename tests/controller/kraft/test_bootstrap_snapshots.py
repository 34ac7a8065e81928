"""A directory that Kafka 4.4 formatted has its first records in the snapshot 0-0; unknown metadata versions."""

from typing import Any

import pytest

from controller.kraft.runtime import controller_of
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.outputs import LogLine
from kcore.errors import NewerReleaseError
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import AppendBatches, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.record_building import encode_values
from kcore.wire.records import decode_records
from raft.batches import snapshot_batches


def level(number: int, name: str = FEATURE_NAME) -> bytes:
    return encode_metadata_record(FeatureLevelRecord(name=name, feature_level=number), 0)


def loaded(offset: int, *values: bytes) -> KraftController:
    """A controller that has read this snapshot."""
    data = b"".join(snapshot_batches(0, values, 0, 0, None, 0))
    reader = SnapshotReader(OffsetAndEpoch(offset, 0), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
    controller = controller_of()
    outputs: Any = controller.on_snapshot(reader)
    while not any(isinstance(each, LogLine) for each in outputs):
        outputs = controller.on_read_slice()
    return controller


def written(controller: KraftController) -> tuple[dict[str, int], str]:
    """The feature levels that it writes when it becomes the active controller, and what it logs."""
    outputs = controller.on_leader(1, 1)
    batches = b"".join(bytes(each.batches) for each in outputs if isinstance(each, AppendBatches))
    values = [decode_metadata_record(each.value or b"")[0] for each in decode_records(batches)]
    levels = {each.name: each.feature_level for each in values if isinstance(each, FeatureLevelRecord)}
    [line] = [each.text for each in outputs if isinstance(each, LogLine)]
    return levels, line


def test_the_first_controller_writes_what_the_snapshot_0_0_has() -> None:
    """Brokers never read that snapshot: they would find no metadata.version in the log."""
    controller = loaded(0, level(29), level(1, "group.version"))
    assert controller.image.features == {}, "the log does not have them yet"
    levels, line = written(controller)
    assert levels == {FEATURE_NAME: 29, "group.version": 1} == controller.image.features
    assert "the log is empty: 2 bootstrap records at metadata.version 4.2-IV1 from the snapshot 0-0" in line


def test_the_reported_version_is_that_of_the_image() -> None:
    controller = loaded(7, level(29))
    levels, line = written(controller)
    assert levels == {} and "the log is at metadata.version 4.2-IV1" in line


@pytest.mark.parametrize("offset", [0, 7])
def test_a_snapshot_of_a_newer_release_ends_the_node_at_once(offset: int) -> None:
    said = f"the snapshot {offset}-0 needs a newer release: the record at offset 1 sets metadata.version to level 35"
    with pytest.raises(NewerReleaseError, match=said):
        loaded(offset, level(35))


def test_a_standby_that_replays_a_newer_level_ends_at_once() -> None:
    """It must not win an election first."""
    controller = controller_of()
    controller.on_committed(encode_values([level(30)], base_offset=0, partition_leader_epoch=1, timestamp=0), 1)
    with pytest.raises(NewerReleaseError, match="the log needs a newer release: the record at offset 1 sets"):
        controller.on_committed(encode_values([level(35)], base_offset=1, partition_leader_epoch=1, timestamp=0), 2)
