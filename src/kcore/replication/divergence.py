"""Computes where a follower's log diverges from its leader's (KIP-101, KIP-279): epochs' ends and truncation offsets.

The bulk functions work on many partitions at once; `exchange` records each round of one partition, for readers.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kcore._ext.raft.divergence import end_offsets, truncation_rounds
from kcore.constants import UNDEFINED_EPOCH_OFFSET
from kcore.errors import ArgumentError, TableError
from kcore.replication.epochs import EpochCache, EpochEndOffset, EpochTables, check_rows, column
from kcore.types import Int32s, Int64s


class Truncations(NamedTuple):
    """The final truncation offset of each partition's follower and the number of rounds; one entry a partition."""

    offsets: Int64s
    rounds: Int32s


class OffsetTruncationState(NamedTuple):
    """The result of one round for the follower: truncate to `offset`, and whether truncation is complete."""

    offset: int
    truncation_completed: bool


@dataclass
class Exchange:
    """The rounds of one partition: each request with the leader's answer, each truncation; and the resulting log."""

    requests: list[tuple[int, EpochEndOffset]] = field(default_factory=list)
    truncations: list[OffsetTruncationState] = field(default_factory=list)
    log_end_offset: int = 0
    cache: EpochCache = field(default_factory=EpochCache)


def end_offset_for_epoch(
    epochs: npt.ArrayLike,
    starts: npt.ArrayLike,
    row_offsets: npt.ArrayLike,
    log_ends: npt.ArrayLike,
    requested: npt.ArrayLike,
) -> tuple[Int32s, Int64s]:
    """The end of each row's requested epoch, or of the last epoch below it: (epochs, end offsets), one a row.

    Row r's epochs are `epochs[row_offsets[r]:row_offsets[r + 1]]` with their start offsets. Both must ascend, as in an
    EpochTables; this function does not check it. Both results are -1 if the log has no such epoch. Raises TableError
    for wrong shapes. Source: LeaderEpochFileCache.endOffsetFor (KIP-101).
    """
    table = column("epochs", epochs, np.int32), column("starts", starts, np.int64)
    # The kernel indexes by the offsets: a copy, so that no other thread can change them.
    rows = column("row_offsets", row_offsets, np.int64).copy(), column("log_ends", log_ends, np.int64)
    check_rows(*table, *rows)
    requested__p = column("requested", requested, np.int32)
    if len(requested__p) != len(rows[1]):
        raise TableError(f"{len(requested__p)} requested epochs for {len(rows[1])} rows")
    epochs__p, end_offsets__p = np.empty(len(requested__p), np.int32), np.empty(len(requested__p), np.int64)
    end_offsets(*table, *rows, requested__p, epochs__p, end_offsets__p)
    return epochs__p, end_offsets__p


def truncation_offsets(leader: EpochTables, follower: EpochTables) -> Truncations:
    """The offset to which each follower truncates its log after all rounds of its exchange of epochs with the leader.

    Row r of `leader` and row r of `follower` are the same partition. TableError if `follower` has no high watermarks.
    Source: AbstractFetcherThread (KIP-101, KIP-279).
    """
    for tables in (leader, follower):
        if not isinstance(tables, EpochTables):
            raise ArgumentError(f"expected EpochTables, not {type(tables).__name__}")
    if len(leader) != len(follower):
        raise TableError(f"{len(leader)} leaders for {len(follower)} followers")
    if follower.high_watermarks is None:
        raise TableError("the follower's high watermarks are missing")
    offsets__p, rounds__p = np.empty(len(leader), np.int64), np.empty(len(leader), np.int32)
    truncation_rounds(*leader.columns, *follower.columns, follower.high_watermarks, offsets__p, rounds__p)
    return Truncations(offsets__p, rounds__p)


def exchange(
    leader: EpochCache, leader_end_offset: int, follower: EpochCache, follower_end_offset: int, high_watermark: int
) -> Exchange:
    """Simulate and record the rounds of one partition's exchange; does not change `follower`."""
    seen = Exchange(log_end_offset=follower_end_offset, cache=EpochCache(follower.entries))
    fetch_offset = high_watermark
    while not (seen.truncations and seen.truncations[-1].truncation_completed):
        latest_epoch = seen.cache.latest_epoch
        if latest_epoch is None:
            state = OffsetTruncationState(fetch_offset, True)
        else:
            answer = leader.end_offset_for(latest_epoch, leader_end_offset)
            seen.requests.append((latest_epoch, answer))
            state = offset_truncation_state(answer, seen.cache, seen.log_end_offset, fetch_offset)
        seen.truncations.append(state)
        fetch_offset = state.offset
        seen.log_end_offset = min(seen.log_end_offset, state.offset)
        seen.cache.truncate_from_end(state.offset)
    return seen


def offset_truncation_state(
    answer: EpochEndOffset, follower: EpochCache, log_end_offset: int, fetch_offset: int
) -> OffsetTruncationState:
    """The follower's conclusion from the leader's answer (AbstractFetcherThread.getOffsetTruncationState)."""
    if answer.end_offset == UNDEFINED_EPOCH_OFFSET:
        # The leader has no end for this epoch: truncate to `fetch_offset`, which is the high watermark at first.
        return OffsetTruncationState(fetch_offset, True)
    own = follower.end_offset_for(answer.epoch, log_end_offset)
    if own.epoch == answer.epoch:
        return OffsetTruncationState(min(own.end_offset, answer.end_offset, log_end_offset), True)
    # The follower has no such epoch: truncate to the end of its last epoch below, and ask again (KIP-279).
    return OffsetTruncationState(min(own.end_offset, log_end_offset), False)
