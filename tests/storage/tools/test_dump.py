"""Our dump is Kafka's own, line for line."""

import re
from pathlib import Path

import pytest

from kcore.errors import DecodeError
from kcore.storage.log.indexes import AbortedTransaction, format_aborted
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.tools.dump import Detail, control_text, dump_lines, files_of, record_line
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from storage.building import batch, batches
from storage.samples import KRAFT39, KRAFT43, METADATA_43, OLD_FORMATS

CONTENTS = Detail(contents=True)


@pytest.mark.parametrize(
    ("path", "dump", "detail"),
    [
        (
            METADATA_43 / f"{0:020}.log",
            KRAFT43 / "cluster_metadata.dump.txt",
            Detail(metadata=True, skip_record_metadata=True),
        ),
        (METADATA_43 / f"{0:020}-{0:010}.checkpoint", KRAFT43 / "snapshot.dump.txt", Detail(metadata=True)),
        (KRAFT43 / "broker2-a" / "orders-1" / f"{0:020}.log", KRAFT43 / "orders.dump.txt", CONTENTS),
        (KRAFT39 / f"{0:020}.log", KRAFT39 / "cluster_metadata.dump.txt", Detail(metadata=True)),
    ],
)
def test_our_dump_is_kafka_s(path: Path, dump: Path, detail: Detail):
    ours, theirs = list(dump_lines(path, detail)), dump.read_text().splitlines()[1:]
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if other.endswith("controlType: LEADER_CHANGE(2)"):  # 3.9.1 knows no more of it; 4.3.1 shows the message.
            assert mine.startswith(other.removesuffix("controlType: LEADER_CHANGE(2)") + 'LeaderChange: {"version":0')
        else:
            assert mine == other


def test_our_dump_of_messages_before_kafka_0_11_is_kafka_s():
    theirs = (OLD_FORMATS / "orders.dump.txt").read_text().splitlines()[1:]
    path = OLD_FORMATS / "orders-0" / f"{100:020}.log"
    ours = list(dump_lines(path, Detail(deep=True)))
    without_crc = [re.sub(r" isValid: true crc: \d+}$", "", line) for line in theirs]
    assert ours == without_crc
    assert list(dump_lines(path, Detail())) == [line for line in theirs if not line.startswith("|")]


def test_batches_alone_are_the_dump_without_its_records():
    theirs = (KRAFT43 / "orders.dump.txt").read_text().splitlines()[1:]
    ours = list(dump_lines(KRAFT43 / "broker2-a" / "orders-1" / f"{0:020}.log", Detail()))
    assert ours == [line for line in theirs if not line.startswith("|")]


def test_a_folder_is_its_snapshots_and_segments():
    assert [path.name for path in files_of(METADATA_43)] == [f"{0:020}-{0:010}.checkpoint", f"{0:020}.log"]


def test_a_bootstrap_snapshot_says_so():
    lines = list(dump_lines(KRAFT39 / "bootstrap.checkpoint", Detail(metadata=True)))
    assert lines[0] == "KRaft bootstrap snapshot"
    assert '"name":"metadata.version","featureLevel":21' in lines[4]


def test_indexes(tmp_path: Path):
    with LogWriter(tmp_path, index_interval_bytes=300) as writer:
        writer.append(b"".join(batches(5, size=100)))
    log = tmp_path / f"{0:020}.log"
    log.with_suffix(".txnindex").write_bytes(format_aborted([AbortedTransaction(1, 2, 3, 2)]))
    size = log.stat().st_size // 5
    assert 100 < size < 300 < 2 * size
    assert list(dump_lines(log.with_suffix(".index"), Detail())) == [
        f"offset: 2 position: {2 * size}",
        f"offset: 4 position: {4 * size}",
    ]
    assert list(dump_lines(log.with_suffix(".timeindex"), Detail()))[-1].endswith("offset: 4")
    assert list(dump_lines(log.with_suffix(".txnindex"), Detail())) == [
        "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 2"
    ]
    log.unlink()
    assert len(list(dump_lines(log.with_suffix(".index"), Detail()))) == 2  # An index needs no segment to be read.


@pytest.mark.parametrize("detail", [Detail(), Detail(deep=True)])
def test_a_torn_tail_is_reported_after_the_whole_batches(detail: Detail, tmp_path: Path):
    path, first = tmp_path / f"{0:020}.log", batch(0)
    path.write_bytes(first + batch(1)[:-1])
    shown: list[str] = []
    with pytest.raises(DecodeError, match=rf"torn record batch \(at offset {len(first)}\)"):
        for line in dump_lines(path, detail):
            shown.append(line)
    assert "baseOffset: 0 " in shown[1]
    assert shown[-1] == f"Found {len(first) - 1} invalid bytes at the end of {path.name}"


def test_a_broken_batch_is_shown_and_reported(tmp_path: Path):
    path, broken = tmp_path / f"{0:020}.log", bytearray(batch(0, [b"value"]))
    broken[-2] ^= 1
    path.write_bytes(bytes(broken) + batch(1))
    shown: list[str] = []
    with pytest.raises(DecodeError, match="CRC does not match"):
        for line in dump_lines(path, CONTENTS):
            shown.append(line)
    assert shown[1].endswith("isvalid: false") and shown[2].endswith("payload: valud")
    assert shown[3].endswith("isvalid: true")


def test_transaction_markers_and_unknown_control_records():
    marker = Record(5, 6, b"\0\0\0\1", b"\0\0\0\0\0\7", control_type=1)
    assert control_text(marker) == "endTxnMarker: COMMIT coordinatorEpoch: 7"
    assert control_text(Record(5, 6, b"\0\0\0\x63", b"", control_type=99)) == "controlType: UNKNOWN(99)"
    assert control_text(Record(5, 6, b"\0\0\0\2", b"\0", control_type=2)).startswith("Error at 5, skipping. ")


def test_what_is_no_metadata_record_is_said_in_its_place():
    line = record_line(Record(5, 6, None, b"\x07"), "CreateTime", Detail(metadata=True, skip_record_metadata=True))
    assert line.startswith("| payload: Error at 5, skipping. a frame of version 7")


def test_sequences_wrap_and_times_may_be_the_append_s(tmp_path: Path):
    rows = [Record(k, 100, b"k", b"\xff", (("h", None), ("i", b""))) for k in range(3)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(
        encode_records(
            rows, base_sequence=2**31 - 2, producer_id=4, producer_epoch=1, log_append_time=True, max_timestamp=900,
            transactional=True, codec="zstd",
        )
    )  # fmt: skip
    _, batch_line, *record_lines = dump_lines(path, CONTENTS)
    assert f"baseSequence: {2**31 - 2} lastSequence: 0 producerId: 4 producerEpoch: 1" in batch_line
    assert "isTransactional: true" in batch_line and "LogAppendTime: 900" in batch_line and "zstd" in batch_line
    assert record_lines[2] == (
        "| offset: 2 LogAppendTime: 900 keySize: 1 valueSize: 1 sequence: 0 headerKeys: [h,i] key: k payload: \ufffd"
    )
