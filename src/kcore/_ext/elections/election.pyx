"""Elections over the columns of a partition table: partitions that may need a leader in, changed partitions out.

Axes: `p` partition row, `s` replica slot, `i` ISR position, `r` position in the list of given partitions, `b` broker
row, `k` output column. The input has broker rows, the output broker ids; sets of slots are bit masks
(`election_brokers.pxd`). The wrapper in Python checks the given rows and allocates; tables have valid columns. KRaft's
elections are in `partition_change.pyx`.
"""

from kcore._ext.arrays cimport address_of
from kcore._ext.constants cimport RECOVERING
from kcore._ext.elections.election_brokers cimport (
    AHEAD, CALLS_FLAG, CRASHED_FLAG, HEAD_COUNT, HEAD_FAILED, HEAD_ISR_OFFSETS, LEAVES_FLAG, MAY_LEAD_FLAG,
    NO_DIRECTORIES_FLAG, NOBODY_FLAG, STAYS_FLAG, Heads, copy_isr, first_slot, flags_of, heads_of, id_of, prefetch, put,
    put_failure, slots_in_sync,
)
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

MAY_LEAD = MAY_LEAD_FLAG  # The broker can be elected.
STAYS = STAYS_FLAG  # The broker remains in the ISR of a partition that elects a leader.
CALLS = CALLS_FLAG  # Partitions that the broker leads need an election; in entry 0: partitions without a leader do.
LEAVES = LEAVES_FLAG  # The broker is removed from every ISR.
CRASHED = CRASHED_FLAG  # KRaft: the broker is also removed from every ELR, because it may have lost records.
NO_DIRECTORIES = NO_DIRECTORIES_FLAG  # KRaft: the broker reported no directories, so its directories count as online.

ISR_OFFSETS = HEAD_ISR_OFFSETS
FAILED = HEAD_FAILED
HEADS = HEAD_COUNT

cdef struct Columns:
    const int16_t* replicas
    const int16_t* isr
    const int16_t* leader
    const int32_t* leader_epoch
    const int32_t* partition_epoch
    const int8_t* recovery
    const int64_t* brokers
    Py_ssize_t slots
    Py_ssize_t members

cdef struct ZooKeeperRule:
    uint32_t electable
    bint shrinks_failed
    bint spares_live_isr
    bint marks_recovery
    bint has_choices


cdef inline uint32_t slots_that_may_lead(const Columns* c, Py_ssize_t slots, const int16_t* replicas) noexcept nogil:
    cdef uint32_t mask = 0
    cdef Py_ssize_t s
    for s in range(slots):
        mask |= (flags_of(c.brokers, replicas[s]) & MAY_LEAD_FLAG) << s
    return mask


cdef inline bint zookeeper_elects(
    const Columns* c, Py_ssize_t slots, Py_ssize_t members, const ZooKeeperRule* rule, bint unclean, int8_t choice,
    int32_t p, Heads* out
) noexcept nogil:
    """kafka.controller.Election for one partition; True if it found a leader."""
    cdef const int16_t* replicas = c.replicas + p * slots
    cdef const int16_t* isr = c.isr + p * members
    cdef int32_t* new_isr = out.isr + out.isr_end
    cdef uint32_t live = slots_that_may_lead(c, slots, replicas) & rule.electable
    cdef uint32_t clean = live & slots_in_sync(slots, members, replicas, isr)
    cdef Py_ssize_t kept = copy_isr(c.brokers, members, isr, STAYS_FLAG, STAYS_FLAG, new_isr)
    cdef uint32_t eligible = clean
    if clean == 0 and unclean and not (rule.spares_live_isr and kept > 0):
        eligible = live
    if rule.has_choices:
        eligible = live & (<uint32_t>1 << choice) if choice >= 0 else 0
        clean &= eligible
    if eligible == 0:
        return False
    cdef int16_t leader = replicas[first_slot(eligible)]
    cdef int8_t recovery = c.recovery[p]
    if clean == 0:
        new_isr[0] = id_of(c.brokers, leader)
        kept = 1
        recovery = RECOVERING if rule.marks_recovery else recovery
    put(out, p, id_of(c.brokers, leader), kept, c.leader_epoch[p] + 1, c.partition_epoch[p], recovery)
    return True


cdef inline void zookeeper_shrinks(
    const Columns* c, Py_ssize_t members, int32_t p, Heads* out
) noexcept nogil:
    """ReplicaStateMachine.removeReplicasFromIsr, called for each leaving broker of one partition by ascending id."""
    cdef const int16_t* isr = c.isr + p * members
    cdef int32_t* new_isr = out.isr + out.isr_end
    cdef int16_t leader = c.leader[p]
    cdef int32_t gone = 0, last = -1
    cdef uint32_t leaves, leader_leaves = 0
    cdef Py_ssize_t i, kept
    for i in range(members):
        leaves = (flags_of(c.brokers, isr[i]) & LEAVES_FLAG) // LEAVES_FLAG
        gone += leaves
        leader_leaves |= leaves & <uint32_t>(isr[i] == leader)
    if gone == 0:
        return
    kept = copy_isr(c.brokers, members, isr, LEAVES_FLAG, 0, new_isr)
    if kept == 0:
        # An ISR keeps its last member. If all members leave, the member with the highest id stays.
        for i in range(members):
            last = max(last, id_of(c.brokers, isr[i]))
        new_isr[0] = last
        kept = 1
    put(out, p, -1 if leader_leaves else id_of(c.brokers, leader), kept, c.leader_epoch[p] + gone, c.partition_epoch[p],
        c.recovery[p])


cdef inline Heads zookeeper_rows(
    Columns c, Py_ssize_t slots, Py_ssize_t members, ZooKeeperRule rule, const int32_t* rows, Py_ssize_t candidates,
    const uint8_t* unclean, Py_ssize_t unclean_step, const int8_t* choices, Heads out
) noexcept nogil:
    cdef Py_ssize_t r, ahead
    cdef int32_t p
    cdef int8_t choice = -1
    for r in range(candidates):
        ahead = rows[min(r + AHEAD, candidates - 1)]
        prefetch(c.replicas + ahead * slots)
        prefetch(c.isr + ahead * members)
        prefetch(c.leader + ahead)
        prefetch(c.leader_epoch + ahead)
        prefetch(c.partition_epoch + ahead)
        prefetch(c.recovery + ahead)
        p = rows[r]
        if flags_of(c.brokers, c.leader[p]) & CALLS_FLAG:
            if rule.has_choices:
                choice = choices[r]
            if zookeeper_elects(&c, slots, members, &rule, unclean[p * unclean_step], choice, p, &out):
                continue
            put_failure(&out, p)
            if not rule.shrinks_failed:
                continue
        zookeeper_shrinks(&c, members, p, &out)
    return out


cdef Columns columns_of(tuple columns, object brokers__b) except *:
    return Columns(
        <const int16_t*>address_of(columns[0]), <const int16_t*>address_of(columns[1]),
        <const int16_t*>address_of(columns[2]), <const int32_t*>address_of(columns[3]),
        <const int32_t*>address_of(columns[4]), <const int8_t*>address_of(columns[5]),
        <const int64_t*>address_of(brokers__b), columns[0].shape[1], columns[1].shape[1])


def zookeeper(
    tuple columns, brokers__b, rows__r, unclean__p, choices__r, uint32_t electable, bint shrinks_failed,
    bint spares_live_isr, bint marks_recovery, heads__kr, Py_ssize_t step, isr, recovery__r
):
    cdef Columns c = columns_of(columns, brokers__b)
    cdef Heads out = heads_of(heads__kr, step, isr, recovery__r)
    cdef bint chosen = len(choices__r) > 0
    cdef ZooKeeperRule rule = ZooKeeperRule(electable, shrinks_failed, spares_live_isr, marks_recovery, chosen)
    cdef const int32_t* rows = <const int32_t*>address_of(rows__r)
    cdef const uint8_t* unclean = <const uint8_t*>address_of(unclean__p)
    cdef const int8_t* choices = <const int8_t*>address_of(choices__r)
    cdef Py_ssize_t n = len(rows__r), unclean_step = len(unclean__p) > 1
    with nogil:
        if c.slots == 3 and c.members == 3:
            out = zookeeper_rows(c, 3, 3, rule, rows, n, unclean, unclean_step, choices, out)
        else:
            out = zookeeper_rows(c, c.slots, c.members, rule, rows, n, unclean, unclean_step, choices, out)
    return out.count, out.isr_end, out.failures


cdef inline int64_t entry_of(int64_t id, uint32_t flags) noexcept nogil:
    return id * (<int64_t>1 << 32) + flags  # Not a shift: shifting -1 is undefined in C.


def describe_brokers(
    ids__b, live__b, shutting_down__b, uint32_t flags_by_state, uint32_t flags_without_leader, leaving,
    uint32_t leaving_flags, brokers__b
):
    cdef const int32_t* ids = <const int32_t*>address_of(ids__b)
    cdef const uint8_t* live = <const uint8_t*>address_of(live__b)
    cdef const uint8_t* shutting_down = <const uint8_t*>address_of(shutting_down__b)
    cdef int64_t* brokers = <int64_t*>address_of(brokers__b)
    cdef Py_ssize_t b, count = len(ids__b)
    brokers[0] = entry_of(-1, flags_without_leader | NOBODY_FLAG)
    for b in range(count):
        brokers[b + 1] = entry_of(ids[b], flags_by_state >> 8 * (2 * shutting_down[b] + live[b]) & 0xFF)
    for b in leaving:
        brokers[b + 1] = entry_of(ids[b], leaving_flags)


def rows_that_call(
    const int16_t[:, ::1] replicas__ps, const int16_t[::1] leader__p, const int64_t[::1] brokers__b,
    int32_t[::1] rows__r
):
    cdef Py_ssize_t p, found = 0
    with nogil:
        for p in range(leader__p.shape[0]):
            if brokers__b[leader__p[p] + 1] & CALLS_FLAG:
                rows__r[found] = <int32_t>p
                found += replicas__ps[p, 0] >= 0  # A free row of the table has no replicas.
    return found


def rows_not_led_by_first(const int16_t[:, ::1] replicas__ps, const int16_t[::1] leader__p, int32_t[::1] rows__r):
    cdef Py_ssize_t p, found = 0
    with nogil:
        for p in range(leader__p.shape[0]):
            rows__r[found] = <int32_t>p
            found += leader__p[p] != replicas__ps[p, 0]
    return found


def ascends(const int32_t[::1] rows__r):
    cdef Py_ssize_t r
    cdef bint ascending = True
    with nogil:
        for r in range(1, rows__r.shape[0]):
            ascending &= rows__r[r] > rows__r[r - 1]
    return ascending
