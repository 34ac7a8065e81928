"""Shared by the election kernels: brokers with their flags, and slots as bit masks.

The input has broker rows, the output broker ids. Entry b + 1 of `brokers` holds broker b's id in its upper half and
its flags in the lower. Entry 0 stands for row -1, so that padding needs no test. Sets of slots are bit masks. No branch
depends on which replicas are live or in sync, so mixed states cost as much as uniform ones.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t

cdef extern from *:
    int first_slot "__builtin_ctz"(uint32_t slots) nogil
    void prefetch "__builtin_prefetch"(const void* address) nogil

cdef enum Flag:
    MAY_LEAD_FLAG = 1
    STAYS_FLAG = 2
    CALLS_FLAG = 4
    LEAVES_FLAG = 8
    NOBODY_FLAG = 16  # Entry 0 alone.
    CRASHED_FLAG = 32
    NO_DIRECTORIES_FLAG = 64

cdef enum Head:  # The rows of a decision's int32 columns.
    HEAD_ROWS
    HEAD_LEADERS
    HEAD_LEADER_EPOCHS
    HEAD_PARTITION_EPOCHS
    HEAD_ISR_OFFSETS
    HEAD_FAILED
    HEAD_COUNT

cdef enum:
    AHEAD = 16  # Candidates are far apart in the table: prefetch this many ahead.


cdef inline uint32_t flags_of(const int64_t* brokers, int16_t broker) noexcept nogil:
    return <uint32_t>brokers[broker + 1]


cdef inline int32_t id_of(const int64_t* brokers, int16_t broker) noexcept nogil:
    return <int32_t>(brokers[broker + 1] >> 32)


cdef inline uint32_t slots_in_sync(
    Py_ssize_t slots, Py_ssize_t members, const int16_t* replicas, const int16_t* isr
) noexcept nogil:
    cdef uint32_t mask = 0
    cdef Py_ssize_t s, i
    for s in range(slots):
        for i in range(members):
            mask |= <uint32_t>(replicas[s] == isr[i]) << s
    return mask


cdef inline Py_ssize_t copy_isr(
    const int64_t* brokers, Py_ssize_t members, const int16_t* isr, uint32_t mask, uint32_t wanted, int32_t* out
) noexcept nogil:
    """Copy the members whose flags under the mask are as wanted, in order; returns how many. May write more than it
    keeps.
    """
    cdef Py_ssize_t i, kept = 0
    for i in range(members):
        out[kept] = id_of(brokers, isr[i])
        kept += flags_of(brokers, isr[i]) & (mask | NOBODY_FLAG) == wanted
    return kept
