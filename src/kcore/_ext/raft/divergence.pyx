"""Kernels of log divergence for many partitions: the end offsets of epochs, and the rounds of truncation (KIP-279).

`epochs[rows[p]:rows[p + 1]]` are the epochs of partition p, ascending; `starts` has the start offset of each epoch,
ascending, too. Callers check the shapes.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    UNDEFINED = -1    # UNDEFINED_EPOCH and UNDEFINED_EPOCH_OFFSET
    WINDOW = 64       # Epochs that are compared one by one, which costs less than branch misses of a binary search.
    BLOCK = 32        # Partitions whose searches run before the first answer, so that their cache misses overlap.


cdef inline Py_ssize_t first_above(
    const int32_t[::1] epochs, Py_ssize_t lo, Py_ssize_t hi, int32_t epoch
) noexcept nogil:
    """The index of the first epoch in `epochs[lo:hi]` that is above `epoch`; hi if there is none."""
    cdef Py_ssize_t middle, i
    cdef int32_t below = 0
    while hi - lo > WINDOW:
        middle = (lo + hi) >> 1
        if epochs[middle] <= epoch:
            lo = middle + 1
        else:
            hi = middle
    for i in range(lo, hi):
        below += epochs[i] <= epoch
    return lo + below


cdef inline int64_t end_offset(
    const int32_t[::1] epochs,
    const int64_t[::1] starts,
    Py_ssize_t lo,
    Py_ssize_t hi,
    int64_t log_end,
    int32_t requested,
    Py_ssize_t above,
    int32_t *epoch,
) noexcept nogil:
    """LeaderEpochFileCache.endOffsetFor for one partition: returns the end offset and sets `epoch`. `above`: the index
    of the first epoch above `requested`.
    """
    epoch[0] = requested
    if requested != UNDEFINED:
        if above < hi:
            if above > lo:
                epoch[0] = epochs[above - 1]
            return starts[above]
        if hi > lo and epochs[hi - 1] == requested:
            return log_end
    epoch[0] = UNDEFINED
    return UNDEFINED


def end_offsets(
    const int32_t[::1] epochs,
    const int64_t[::1] starts,
    const int64_t[::1] rows,
    const int64_t[::1] log_ends__p,
    const int32_t[::1] requested__p,
    int32_t[::1] epochs__p,
    int64_t[::1] end_offsets__p,
):
    """Set, for each partition, the largest epoch up to its requested epoch, and the end offset of that epoch."""
    cdef Py_ssize_t p, block, block_end, partitions = requested__p.shape[0]
    with nogil:
        for block in range((partitions + BLOCK - 1) // BLOCK):
            block_end = min((block + 1) * BLOCK, partitions)
            for p in range(block * BLOCK, block_end):
                end_offsets__p[p] = first_above(epochs, rows[p], rows[p + 1], requested__p[p])
            for p in range(block * BLOCK, block_end):
                end_offsets__p[p] = end_offset(
                    epochs, starts, rows[p], rows[p + 1], log_ends__p[p], requested__p[p],
                    <Py_ssize_t> end_offsets__p[p], &epochs__p[p],
                )


def truncation_rounds(
    const int32_t[::1] epochs,
    const int64_t[::1] starts,
    const int64_t[::1] rows,
    const int64_t[::1] log_ends__p,
    const int32_t[::1] follower_epochs,
    const int64_t[::1] follower_starts,
    const int64_t[::1] follower_rows,
    const int64_t[::1] follower_log_ends__p,
    const int64_t[::1] high_watermarks__p,
    int64_t[::1] offsets__p,
    int32_t[::1] rounds__p,
):
    """Set, for each partition, the offset to which the follower truncates, and the number of requests it needs."""
    cdef Py_ssize_t p, lo, hi
    cdef int64_t log_end, offset, end, own_end
    cdef int32_t rounds, latest, epoch, own_epoch
    with nogil:
        for p in range(offsets__p.shape[0]):
            lo, hi = follower_rows[p], follower_rows[p + 1]
            log_end, offset, rounds = follower_log_ends__p[p], high_watermarks__p[p], 1
            # Every round removes at least the follower's latest epoch, so the rounds end.
            while hi > lo:
                latest = follower_epochs[hi - 1]
                end = end_offset(
                    epochs, starts, rows[p], rows[p + 1], log_ends__p[p], latest,
                    first_above(epochs, rows[p], rows[p + 1], latest), &epoch,
                )
                if end == UNDEFINED:
                    break  # The leader has no answer, so the follower truncates to the high watermark.
                own_end = end_offset(
                    follower_epochs, follower_starts, lo, hi, log_end, epoch,
                    first_above(follower_epochs, lo, hi, epoch), &own_epoch,
                )
                offset = min(own_end, log_end)
                if own_epoch == epoch:
                    offset = min(offset, end)
                    break
                # The follower lacks this epoch: it truncates to the end of its largest smaller epoch, and asks again.
                log_end = offset
                while hi > lo and follower_starts[hi - 1] >= offset:
                    hi -= 1
                rounds += 1
            offsets__p[p], rounds__p[p] = offset, rounds
