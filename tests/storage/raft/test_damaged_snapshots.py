"""A damaged snapshot, such as one without its end, is never loaded: an older one and the log are, or nothing is."""

import logging
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.raft_snapshots import DAMAGED
from kcore.storage.raft.snapshot import why_damaged
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_batch import HEADER_END, crc32c
from kcore.wire.record_building import encode_values
from raft.batches import snapshot_batches
from storage.raft_logs import fill, opened, snapshot

STATE = b"".join(snapshot_batches(1, [b"state" * 40] * 5, 0, 0, None, 0))


def cut(path: Path, size: int) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-size])


def file_of(log: DiskRaftLog, offset: int) -> Path:
    return log.folder / f"{offset:020}-{1:010}.checkpoint"


def with_snapshots(directory: Path, *offsets: int, begin: int = 0) -> DiskRaftLog:
    """A log of 40 records with these snapshots; from `begin` on, which is one of them. It is closed."""
    with opened(directory) as log:
        fill(log, 40)
        log.update_high_watermark(40)
        for offset in offsets:
            snapshot(log, offset, 1, STATE)
        if begin:
            log.delete_before(OffsetAndEpoch(begin, 1))
    return log


@pytest.mark.parametrize("bytes_cut", [1, 75, 130, 400, 800])
def test_a_snapshot_without_its_end_gives_way_to_the_older_one(
    bytes_cut: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = with_snapshots(tmp_path, 20, 35, begin=20)
    cut(file_of(log, 35), bytes_cut)
    with caplog.at_level(logging.ERROR), opened(tmp_path) as again:
        assert again.latest_snapshot == OffsetAndEpoch(20, 1)
        assert (again.start_offset, again.end_offset) == (16, 40), "from the segment of offset 20 on"
    [line] = [each.getMessage() for each in caplog.records]
    assert str(file_of(log, 35)) in line and "starts from snapshot 20-1 and the log up to offset 40" in line
    assert not file_of(log, 35).exists() and file_of(log, 35).with_name(file_of(log, 35).name + DAMAGED).exists()


def test_a_snapshot_that_ends_at_a_whole_batch_lacks_its_footer_all_the_same(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 20, begin=20)
    [*_, footer] = snapshot_batches(1, [b"state" * 40] * 5, 0, 0, None, 0)
    cut(file_of(log, 20), len(footer))
    with pytest.raises(StorageError, match="it has no footer: its end is missing"):
        opened(tmp_path)
    assert file_of(log, 20).exists(), "nothing is renamed where the node does not start"
    with pytest.raises(StorageError, match="it has no footer"):
        opened(tmp_path)


def test_a_log_from_its_first_record_needs_no_snapshot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = with_snapshots(tmp_path, 20)
    cut(file_of(log, 20), 100)
    with caplog.at_level(logging.ERROR), opened(tmp_path) as again:
        assert (again.latest_snapshot, again.start_offset, again.end_offset) == (None, 0, 40)
    assert "starts from offset 0 and the log up to offset 40" in caplog.text


def test_a_node_that_has_nothing_but_a_damaged_snapshot_does_not_begin_an_empty_log(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 20)
    snapshots = [file_of(log, 20)]
    for path in [*log.folder.glob("*.log"), *tmp_path.glob("recovery-point*")]:
        path.unlink()
    cut(snapshots[0], 1)
    with pytest.raises(StorageError, match="the log ends at 0, before the snapshot does"):
        opened(tmp_path)
    assert snapshots[0].exists()


def test_a_flipped_bit_in_a_snapshot_is_found_when_the_log_is_opened(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 20, begin=20)
    path = file_of(log, 20)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match=r"the CRC of the batch at position \d+ does not match"):
        opened(tmp_path)


def test_a_file_without_a_header_is_no_snapshot(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 20, begin=20)
    file_of(log, 20).chmod(0o644)
    file_of(log, 20).write_bytes(b"")
    with pytest.raises(StorageError, match="it has no header"):
        opened(tmp_path)


def test_a_last_batch_of_data_that_no_codec_reads_is_no_footer(tmp_path: Path) -> None:
    [header, *_] = snapshot_batches(1, [], 0, 0, None, 0)
    last = bytearray(encode_values([b"state" * 40], base_offset=1, partition_leader_epoch=1, timestamp=1))
    last[HEADER_END:] = b"\xff" * (len(last) - HEADER_END)
    last[17:21] = crc32c(bytes(last[21:])).to_bytes(4)
    path = tmp_path / f"{20:020}-{1:010}.checkpoint"
    path.write_bytes(header + last)
    assert why_damaged(path) == "it has no footer: its end is missing"


def test_a_reader_takes_the_older_snapshot_and_says_so(tmp_path: Path) -> None:
    """`kcore image` shows what it could read, and ends with exit code 1; a program without `stop` gets the error."""
    log = with_metadata(tmp_path)
    whole = load_metadata(log.folder)
    cut(file_of(log, 35), 100)
    with pytest.raises(StorageError, match=r"35-0000000001\.checkpoint: it is torn at position"):
        load_metadata(log.folder)
    found = load_metadata(log.folder, stop=True)
    assert "35-0000000001.checkpoint is left out: it is torn" in found.problem
    assert (found.end_offset, found.features) == (whole.end_offset, whole.features)
    for each in (*log.folder.glob("*.log"), file_of(log, 20)):
        each.unlink()
    with pytest.raises(StorageError, match=r"35-0000000001\.checkpoint is left out: it is torn"):
        load_metadata(log.folder, stop=True)


def with_metadata(directory: Path) -> DiskRaftLog:
    """A log of feature levels, each higher than the last, from offset 20 on, with snapshots at 20 and 35."""

    def level(number: int) -> bytes:
        return encode_metadata_record(FeatureLevelRecord(name="f", feature_level=number), 0)

    with opened(directory) as log:
        for number in range(40):
            batch = encode_values([level(number)], base_offset=number, partition_leader_epoch=1, timestamp=1)
            log.append_as_leader(batch, 1)
        log.update_high_watermark(40)
        for offset in (20, 35):
            data = b"".join(snapshot_batches(1, [level(offset - 1)], 0, 0, None, 0))
            snapshot(log, offset, 1, data)
        log.delete_before(OffsetAndEpoch(20, 1))
    return log
