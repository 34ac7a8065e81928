"""Reads the batches of a log in every format: batches of magic 2, and messages of magic 0 and 1 before them.

A topic that is older than its brokers can have segments of several formats, and all three in one segment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from sys import maxsize
from typing import TYPE_CHECKING, Any

import numpy as np

from kcore.errors import DecodeError
from kcore.wire.buffers import immutable, read_only
from kcore.wire.message_sets import LEAST_SIZE, NEWEST_MAGIC, decode_message_sets, is_message, scan_message_sets
from kcore.wire.record_batch import (
    BATCH_COLUMNS,
    LENGTH_END,
    MAGIC_AT,
    OTHER_MAGIC,
    TORN,
    RecordBatches,
    scan_batches,
)
from kcore.wire.records import MAX_BYTES, Records, decode_records

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer  # collections.abc.Buffer, from Python 3.12 on.


def scan_log(
    data: "Buffer",
    *,
    start: int = 0,
    limit: int = maxsize,
    check_crc: bool = True,
    stop: bool = False,
    skip: bool = False,
) -> RecordBatches:
    """The headers of batches and messages of every magic, as `scan_batches` and `scan_message_sets` give them.

    DecodeError with its offset for a torn batch and for other bytes; with `stop`, `problem` has the error. With `skip`,
    batches of an unknown magic with a plausible length are left out and listed in `skipped`.
    """
    steady = immutable(data, mapped=True)
    found, skipped, left = list[RecordBatches](), list[DecodeError](), limit
    while True:
        found.append(scan_batches(steady, start=start, limit=left, check_crc=check_crc, stop=True))
        left, start, problem = left - len(found[-1]), found[-1].end, found[-1].problem
        if not problem and len(found) == 1:
            return found[0]
        if left and problem and is_message(steady, start):
            found.append(_messages(steady, start, left, check_crc))
            left, start, problem = left - len(found[-1]), found[-1].end, found[-1].problem
            if problem:
                break
        elif skip and problem and problem.message == OTHER_MAGIC and (end := _believable_end(steady, start)):
            skipped.append(problem)
            start = end
        else:
            break
    if problem and _is_torn_at_its_magic(steady, start):
        problem = DecodeError(TORN, start)
    if problem and not stop:
        raise problem
    return replace(_joined(found), end=start, problem=problem, skipped=tuple(skipped))


def _is_torn_at_its_magic(data: memoryview, start: int) -> bool:
    """True if the data ends behind the magic of a message, so that `is_message` cannot recognise it."""
    if len(data) - start != MAGIC_AT + 1 or data[start + MAGIC_AT] > NEWEST_MAGIC:
        return False
    return int.from_bytes(data[start + 8 : start + LENGTH_END], signed=True) >= LEAST_SIZE


def _messages(data: memoryview, start: int, limit: int, check_crc: bool) -> RecordBatches:
    """The messages of magic 0 and 1 from `start` on. Other bytes behind them are no problem: they end the run."""
    batches = scan_message_sets(data, start=start, limit=limit, check_crc=check_crc, stop=True)
    is_other = batches.problem and batches.end > start and not is_message(data, batches.end)
    return replace(batches, problem=None) if is_other else batches


def _believable_end(data: memoryview, position: int) -> int | None:
    """The end of the batch by its stated length; None if the bytes end earlier, or the batch has no magic."""
    end = position + LENGTH_END + int.from_bytes(data[position + 8 : position + LENGTH_END], signed=True)
    return end if position + MAGIC_AT < end <= len(data) else None


def _joined(parts: Sequence[RecordBatches]) -> RecordBatches:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        name: read_only(np.concatenate([getattr(part, name) for part in parts])) for name, _ in BATCH_COLUMNS
    }
    return replace(parts[-1], **columns)


def runs_of(batches: RecordBatches, most_bytes: int = maxsize) -> Iterator[RecordBatches]:
    """Yields the batches in runs that one decoder reads: of magic 2, or of magic 0 and 1.

    A run has at least one batch, and otherwise at most about `most_bytes`.
    """
    is_old = batches.magic <= NEWEST_MAGIC
    borders = [*(np.flatnonzero(is_old[1:] != is_old[:-1]) + 1).tolist(), len(batches)]
    first = 0
    for border in borders:
        while first < border:
            bound = int(batches.position[first]) + most_bytes
            end = min(border, max(first + 1, int(np.searchsorted(batches.position, bound))))
            yield batches.take(slice(first, end))
            first = end


def decode_run(
    data: "Buffer", batches: RecordBatches, *, check_crc: bool = True, stop: bool = False, max_bytes: int = MAX_BYTES
) -> Records:
    """The records of one run of `runs_of`. Errors and options are those of `decode_records`."""
    is_old = len(batches) and batches.magic[0] <= NEWEST_MAGIC
    decode = decode_message_sets if is_old else decode_records
    return decode(data, batches, check_crc=check_crc, stop=stop, max_bytes=max_bytes)
