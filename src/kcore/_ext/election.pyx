"""Elections over the columns of a partition table: candidates in, changed partitions out.

Axes: `p` partition row, `s` replica slot, `i` ISR position, `r` candidate, `b` broker row, `k` output column.
Brokers come as rows and leave as ids: entry b + 1 of `brokers__b` holds broker b's id in its upper half and flags of
what it may do in the lower; entry 0 stands for row -1, so that padding needs no test. Sets of slots are bit masks: no
branch depends on which replicas are live or in sync, and mixed states cost what uniform ones do. The wrapper checks
candidate rows and makes room; tables promise the rest.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from kcore._ext.constants cimport RECOVERING
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef extern from *:
    int first_slot "__builtin_ctz"(uint32_t slots) nogil
    void prefetch "__builtin_prefetch"(const void* address) nogil

cdef enum:
    _MAY_LEAD = 1
    _STAYS = 2
    _CALLS = 4
    _LEAVES = 8
    _NOBODY = 16  # Entry 0 alone.

MAY_LEAD = _MAY_LEAD  # The broker can be elected.
STAYS = _STAYS  # It remains in the ISR of a partition that elects.
CALLS = _CALLS  # A partition with this leader calls an election; of entry 0: one without a leader.
LEAVES = _LEAVES  # It is taken out of every ISR.

cdef enum:
    _ROWS
    _LEADERS
    _LEADER_EPOCHS
    _PARTITION_EPOCHS
    _ISR_OFFSETS
    _FAILED
    _HEADS

ISR_OFFSETS = _ISR_OFFSETS
FAILED = _FAILED
HEADS = _HEADS

cdef enum:
    AHEAD = 16  # Candidates are far apart in the table: ask for their memory this much before it is needed.

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

cdef struct Outputs:
    int32_t* rows
    int32_t* leaders
    int32_t* isr_offsets
    int32_t* leader_epochs
    int32_t* partition_epochs
    int32_t* failed
    int32_t* isr
    int8_t* recovery
    Py_ssize_t changes
    Py_ssize_t isr_end
    Py_ssize_t failures

cdef struct ZooKeeperRule:
    uint32_t electable
    bint shrinks_failed
    bint spares_live_isr
    bint marks_recovery
    bint has_choices

cdef struct KraftRule:
    bint preferred
    bint fences
    bint marks_recovery
    bint bumps_on_shrink


cdef inline uint32_t flags_of(const Columns* c, int16_t broker) noexcept nogil:
    return <uint32_t>c.brokers[broker + 1]


cdef inline int32_t id_of(const Columns* c, int16_t broker) noexcept nogil:
    return <int32_t>(c.brokers[broker + 1] >> 32)


cdef inline uint32_t slots_that_may_lead(const Columns* c, Py_ssize_t slots, const int16_t* replicas) noexcept nogil:
    cdef uint32_t mask = 0
    cdef Py_ssize_t s
    for s in range(slots):
        mask |= (flags_of(c, replicas[s]) & _MAY_LEAD) << s
    return mask


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
    const Columns* c, Py_ssize_t members, const int16_t* isr, uint32_t mask, uint32_t wanted, int32_t* out
) noexcept nogil:
    """The members whose flags are as wanted under the mask, in order; gives how many. May write more than it keeps."""
    cdef Py_ssize_t i, kept = 0
    for i in range(members):
        out[kept] = id_of(c, isr[i])
        kept += flags_of(c, isr[i]) & (mask | _NOBODY) == wanted
    return kept


cdef inline void put(
    Outputs* out, int32_t p, int32_t leader, Py_ssize_t members, int32_t leader_epoch, int32_t partition_epoch,
    int8_t recovery
) noexcept nogil:
    out.rows[out.changes] = p
    out.leaders[out.changes] = leader
    out.leader_epochs[out.changes] = leader_epoch
    out.partition_epochs[out.changes] = partition_epoch
    out.recovery[out.changes] = recovery
    out.changes += 1
    out.isr_end += members
    out.isr_offsets[out.changes] = <int32_t>out.isr_end


cdef inline void put_failure(Outputs* out, int32_t p) noexcept nogil:
    out.failed[out.failures] = p
    out.failures += 1


cdef inline bint zookeeper_elects(
    const Columns* c, Py_ssize_t slots, Py_ssize_t members, const ZooKeeperRule* rule, bint unclean, int8_t choice,
    int32_t p, Outputs* out
) noexcept nogil:
    """kafka.controller.Election for one partition; whether it found a leader."""
    cdef const int16_t* replicas = c.replicas + p * slots
    cdef const int16_t* isr = c.isr + p * members
    cdef int32_t* new_isr = out.isr + out.isr_end
    cdef uint32_t live = slots_that_may_lead(c, slots, replicas) & rule.electable
    cdef uint32_t clean = live & slots_in_sync(slots, members, replicas, isr)
    cdef Py_ssize_t kept = copy_isr(c, members, isr, _STAYS, _STAYS, new_isr)
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
        new_isr[0] = id_of(c, leader)
        kept = 1
        recovery = RECOVERING if rule.marks_recovery else recovery
    put(out, p, id_of(c, leader), kept, c.leader_epoch[p] + 1, c.partition_epoch[p], recovery)
    return True


cdef inline void zookeeper_shrinks(
    const Columns* c, Py_ssize_t members, int32_t p, Outputs* out
) noexcept nogil:
    """ReplicaStateMachine.removeReplicasFromIsr for one partition, for each broker that leaves, by ascending id."""
    cdef const int16_t* isr = c.isr + p * members
    cdef int32_t* new_isr = out.isr + out.isr_end
    cdef int16_t leader = c.leader[p]
    cdef int32_t gone = 0, last = -1
    cdef uint32_t leaves, leader_leaves = 0
    cdef Py_ssize_t i, kept
    for i in range(members):
        leaves = (flags_of(c, isr[i]) & _LEAVES) // _LEAVES
        gone += leaves
        leader_leaves |= leaves & <uint32_t>(isr[i] == leader)
    if gone == 0:
        return
    kept = copy_isr(c, members, isr, _LEAVES, 0, new_isr)
    if kept == 0:
        # The last member stays: with all of them leaving, the one of the highest id.
        for i in range(members):
            last = max(last, id_of(c, isr[i]))
        new_isr[0] = last
        kept = 1
    put(out, p, -1 if leader_leaves else id_of(c, leader), kept, c.leader_epoch[p] + gone, c.partition_epoch[p],
        c.recovery[p])


cdef inline Outputs zookeeper_rows(
    Columns c, Py_ssize_t slots, Py_ssize_t members, ZooKeeperRule rule, const int32_t* rows, Py_ssize_t candidates,
    const uint8_t* unclean, Py_ssize_t unclean_step, const int8_t* choices, Outputs out
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
        if flags_of(&c, c.leader[p]) & _CALLS:
            if rule.has_choices:
                choice = choices[r]
            if zookeeper_elects(&c, slots, members, &rule, unclean[p * unclean_step], choice, p, &out):
                continue
            put_failure(&out, p)
            if not rule.shrinks_failed:
                continue
        zookeeper_shrinks(&c, members, p, &out)
    return out


cdef inline void kraft_partition(
    const Columns* c, Py_ssize_t slots, Py_ssize_t members, const KraftRule* rule, bint unclean, int32_t p, Outputs* out
) noexcept nogil:
    """PartitionChangeBuilder for one partition, its target the ISR without the brokers that leave."""
    cdef const int16_t* replicas = c.replicas + p * slots
    cdef const int16_t* isr = c.isr + p * members
    cdef int32_t* new_isr = out.isr + out.isr_end
    cdef int16_t leader = c.leader[p], elected = -1
    cdef uint32_t gone = 0, leader_valid = 0, live, valid
    cdef int32_t stays
    cdef bint unclean_leader = False
    cdef int64_t broker
    cdef Py_ssize_t i, kept = 0
    for i in range(members):  # One pass, also for the ISR that stays: a second one costs a nanosecond.
        broker = c.brokers[isr[i] + 1]
        gone |= <uint32_t>broker & _LEAVES
        leader_valid |= <uint32_t>broker & _MAY_LEAD & <uint32_t>(isr[i] == leader)
        new_isr[kept] = <int32_t>(broker >> 32)
        kept += <uint32_t>broker & (_LEAVES | _NOBODY) == 0
    if rule.fences and gone == 0:
        return  # Kafka looks at the fenced broker's ISRs only.
    live = slots_that_may_lead(c, slots, replicas)
    valid = live & slots_in_sync(slots, members, replicas, isr)
    if valid:  # Nearly always. Who leads is as good as random: the leader is chosen by a mask, not by a jump.
        stays = -<int32_t>(leader_valid & ~(<uint32_t>rule.preferred & valid))
        elected = <int16_t>((leader & stays) | (replicas[first_slot(valid)] & ~stays))
    elif leader_valid:
        elected = leader
    elif unclean and live:
        elected = replicas[first_slot(live)]
        unclean_leader = elected != leader
    if elected < 0:
        put_failure(out, p)
    cdef bint shrinks = (gone != 0) & (kept > 0)
    cdef bint moves = elected != leader
    if not shrinks and not moves:
        return
    cdef bint bump = moves | rule.bumps_on_shrink
    cdef int8_t recovery = c.recovery[p]
    if unclean_leader:
        new_isr[0] = id_of(c, elected)
        kept = 1
        recovery = RECOVERING if rule.marks_recovery else recovery
    elif kept == 0:
        kept = copy_isr(c, members, isr, 0, 0, new_isr)  # An empty target leaves the ISR as it was.
    put(out, p, id_of(c, elected), kept, c.leader_epoch[p] + bump, c.partition_epoch[p] + 1, recovery)


cdef inline Outputs kraft_rows(
    Columns c, Py_ssize_t slots, Py_ssize_t members, KraftRule rule, const int32_t* rows, Py_ssize_t candidates,
    const uint8_t* unclean, Py_ssize_t unclean_step, Outputs out
) noexcept nogil:
    cdef Py_ssize_t r, ahead
    for r in range(candidates):
        ahead = rows[min(r + AHEAD, candidates - 1)]
        prefetch(c.replicas + ahead * slots)
        prefetch(c.isr + ahead * members)
        prefetch(c.leader + ahead)
        prefetch(c.leader_epoch + ahead)
        prefetch(c.partition_epoch + ahead)
        prefetch(c.recovery + ahead)
        kraft_partition(&c, slots, members, &rule, unclean[rows[r] * unclean_step], rows[r], &out)
    return out


cdef void* address_of(object array) except NULL:
    """Where a contiguous array begins; the caller keeps it alive. A sixth of the price of a memory view."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    PyBuffer_Release(&view)
    return view.buf


cdef Columns columns_of(tuple columns, object brokers__b) except *:
    return Columns(
        <const int16_t*>address_of(columns[0]), <const int16_t*>address_of(columns[1]),
        <const int16_t*>address_of(columns[2]), <const int32_t*>address_of(columns[3]),
        <const int32_t*>address_of(columns[4]), <const int8_t*>address_of(columns[5]),
        <const int64_t*>address_of(brokers__b), columns[0].shape[1], columns[1].shape[1])


cdef Outputs outputs_of(object heads__kr, Py_ssize_t step, object isr, object recovery__r) except *:
    cdef int32_t* first = <int32_t*>address_of(heads__kr)
    first[_ISR_OFFSETS * step] = 0
    return Outputs(first, first + _LEADERS * step, first + _ISR_OFFSETS * step, first + _LEADER_EPOCHS * step,
                   first + _PARTITION_EPOCHS * step, first + _FAILED * step, <int32_t*>address_of(isr),
                   <int8_t*>address_of(recovery__r), 0, 0, 0)


def zookeeper(
    tuple columns, brokers__b, rows__r, unclean__p, choices__r, uint32_t electable, bint shrinks_failed,
    bint spares_live_isr, bint marks_recovery, heads__kr, Py_ssize_t step, isr, recovery__r
):
    cdef Columns c = columns_of(columns, brokers__b)
    cdef Outputs out = outputs_of(heads__kr, step, isr, recovery__r)
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
    return out.changes, out.isr_end, out.failures


def kraft(
    tuple columns, brokers__b, rows__r, unclean__p, bint preferred, bint fences, bint marks_recovery,
    bint bumps_on_shrink, heads__kr, Py_ssize_t step, isr, recovery__r
):
    cdef Columns c = columns_of(columns, brokers__b)
    cdef Outputs out = outputs_of(heads__kr, step, isr, recovery__r)
    cdef KraftRule rule = KraftRule(preferred, fences, marks_recovery, bumps_on_shrink)
    cdef const int32_t* rows = <const int32_t*>address_of(rows__r)
    cdef const uint8_t* unclean = <const uint8_t*>address_of(unclean__p)
    cdef Py_ssize_t n = len(rows__r), unclean_step = len(unclean__p) > 1
    with nogil:
        if c.slots == 3 and c.members == 3:
            out = kraft_rows(c, 3, 3, rule, rows, n, unclean, unclean_step, out)
        else:
            out = kraft_rows(c, c.slots, c.members, rule, rows, n, unclean, unclean_step, out)
    return out.changes, out.isr_end, out.failures


cdef inline int64_t entry_of(int64_t id, uint32_t flags) noexcept nogil:
    return id * (<int64_t>1 << 32) + flags  # Not a shift: C leaves that of -1 undefined.


def describe_brokers(
    ids__b, live__b, shutting_down__b, uint32_t flags_by_state, uint32_t flags_without_leader, leaving,
    uint32_t leaving_flags, brokers__b
):
    cdef const int32_t* ids = <const int32_t*>address_of(ids__b)
    cdef const uint8_t* live = <const uint8_t*>address_of(live__b)
    cdef const uint8_t* shutting_down = <const uint8_t*>address_of(shutting_down__b)
    cdef int64_t* brokers = <int64_t*>address_of(brokers__b)
    cdef Py_ssize_t b, count = len(ids__b)
    brokers[0] = entry_of(-1, flags_without_leader | _NOBODY)
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
            if brokers__b[leader__p[p] + 1] & _CALLS:
                rows__r[found] = <int32_t>p
                found += replicas__ps[p, 0] >= 0  # A free row of the table has none.
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
