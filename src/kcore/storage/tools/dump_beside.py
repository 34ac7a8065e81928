"""The output of kafka-dump-log for the files beside a segment, its indexes and producer snapshots: a row per entry."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kcore.storage.log.indexes import OffsetIndex, TimeIndex, read_aborted
from kcore.storage.log.producer_snapshot import PRODUCER_SNAPSHOT, read_producers
from kcore.storage.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, base_offset_of

Row = dict[str, Any]
_OPTIONAL: Final = "currentTxnFirstOffset"


def is_beside(path: Path) -> bool:
    """Whether the file is an index or a producer snapshot, by its suffix."""
    return path.suffix in _READERS


def beside_rows(path: Path) -> list[Row]:
    """The entries with Kafka's names of fields; a StorageError names the path of an invalid file."""
    return list(_READERS[path.suffix](path))


def beside_line(row: Row) -> str:
    """The line of one entry in Kafka's dump."""
    return " ".join(f"{name}: {_optional(value) if name == _OPTIONAL else value}" for name, value in row.items())


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _offsets(path: Path) -> Iterator[Row]:
    index = OffsetIndex.read(path, base_offset_of(path.with_suffix(LOG)))
    for offset, position in zip(index.offsets.tolist(), index.positions.tolist(), strict=True):
        yield {"offset": offset, "position": position}


def _times(path: Path) -> Iterator[Row]:
    index = TimeIndex.read(path, base_offset_of(path.with_suffix(LOG)))
    for timestamp, offset in zip(index.timestamps.tolist(), index.offsets.tolist(), strict=True):
        yield {"timestamp": timestamp, "offset": offset}


def _aborted(path: Path) -> Iterator[Row]:
    for each in read_aborted(path):
        yield {
            "version": 0,
            "producerId": each.producer_id,
            "firstOffset": each.first_offset,
            "lastOffset": each.last_offset,
            "lastStableOffset": each.last_stable_offset,
        }


def _producers(path: Path) -> Iterator[Row]:
    for each in read_producers(path):
        row: Row = {
            "producerId": each.producer_id,
            "producerEpoch": each.producer_epoch,
            "coordinatorEpoch": each.coordinator_epoch,
            _OPTIONAL: each.current_txn_first_offset if each.current_txn_first_offset >= 0 else None,
            "lastTimestamp": each.timestamp,
        }
        if each.last_offset >= 0:
            row |= {
                "firstSequence": each.first_sequence,
                "lastSequence": each.last_sequence,
                "lastOffset": each.last_offset,
                "offsetDelta": each.offset_delta,
                "timestamp": each.timestamp,
            }
        yield row


_READERS: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {
    OFFSET_INDEX: _offsets,
    TIME_INDEX: _times,
    TRANSACTION_INDEX: _aborted,
    PRODUCER_SNAPSHOT: _producers,
}
