"""A metadata log on disk becomes the cluster that Kafka's own dump of it tells of."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcore.errors import DecodeError, StorageError, TableError
from kcore.schema import KRaftVersionRecord, TopicRecord
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.raft.metadata_log import LoadedMetadata, load_metadata
from kcore.storage.raft.snapshot import SnapshotId, read_snapshot, snapshot_id, snapshots_in, write_snapshot
from kcore.types import Uuid
from kcore.wire.jsonform import to_json
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, Records
from storage.building import batch
from storage.dumps import LISTS, records_of, replay
from storage.samples import KRAFT39, KRAFT43, METADATA_43

TIME_MS = 1_795_248_000_000


def topic(number: int) -> bytes:
    return encode_metadata_record(TopicRecord(name=f"t{number}", topic_id=Uuid(bytes([number + 1] * 16))), 0)


def topics_from(first: int, count: int, epoch: int = 1) -> bytes:
    rows = [Record(first + k, TIME_MS, None, topic(first + k)) for k in range(count)]
    return encode_records(rows, partition_leader_epoch=epoch)


def names(image: LoadedMetadata) -> list[str]:
    return list(image.topic_ids)


@pytest.mark.parametrize(
    ("path", "dump"),
    [
        (METADATA_43, KRAFT43 / "cluster_metadata.dump.txt"),
        (KRAFT39, KRAFT39 / "cluster_metadata.dump.txt"),
    ],
)
def test_the_table_is_the_dump_replayed(path: Path, dump: Path):
    image, expected = load_metadata(path), replay(records_of(dump))
    table = image.table
    assert sorted(table.topics.names) == sorted(expected["topics"].values())
    assert {str(topic_id): name for name, topic_id in image.topic_ids.items()} == expected["topics"]
    states = [table.state(row) for row in range(len(table))]
    assert {(state.topic, state.partition) for state in states} == set(expected["partitions"])
    for state in states:
        dumped = expected["partitions"][state.topic, state.partition]
        assert [list(each) for each in (state.replicas, state.isr, state.removing, state.adding)] == [
            list(dumped[name]) for name in LISTS[:4]
        ]
        assert state.leader == dumped["leader"] and state.leader_epoch == dumped["leaderEpoch"]
        assert state.partition_epoch == dumped["partitionEpoch"]
        assert state.leader_recovery_state == dumped["leaderRecoveryState"]
        more = image.partition(state.topic, state.partition)
        assert [str(each) for each in more.directories] == dumped["directories"]
        assert (list(more.elr), list(more.last_known_elr)) == tuple(list(dumped[name]) for name in LISTS[5:])
    check_the_rest(image, expected)


def check_the_rest(image: LoadedMetadata, expected: dict[str, Any]) -> None:
    configs = {(*resource, name): value for resource, values in image.configs.items() for name, value in values.items()}
    assert configs == {key: value for key, value in expected["configs"].items() if value is not None}
    assert image.features == expected["features"]
    assert image.next_producer_id == expected["ids"] and not image.in_transaction
    assert image.brokers.keys() == expected["brokers"].keys()
    brokers = image.table.brokers
    for broker_id, dumped in expected["brokers"].items():
        broker, row = image.brokers[broker_id], brokers.row(broker_id)
        assert (broker.fenced, broker.in_controlled_shutdown) == (dumped["fenced"], dumped["inControlledShutdown"])
        assert (bool(brokers.live[row]), bool(brokers.shutting_down[row])) == (
            not broker.fenced,
            dumped["inControlledShutdown"],
        )
        assert brokers.epochs[row] == broker.epoch == dumped["brokerEpoch"]
        assert [str(each) for each in broker.directories] == dumped["logDirs"]
        assert [(each.listener, each.host, each.port) for each in brokers.endpoints[row]] == [
            (each["name"], each["host"], each["port"]) for each in dumped["endPoints"]
        ]


def test_the_end_of_the_log_is_reported():
    image = load_metadata(METADATA_43)
    assert (image.end_offset, image.epoch, image.problem) == (384, 3, "")


def test_a_bootstrap_checkpoint_is_a_snapshot_too():
    assert load_metadata(KRAFT39 / "bootstrap.checkpoint").features == {"metadata.version": 21}
    assert load_metadata(KRAFT43 / "broker2-a" / "bootstrap.checkpoint").features["metadata.version"] == 30


def test_a_real_snapshot_says_what_kafka_s_dump_says():
    [found] = snapshots_in(METADATA_43)
    assert found == SnapshotId(0, 0) and found.file_name == f"{0:020}-{0:010}.checkpoint"
    snapshot = read_snapshot(METADATA_43 / found.file_name)
    dump = (KRAFT43 / "snapshot.dump.txt").read_text()
    for message in (snapshot.header, snapshot.kraft_version, snapshot.voters):
        assert message is not None
        shown = str(to_json(message, 0)).replace("'", '"').replace(": ", ":").replace(", ", ",")
        assert shown in dump
    assert list(snapshot) == []


def test_a_snapshot_written_again_is_the_same_but_for_its_times(tmp_path: Path):
    path = METADATA_43 / f"{0:020}-{0:010}.checkpoint"
    snapshot = read_snapshot(path)
    again = write_snapshot(
        tmp_path,
        SnapshotId(0, 0),
        snapshot,
        time_ms=1795248095390,
        last_contained_log_timestamp=snapshot.header.last_contained_log_timestamp,
        kraft_version=snapshot.kraft_version,
        voters=snapshot.voters,
    )
    assert again.name == path.name
    begin = int(snapshot.records.batches.position[1])
    assert again.read_bytes()[:begin] == path.read_bytes()[:begin]
    footers = [data[begin:] for data in (again.read_bytes(), path.read_bytes())]
    # All but the CRC and the two times of the batch.
    assert len({footer[:17] + footer[21:27] + footer[43:] for footer in footers}) == 1


def test_a_folder_is_read_from_its_newest_snapshot_on(tmp_path: Path):
    for end, values in ((2, [topic(0), topic(1)]), (4, [topic(0), topic(1), topic(2), topic(30)])):
        write_snapshot(
            tmp_path, SnapshotId(end, 1), values, time_ms=TIME_MS, last_contained_log_timestamp=TIME_MS, batch_bytes=40
        )
    with LogWriter(tmp_path, start_offset=2, segment_bytes=200) as log:
        for data in (topics_from(2, 1), topics_from(3, 2), topics_from(5, 2, epoch=4)):
            log.append(data)
    (tmp_path / f"{9:020}-{1:010}.checkpoint.part").write_bytes(b"unfinished")
    (tmp_path / f"{9:020}-{1:010}.checkpoint.deleted").write_bytes(b"old")
    image = load_metadata(tmp_path)
    assert names(image) == ["t0", "t1", "t2", "t30", "t4", "t5", "t6"]
    assert (image.end_offset, image.epoch) == (7, 4)
    assert len(read_snapshot(tmp_path / f"{4:020}-{1:010}.checkpoint").records.batches) > 3


def test_a_snapshot_is_read_without_an_object_for_each_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_snapshot(tmp_path, SnapshotId(9, 1), [topic(n) for n in range(9)], time_ms=0,
                          last_contained_log_timestamp=0)  # fmt: skip
    made: list[int] = []
    monkeypatch.setattr(Records, "headers", lambda self, row: made.append(row) or ())
    records = read_snapshot(path).records
    assert len(records) == 11 and {*made} == {0, 10}, "the header and the footer"
    monkeypatch.undo()
    rows = np.array([10, 3, 0])
    assert [*records.in_rows(rows)] == [[*records][row] for row in rows]


def test_reading_stops_or_raises_at_a_torn_tail(tmp_path: Path):
    path = tmp_path / f"{0:020}.log"
    whole = topics_from(0, 2)
    path.write_bytes(whole + topics_from(2, 2)[:-1])
    with pytest.raises(DecodeError, match=re.escape(f"{path}: a torn record batch (at offset {len(whole)})")):
        load_metadata(tmp_path)
    image = load_metadata(tmp_path, stop=True)
    assert names(image) == ["t0", "t1"] and "a torn record batch" in image.problem


def test_invalid_metadata_is_an_error_with_its_offset(tmp_path: Path):
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(topics_from(0, 1) + batch(1, [b"no frame"]))
    with pytest.raises(DecodeError, match=r"log: record 1: a frame of version 110, not 1"):
        load_metadata(path)
    path.write_bytes(topics_from(0, 1) + encode_records([Record(1, TIME_MS, None, topic(0))]))
    with pytest.raises(TableError, match=r"log: record 1: topic 't0' exists"):
        load_metadata(path)


def test_what_is_neither_log_nor_snapshot(tmp_path: Path):
    for path, said in [
        (tmp_path, "neither a segment nor a snapshot"),
        (tmp_path / "x.txt", "neither a metadata log's"),
    ]:
        with pytest.raises(StorageError, match=said):
            load_metadata(path)
    with pytest.raises(FileNotFoundError):
        load_metadata(tmp_path / f"{0:020}.log")


OF_ORDERS = "a replica of orders-1, not of __cluster_metadata: `kcore dump` shows it"


def test_a_replica_of_another_topic_is_no_empty_cluster(tmp_path: Path):
    folder = tmp_path / "orders-1"
    folder.mkdir()
    path = folder / f"{0:020}.log"
    for data in (b"", encode_records([Record(0, TIME_MS, None, b"an order")]), topics_from(0, 1)[:-1]):
        path.write_bytes(data)
        for given in (folder, path):
            with pytest.raises(StorageError, match=re.escape(OF_ORDERS)):
                load_metadata(given)
    for data in (b"", topics_from(0, 1)[:-1]):
        path.write_bytes(data)
        with pytest.raises(StorageError, match=re.escape(OF_ORDERS)):
            load_metadata(folder, stop=True)


def test_an_empty_log_is_an_empty_cluster_where_its_folder_says_that_it_is_the_metadata_log_s(tmp_path: Path):
    for name in ("__cluster_metadata-0", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").touch()
    assert load_metadata(tmp_path / "__cluster_metadata-0").records == 0
    with pytest.raises(StorageError, match=r"no metadata record is in it; `kcore dump` shows what is"):
        load_metadata(tmp_path / "elsewhere")


def test_an_unfinished_snapshot_is_none(tmp_path: Path):
    path = write_snapshot(tmp_path, SnapshotId(1, 1), [topic(0)], time_ms=1, last_contained_log_timestamp=1)
    snapshot = read_snapshot(path)
    data, ends = path.read_bytes(), snapshot.records.batches.position.tolist()
    path.write_bytes(data[: ends[-1]])
    with pytest.raises(StorageError, match="not finished"):
        read_snapshot(path)
    path.write_bytes(data[ends[1] :])
    with pytest.raises(StorageError, match="begins with its header"):
        read_snapshot(path)
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="begins with its header"):
        read_snapshot(path)
    assert snapshot_id("00000000000000000001-0000000001.checkpoint.part") is None
    assert snapshot_id("09223372036854775807-2147483647.checkpoint") == (2**63 - 1, 2**31 - 1)
    assert snapshot_id("09223372036854775808-0000000001.checkpoint") is None
    assert snapshot_id("00000000000000000001-2147483648.checkpoint") is None


def test_a_snapshot_may_tell_of_its_quorum(tmp_path: Path):
    path = write_snapshot(
        tmp_path,
        SnapshotId(10**18, 2**31 - 1),
        [],
        time_ms=5,
        last_contained_log_timestamp=4,
        kraft_version=KRaftVersionRecord(version=0, kraft_version=1),
    )
    snapshot = read_snapshot(path)
    assert snapshot.id == (10**18, 2**31 - 1) and snapshot.voters is None
    assert snapshot.kraft_version == KRaftVersionRecord(version=0, kraft_version=1)
    assert snapshot.header.last_contained_log_timestamp == 4


def test_with_stop_a_record_that_does_not_fit_ends_the_image_before_its_batch(tmp_path: Path):
    first, path = tmp_path / f"{0:020}.log", tmp_path / f"{3:020}.log"
    first.write_bytes(topics_from(0, 3))
    double = [Record(4 + k, TIME_MS, None, topic(each)) for k, each in enumerate((4, 0, 5))]
    no_frame = batch(4, [b"no frame"])
    for behind, said in ((encode_records(double), "record 5: topic 't0' exists"), (no_frame, "record 4: a frame of")):
        path.write_bytes(topics_from(3, 1) + behind + topics_from(7, 1))
        with pytest.raises((TableError, DecodeError)):
            load_metadata(tmp_path)
        image = load_metadata(tmp_path, stop=True)
        assert names(image) == ["t0", "t1", "t2", "t3"] and image.journal is None
        assert (image.end_offset, image.epoch, image.records) == (4, 1, 4)
        assert image.problem.startswith(f"{path}: {said}")
