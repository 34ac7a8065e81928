"""A batch's attributes make it a control batch, also with types that Kafka calls UNKNOWN."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hollow.test_observer import observer
from kcore.cli.commands import app
from kcore.controller.kraft.snapshot_loading import SnapshotLoading
from kcore.measure.watch.metadata_log_reader import MetadataLogReader
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema import TopicRecord
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.tools.dump import control_text
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records, records_of
from kraft_configs import controller_config

TYPES = [-1, -2, -(2**15), 7, 2**15 - 1]


def topic(number: int) -> bytes:
    return encode_metadata_record(TopicRecord(name=f"t{number}", topic_id=Uuid(bytes([number + 1] * 16))), 0)


def control(control_type: int, offset: int) -> bytes:
    """A control batch whose value would be a topic if it were data."""
    key = b"\0\0" + control_type.to_bytes(2, signed=True)
    return encode_records([Record(offset, 0, key, topic(9))], control=True, partition_leader_epoch=1)


def log_of(control_type: int) -> bytes:
    data = encode_records([Record(0, 0, None, topic(0))], partition_leader_epoch=1)
    return data + control(control_type, 1)


@pytest.mark.parametrize("control_type", TYPES)
def test_a_control_batch_holds_no_data_whatever_its_types(control_type: int, tmp_path: Path) -> None:
    data = log_of(control_type)
    records = decode_records(data)
    assert records.is_control.tolist() == [False, True]
    name = f"UNKNOWN({control_type})"
    assert [record.control for record in records] == [None, name]
    assert [record.control for record in records_of(control(control_type, 1))] == [name]
    assert control_text([*records][1]) == f"controlType: {name}"
    replay(image := ClusterImage(), records)
    assert ([*image.topic_ids], image.end_offset) == (["t0"], 2)
    seen, _ = observer()
    seen.on_committed(data, 2)
    assert [*seen.image.topic_ids] == ["t0"] and [len(offsets) for offsets, _ in seen._seen] == [1]
    follower = MetadataLogReader()
    follower._read(b"", 0, reports_commits=True)
    follower._read(data, 2, reports_commits=True)
    assert ([*follower.image.topic_ids], follower.seen.records) == (["t0"], 1)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data)
    loaded = load_metadata(path)
    assert ([*loaded.topic_ids], loaded.records) == (["t0"], 1)


@pytest.mark.parametrize("control_type", TYPES)
def test_a_snapshot_of_control_batches_alone_is_empty(control_type: int) -> None:
    data = control(control_type, 0)
    reader = SnapshotReader(OffsetAndEpoch(5, 1), lambda position, size: SnapshotPiece(data[position:], len(data)))
    loading = SnapshotLoading(reader, controller_config(7, "a cluster"))
    while loading.read_slice():
        pass
    assert loading.is_empty


def test_tables_and_dumps_name_unknown_types(tmp_path: Path) -> None:
    for control_type in TYPES:
        data = log_of(control_type)
        assert decode_records(data).to_arrow()["controlType"].to_pylist() == [None, f"UNKNOWN({control_type})"]
        path = tmp_path / f"{0:020}.log"
        path.write_bytes(data)
        done = CliRunner().invoke(app, ["dump", "--deep", "--json", str(path)])
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert [row["controlType"] for row in rows] == [None, f"UNKNOWN({control_type})"]
