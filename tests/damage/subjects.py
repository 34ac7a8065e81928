"""Folders as a controller and a broker leave them, and what must hold when one of their files is damaged.

Each reader refuses the folder with one line, or reads what is right and names what is missing. No whole batch
is gone from the disk afterwards, in whatever file it is. The node's log names what recovery cut.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kcore.errors import KcoreError
from kcore.raft.log.control_records import control_batch
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema import TopicRecord
from kcore.schema.control_records import LeaderChangeMessage
from kcore.storage.log.holes import whole_batches
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.snapshot import SnapshotId, snapshots_in, write_snapshot
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_batch import scan_batches
from kcore.wire.record_building import encode_values
from storage.building import TIME_MS, batch

FOLDER: Final = "__cluster_metadata-0"
PARTITION: Final = "t-0"
SMALL: Final = Settings(900, 200)
ASIDE: Final = SMALL._replace(set_aside=True)
MOST: Final = 1 << 20
Batches = Counter[bytes]


class Whole(NamedTuple):
    """The contents of an undamaged folder: batches by base offset, and the offsets of data records."""

    batches: dict[int, bytes]
    topics: frozenset[int]

    @property
    def end_offset(self) -> int:
        return max(self.batches) + _count(self.batches[max(self.batches)])


def _count(data: bytes) -> int:
    return int.from_bytes(data[23:27]) + 1


def value_of(offset: int) -> bytes:
    return encode_metadata_record(TopicRecord(name=f"t{offset}", topic_id=Uuid(offset.to_bytes(16))), 0)


def _metadata(folder: Path, *, has_snapshot: bool) -> Whole:
    batches, topics = {}, set()
    with DiskRaftLog(folder / FOLDER, SMALL) as log:
        for epoch, counts in ((1, (3, 1, 2, 1, 1, 2, 1)), (2, (1, 1, 2, 1, 3, 1)), (4, (2, 1, 1, 1, 1, 1))):
            message = LeaderChangeMessage(version=0, leader_id=1)
            made = [control_batch([message], log.end_offset, epoch, TIME_MS)]
            log.append_as_leader(made[0], epoch)
            batches[log.end_offset - 1] = made[0]
            for count in counts:
                first = log.end_offset
                data = encode_values(
                    [value_of(first + k + 1) for k in range(count)],
                    base_offset=first,
                    timestamp=TIME_MS,
                    partition_leader_epoch=epoch,
                )
                log.append_as_leader(data, epoch)
                batches[first] = data
                topics |= {*range(first, first + count)}
        if has_snapshot:
            end = OffsetAndEpoch(sorted(batches)[10], 2)
            log.update_high_watermark(end.offset)
            log.begin_snapshot(end)
            held = [value_of(offset + 1) for offset in sorted(topics) if offset < end.offset]
            path = write_snapshot(
                folder,
                SnapshotId(*end),
                held,
                time_ms=TIME_MS,
                last_contained_log_timestamp=TIME_MS,
                batch_bytes=60,
            )
            log.append_snapshot(end, path.read_bytes())
            log.freeze_snapshot(end)
            path.unlink()
            log.delete_before(end)
    if has_snapshot:
        begin = min(int(path.stem) for path in (folder / FOLDER).glob("*.log"))
        batches = {first: data for first, data in batches.items() if first >= begin}
    else:
        (folder / "recovery-point-offset-checkpoint").unlink()  # As Kafka's controllers leave it.
    return Whole(batches, frozenset(topics))


def metadata(folder: Path) -> Whole:
    """The log of a controller that keeps no recovery point, from offset 0 on."""
    return _metadata(folder, has_snapshot=False)


def metadata_with_snapshot(folder: Path) -> Whole:
    """The log of a controller that was closed, and begins at a snapshot."""
    return _metadata(folder, has_snapshot=True)


def data(folder: Path) -> Whole:
    """A broker's log directory with a partition of an idempotent producer, closed."""
    directory, batches = LogDirectory(folder, SMALL), {}
    folder.mkdir(exist_ok=True)
    (folder / PARTITION).mkdir()
    directory.open()
    [log] = directory.logs.values()
    for number in range(24):
        first = log.end_offset
        values, producer = [b"%d" % number * 9] * (1 + number % 3), (5, 0, first)
        made = batch(first, values, epoch=1 + number // 9, producer=producer, time_ms=TIME_MS + number)
        log.append(made, scan_batches(made))
        batches[first] = made
    log.high_watermark = log.end_offset
    directory.close()
    return Whole(batches, frozenset())


def on_disk(folder: Path) -> Batches:
    """The whole batches of a log in all of its files, snapshots left out."""
    found: Batches = Counter()
    for path in (each for each in folder.rglob("*.log*") if not each.name.endswith(".deleted")):
        read = path.read_bytes()
        for position, _, _ in whole_batches(read):
            found[read[position : position + 12 + int.from_bytes(read[position + 8 : position + 12])]] += 1
    return found


@contextmanager
def logged() -> Iterator[list[str]]:
    """The warnings of the storage meanwhile."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Handler(), logging.getLogger("kcore.storage")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def gone_from(folder: Path, before: Batches) -> set[bytes]:
    """The whole batches that are on the disk no more, in a log or in a snapshot."""
    held_below = max((found.end_offset for found in snapshots_in(folder / FOLDER)), default=0)
    return {each for each in before - on_disk(folder) if _last(each) >= held_below}


def one_line(error: KcoreError) -> str:
    assert str(error) and "\n" not in str(error), error
    return "refused"


def _bytes_of_logs(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.log"))


def check_metadata(folder: Path, whole: Whole, *, set_aside: bool, same_epochs: bool) -> str:
    """Loads the folder, opens it as a node does, and reads all; returns what became of it."""
    before = on_disk(folder)
    outcomes = [_check_image(folder, whole, before)]
    size = _bytes_of_logs(folder)
    with logged() as lines:
        try:
            log = DiskRaftLog(folder / FOLDER, ASIDE if set_aside else SMALL)
        except KcoreError as error:
            outcomes.append(one_line(error))
        else:
            outcomes.append(_read_log(log, whole, before, same_epochs=same_epochs))
            assert _bytes_of_logs(folder) == size or lines, "bytes are gone without a line in the log"
    gone = gone_from(folder, before)
    assert not gone, f"{len(gone)} whole batches are gone"
    return " ".join(outcomes)


def _last(data: bytes) -> int:
    return int.from_bytes(data[:8]) + _count(data) - 1


def _check_image(folder: Path, whole: Whole, before: Batches) -> str:
    try:
        image = load_metadata(folder / FOLDER)
        ended = ""
    except KcoreError as error:
        one_line(error)
        try:
            image = load_metadata(folder / FOLDER, stop=True)
        except KcoreError as other:
            return one_line(other)
        ended = image.problem
        assert ended
    expected = {f"t{offset + 1}" for offset in whole.topics if offset < image.end_offset}
    assert {*image.topic_ids} == expected, "another cluster"
    if not ended:
        assert all(_last(each) < image.end_offset for each in before), "batches are passed over"
    return "named" if ended else "read"


def _read_log(log: DiskRaftLog, whole: Whole, before: Batches, *, same_epochs: bool) -> str:
    read, offset = b"", log.start_offset
    end_offset = log.end_offset
    try:
        while offset < end_offset:
            part = log.read(offset, 1, end_offset)
            assert int.from_bytes(part[:8]) <= offset
            read, offset = read + part, _last(part) + 1
    except KcoreError as error:
        return f"opened, {one_line(error)}"
    finally:
        log.abandon()
    batches = [each for _, each in sorted(whole.batches.items()) if log.start_offset <= _last(each) < end_offset]
    expected = b"".join(batches)
    if same_epochs:
        assert read == expected, "another log"
    else:
        assert len(read) == len(expected), "another log"
    if log.latest_snapshot is not None and log.start_offset == end_offset == log.latest_snapshot.offset:
        _check_snapshot(log, log.latest_snapshot)
    return "opened" if end_offset == whole.end_offset else "shorter"


def _check_snapshot(log: DiskRaftLog, snapshot: OffsetAndEpoch) -> None:
    list(SnapshotReader.of_log(log, snapshot))


def check_data(folder: Path, whole: Whole, *, set_aside: bool, same_epochs: bool) -> str:
    """Opens the directory as a broker does, and reads all that consumers would."""
    before, size = on_disk(folder), _bytes_of_logs(folder)
    directory = LogDirectory(folder, ASIDE if set_aside else SMALL)
    with logged() as lines:
        try:
            directory.open()
            outcome = _read_data(directory, before)
        except KcoreError as error:
            outcome = one_line(error)
    directory.fail("the check ends")
    assert _bytes_of_logs(folder) == size or lines, "bytes are gone without a line in the log"
    assert not before - on_disk(folder), "whole batches are gone"
    return outcome


def _read_data(directory: LogDirectory, before: Batches) -> str:
    [log] = directory.logs.values()
    found: Batches = Counter()
    offset = log.start_offset
    while offset < log.end_offset:
        part = log.read(offset, 1, log.end_offset, at_least_one=True)
        if not part:
            break
        assert _last(part) >= offset
        found[part] += 1
        offset = _last(part) + 1
    readable = Counter({each: n for each, n in before.items() if log.start_offset <= _last(each) < log.end_offset})
    assert not {*readable} - {*found}, "whole batches are passed over"
    return "opened"


Check = Callable[..., str]
SUBJECTS: Final[dict[str, tuple[Callable[[Path], Whole], Check]]] = {
    "metadata": (metadata, check_metadata),
    "metadata with a snapshot": (metadata_with_snapshot, check_metadata),
    "data": (data, check_data),
}
