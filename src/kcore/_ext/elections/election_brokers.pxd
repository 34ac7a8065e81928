"""Shared by the election kernels: brokers with their flags, and slots as bit masks.

The input has broker rows, the output broker ids. Entry b + 1 of `brokers` holds the id of the broker in row b in its
upper half and the broker's flags in its lower half. Entry 0 stands for row -1, so that padding needs no test. Sets of
slots are bit masks. No branch depends on which replicas are live or in sync, so mixed states cost no more.
"""

from kcore._ext.arrays cimport address_of
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t

cdef extern from *:
    int first_slot "__builtin_ctz"(uint32_t slots) nogil
    void prefetch "__builtin_prefetch"(const void* address) nogil

cdef enum Flag:
    MAY_LEAD_FLAG = 1
    STAYS_FLAG = 2
    CALLS_FLAG = 4
    LEAVES_FLAG = 8
    NOBODY_FLAG = 16  # Only entry 0 has this flag: no broker.
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

cdef struct Heads:  # The columns of a decision, and how many entries are filled.
    int32_t* rows
    int32_t* leaders
    int32_t* isr_offsets
    int32_t* leader_epochs
    int32_t* partition_epochs
    int32_t* failed
    int32_t* isr
    int8_t* recovery
    Py_ssize_t count
    Py_ssize_t isr_end
    Py_ssize_t failures

cdef enum:
    AHEAD = 16  # Candidates are far apart in the table: prefetch the rows of the candidate that is this many ahead.


cdef inline Heads heads_of(object heads__kr, Py_ssize_t step, object isr, object recovery__r) except *:
    cdef int32_t* first = <int32_t*>address_of(heads__kr)
    first[HEAD_ISR_OFFSETS * step] = 0
    return Heads(first, first + HEAD_LEADERS * step, first + HEAD_ISR_OFFSETS * step, first + HEAD_LEADER_EPOCHS * step,
                 first + HEAD_PARTITION_EPOCHS * step, first + HEAD_FAILED * step, <int32_t*>address_of(isr),
                 <int8_t*>address_of(recovery__r), 0, 0, 0)


cdef inline void put(
    Heads* out, int32_t p, int32_t leader, Py_ssize_t members, int32_t leader_epoch, int32_t partition_epoch,
    int8_t recovery
) noexcept nogil:
    out.rows[out.count] = p
    out.leaders[out.count] = leader
    out.leader_epochs[out.count] = leader_epoch
    out.partition_epochs[out.count] = partition_epoch
    out.recovery[out.count] = recovery
    out.count += 1
    out.isr_end += members
    out.isr_offsets[out.count] = <int32_t>out.isr_end


cdef inline void put_failure(Heads* out, int32_t p) noexcept nogil:
    out.failed[out.failures] = p
    out.failures += 1


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
    """Copy the ids of members whose flags under the mask equal `wanted`, in order; returns their number.

    May write one entry after the last copied id.
    """
    cdef Py_ssize_t i, kept = 0
    for i in range(members):
        out[kept] = id_of(brokers, isr[i])
        kept += flags_of(brokers, isr[i]) & (mask | NOBODY_FLAG) == wanted
    return kept
