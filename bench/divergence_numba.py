"""Numba versions of the kernels of `kcore._ext.raft.divergence`, for comparison: same columns, same answers.

Row r's epochs are `epochs[rows[r]:rows[r + 1]]`, ascending, and so are their `starts`.
"""

from typing import Any

import numpy as np
from numba import njit, types

from kcore.constants import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET

_WINDOW, _BLOCK = 64, 32


def _column(scalar: Any, readonly: bool = True) -> Any:
    return types.Array(scalar, 1, "C", readonly=readonly)


_int32s, _int64s = _column(types.int32), _column(types.int64)
_int32s_out, _int64s_out = _column(types.int32, readonly=False), _column(types.int64, readonly=False)
_table = (_int32s, _int64s, _int64s, _int64s)  # epochs, starts, rows, log ends


@njit(inline="always")
def _first_above(epochs, lo, hi, epoch):  # type: ignore[no-untyped-def]
    """The index of the first of `epochs[lo:hi]` above `epoch`, or hi."""
    while hi - lo > _WINDOW:
        middle = (lo + hi) >> 1
        if epochs[middle] <= epoch:
            lo = middle + 1
        else:
            hi = middle
    window = epochs[lo:hi]
    below = np.int32(0)
    for i in range(window.size):
        below = np.int32(below + np.int32(window[i] <= epoch))
    return lo + below


@njit(inline="always")
def _end_offset(epochs, starts, lo, hi, log_end, requested, above):  # type: ignore[no-untyped-def]
    """LeaderEpochFileCache.endOffsetFor over one row, given the first index above."""
    if requested == UNDEFINED_EPOCH:
        return np.int32(UNDEFINED_EPOCH), np.int64(UNDEFINED_EPOCH_OFFSET)
    if above < hi:
        return requested if above == lo else epochs[above - 1], starts[above]
    if hi > lo and epochs[hi - 1] == requested:
        return requested, log_end
    return np.int32(UNDEFINED_EPOCH), np.int64(UNDEFINED_EPOCH_OFFSET)


@njit([types.void(*_table, _int32s, _int32s_out, _int64s_out)], cache=True, nogil=True, error_model="numpy")
def end_offsets(epochs, starts, rows, log_ends, requested__p, epochs__p, end_offsets__p):  # type: ignore[no-untyped-def]
    """Answer one requested epoch a row."""
    for block in range(0, requested__p.size, _BLOCK):
        block_end = min(block + _BLOCK, requested__p.size)
        for p in range(block, block_end):
            end_offsets__p[p] = _first_above(epochs, rows[p], rows[p + 1], requested__p[p])
        for p in range(block, block_end):
            epochs__p[p], end_offsets__p[p] = _end_offset(
                epochs, starts, rows[p], rows[p + 1], log_ends[p], requested__p[p], end_offsets__p[p]
            )


@njit(inline="always")
def _truncation(epochs, starts, lo, hi, log_end, answered_epoch, answered_end):  # type: ignore[no-untyped-def]
    """AbstractFetcherThread.getOffsetTruncationState for a defined answer: (offset, completed, end of the row then)."""
    epoch, end = _end_offset(
        epochs, starts, lo, hi, log_end, answered_epoch, _first_above(epochs, lo, hi, answered_epoch)
    )
    if epoch == answered_epoch:
        return min(end, answered_end, log_end), True, hi
    offset = min(end, log_end)
    while hi > lo and starts[hi - 1] >= offset:
        hi -= 1
    return offset, False, hi


@njit([types.void(*_table, *_table, _int64s, _int64s_out, _int32s_out)], cache=True, nogil=True, error_model="numpy")
def truncation_rounds(  # type: ignore[no-untyped-def]
    epochs, starts, rows, log_ends,
    follower_epochs, follower_starts, follower_rows, follower_log_ends, high_watermarks__p,
    offsets__p, rounds__p,
):  # fmt: skip
    """Run every partition's exchange to its end: where the follower truncates to, after how many rounds."""
    for p in range(offsets__p.size):
        lo, hi = follower_rows[p], follower_rows[p + 1]
        log_end, offset, rounds, completed = follower_log_ends[p], high_watermarks__p[p], 0, False
        while not completed:
            rounds += 1
            completed = True
            if hi > lo:  # A follower without epochs keeps to its high watermark.
                latest = follower_epochs[hi - 1]
                above = _first_above(epochs, rows[p], rows[p + 1], latest)
                epoch, end = _end_offset(epochs, starts, rows[p], rows[p + 1], log_ends[p], latest, above)
                if end != UNDEFINED_EPOCH_OFFSET:  # So does one whose epochs the leader does not know.
                    offset, completed, hi = _truncation(follower_epochs, follower_starts, lo, hi, log_end, epoch, end)
                    log_end = min(log_end, offset)
        offsets__p[p], rounds__p[p] = offset, rounds
