"""KRaft's changes of partitions: candidates and targets in, PartitionChangeRecords as columns out.

Axes: `p` partition row, `s` replica slot, `i` ISR position, `r` candidate, `b` broker row, `d` directory row, `k`
output column. The input has broker rows, the output broker ids; sets of slots are bit masks (`election_brokers.pxd`).
This file decides, in one pass over the ISR, partitions without targets, reassignment and eligible leader replicas,
before and after the change. `change_builder.pxd` decides all others. The wrapper checks candidates and targets, and
allocates.
"""

from kcore._ext.arrays cimport address_of
from kcore._ext.elections.change_builder cimport change_partition, configured_min_isr, is_online
from kcore._ext.tables.change_columns cimport (
    ISR, LEADER, NOBODY, PREFERRED, SPARSE_LISTS, By, Changes, Election, List, Lists, Rule, Table, Targets, put_change,
)
from kcore._ext.constants cimport MAX_REPLICAS
from kcore._ext.elections.election_brokers cimport (
    AHEAD, LEAVES_FLAG, MAY_LEAD_FLAG, NOBODY_FLAG, first_slot, flags_of, heads_of, id_of, prefetch, slots_in_sync,
)
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

cdef enum Feature:
    _LEAVING_ISR_ONLY = 1
    _ELR_ENABLED = 2
    _LAST_KNOWN_LEADER = 4
    _MARKS_RECOVERY = 8
    _BUMPS_ON_SHRINK = 16
    _DIRECTORIES = 32
    _DEAD_LAST_KNOWN_LEADER = 64
    _REMEMBERS_ON_EMPTY_ISR = 128
    _AWAITS_ALL_REPLICAS = 256
    _LEAVING_ONLY = 512

LEAVING_ISR_ONLY = _LEAVING_ISR_ONLY  # Change only partitions that lose an ISR member.
LEAVING_ONLY = _LEAVING_ONLY  # Change only partitions that lose an ISR or ELR member.
ELR_ENABLED = _ELR_ENABLED
LAST_KNOWN_LEADER = _LAST_KNOWN_LEADER
MARKS_RECOVERY = _MARKS_RECOVERY
BUMPS_ON_SHRINK = _BUMPS_ON_SHRINK
HAS_DIRECTORIES = _DIRECTORIES
DEAD_LAST_KNOWN_LEADER = _DEAD_LAST_KNOWN_LEADER
REMEMBERS_ON_EMPTY_ISR = _REMEMBERS_ON_EMPTY_ISR
AWAITS_ALL_REPLICAS = _AWAITS_ALL_REPLICAS

LISTS = SPARSE_LISTS


cdef enum:
    BLOCK = 4096  # Rows that are searched together first, because nearly all blocks have no match.


cdef inline bint has_entry(const int16_t* entries, Py_ssize_t count, int16_t wanted) noexcept nogil:
    """True if an entry equals `wanted`. The loop has no branch, so that the compiler vectorizes it."""
    cdef Py_ssize_t k
    cdef int16_t found = 0
    for k in range(count):
        found |= entries[k] == wanted
    return found != 0


cdef inline bint is_empty(const Lists* lists, Py_ssize_t p, Py_ssize_t r) noexcept nogil:
    if lists.members == NULL or lists.width == 0:
        return True
    return lists.members[(r if lists.by_candidate else p) * lists.width] == NOBODY


cdef inline bint is_plain(const Table* t, Py_ssize_t p, Py_ssize_t r) noexcept nogil:
    return (
        is_empty(&t.elr, p, r) & is_empty(&t.last_known, p, r) & is_empty(&t.removing, p, r) & is_empty(&t.adding, p, r)
    )


cdef inline bint change_plainly(
    const Table* t, Py_ssize_t slots, Py_ssize_t members, bint with_directories, const Rule* rule, int32_t p,
    Changes* out
) noexcept nogil:
    """PartitionChangeBuilder for a partition that needs neither targets nor an ELR; writes any change to `out`.

    Returns False and writes nothing if no ISR member can lead, or if ELRs are enabled and the ISR falls below
    min.insync.replicas. Then the partition needs all steps of the builder.
    """
    cdef const int16_t* replicas = t.replicas + p * slots
    cdef const int16_t* isr = t.isr + p * members
    cdef int32_t* new_isr = out.heads.isr + out.heads.isr_end
    cdef int16_t leader = t.leader[p], elected
    cdef uint32_t gone = 0, leader_valid = 0, live = 0, valid
    cdef int32_t stays
    cdef bint may_lead
    cdef int64_t broker
    cdef Py_ssize_t i, s, kept = 0
    for i in range(members):  # Copies the ISR even if it stays the same, because a second pass costs a nanosecond.
        broker = t.brokers[isr[i] + 1]
        gone |= <uint32_t>broker & LEAVES_FLAG
        leader_valid |= <uint32_t>broker & MAY_LEAD_FLAG & <uint32_t>(isr[i] == leader)
        new_isr[kept] = <int32_t>(broker >> 32)
        kept += <uint32_t>broker & (LEAVES_FLAG | NOBODY_FLAG) == 0
    if rule.leaving_only and gone == 0:
        return True  # Kafka checks only partitions whose ISR has a broker that leaves.
    for s in range(slots):
        may_lead = flags_of(t.brokers, replicas[s]) & MAY_LEAD_FLAG
        if with_directories:
            may_lead &= is_online(t, replicas[s], t.directories[p * slots + s])
            leader_valid &= <uint32_t>(replicas[s] != leader) | may_lead
        live |= <uint32_t>may_lead << s
    valid = live & slots_in_sync(slots, members, replicas, isr)
    if valid == 0 or (rule.elr_enabled and kept < configured_min_isr(t, rule, p)):
        return False
    # The leader is unpredictable, so a mask chooses it instead of a branch.
    stays = -<int32_t>(leader_valid & ~((rule.election == PREFERRED) & valid))
    elected = <int16_t>((leader & stays) | (replicas[first_slot(valid)] & ~stays))
    cdef bint shrinks = gone != 0, moves = elected != leader
    cdef bint bump = moves | rule.bumps_on_shrink
    if shrinks | moves:
        put_change(out, p, id_of(t.brokers, elected), kept, t.leader_epoch[p] + bump, t.partition_epoch[p] + 1,
                   t.recovery[p], bump * LEADER | shrinks * ISR)
    return True


cdef inline Changes change_plain_rows(
    Table t, Py_ssize_t slots, Py_ssize_t members, bint with_directories, Rule rule, bint has_lists,
    const int32_t* rows, Py_ssize_t candidates, Changes out
) noexcept nogil:
    """Decide the candidates from `out.at` on, up to the first one that needs all steps of the builder.

    Structs are passed by value, so that the compiler keeps their fields in registers.
    """
    cdef Py_ssize_t r, ahead
    cdef int32_t p
    for r in range(out.at, candidates):
        ahead = rows[min(r + AHEAD, candidates - 1)]
        prefetch(t.replicas + ahead * slots)
        prefetch(t.isr + ahead * members)
        prefetch(t.leader + ahead)
        prefetch(t.leader_epoch + ahead)
        prefetch(t.partition_epoch + ahead)
        prefetch(t.recovery + ahead)
        if with_directories:
            prefetch(t.directories + ahead * slots)
        p = rows[r]
        if has_lists and not is_plain(&t, p, r):
            out.at = r
            return out
        if not change_plainly(&t, slots, members, with_directories, &rule, p, &out):
            out.at = r
            return out
    out.at = candidates
    return out


cdef Changes change_three(
    Table t, Rule rule, bint has_lists, const int32_t* rows, Py_ssize_t n, Changes out
) noexcept nogil:
    """Partitions of three replicas: the compiler unrolls loops of a known length."""
    return change_plain_rows(t, 3, 3, False, rule, has_lists, rows, n, out)


cdef Changes change_three_in_directories(
    Table t, Rule rule, bint has_lists, const int32_t* rows, Py_ssize_t n, Changes out
) noexcept nogil:
    return change_plain_rows(t, 3, 3, True, rule, has_lists, rows, n, out)


cdef Changes change_any(
    Table t, Rule rule, bint has_lists, const int32_t* rows, Py_ssize_t n, Changes out
) noexcept nogil:
    return change_plain_rows(t, t.slots, t.members, t.directories != NULL, rule, has_lists, rows, n, out)


cdef Changes change_rows(
    const Table* t, const Rule* rule, const Targets* targets, bint has_lists, bint has_targets, const int32_t* rows,
    Py_ssize_t n, Changes out
) noexcept nogil:
    cdef bint three = t.slots == 3 and t.members == 3
    while out.at < n:
        if has_targets:
            pass
        elif not three:
            out = change_any(t[0], rule[0], has_lists, rows, n, out)
        elif t.directories == NULL:
            out = change_three(t[0], rule[0], has_lists, rows, n, out)
        else:
            out = change_three_in_directories(t[0], rule[0], has_lists, rows, n, out)
        if out.at < n:
            change_partition(t, rule, targets, rows[out.at], out.at, &out)
            out.at += 1
    return out


cdef const void* address_or_null(object array) except? NULL:
    return NULL if array is None else address_of(array)


cdef Lists lists_of(object lists, bint by_candidate) except *:
    if lists is None:
        return Lists(NULL, 0, by_candidate)
    return Lists(<const int16_t*>address_of(lists), lists.shape[1], by_candidate)


cdef Table table_of(tuple columns, tuple lists, object brokers__b) except *:
    cdef Table t
    (replicas, isr, leader, leader_epoch, partition_epoch, recovery, topic, directories, owners) = columns
    (elr, last_known, removing, adding, moves_by_candidate) = lists
    t.replicas, t.isr = <const int16_t*>address_of(replicas), <const int16_t*>address_of(isr)
    t.leader = <const int16_t*>address_of(leader)
    t.leader_epoch = <const int32_t*>address_of(leader_epoch)
    t.partition_epoch = <const int32_t*>address_of(partition_epoch)
    t.recovery = <const int8_t*>address_of(recovery)
    t.topic = <const int32_t*>address_of(topic)
    t.directories = <const int32_t*>address_or_null(directories)
    t.owner_of_directory = <const int16_t*>address_or_null(owners)
    t.brokers = <const int64_t*>address_of(brokers__b)
    t.slots, t.members = replicas.shape[1], isr.shape[1]
    t.elr, t.last_known = lists_of(elr, False), lists_of(last_known, False)
    t.removing, t.adding = lists_of(removing, moves_by_candidate), lists_of(adding, moves_by_candidate)
    return t


cdef Rule rule_of(tuple rule) except *:
    cdef Rule found
    cdef int features
    (election, unclean, unclean_by, min_isr, min_isr_by, first_row, has_first, features) = rule
    found.election = <Election><int>election
    found.unclean, found.unclean_by = <const uint8_t*>address_of(unclean), <By><int>unclean_by
    found.min_isr, found.min_isr_by = <const int32_t*>address_of(min_isr), <By><int>min_isr_by
    found.first_row = <const int32_t*>address_of(first_row)
    found.has_first = <const int32_t*>address_of(has_first)
    found.leaving_only = features & (_LEAVING_ISR_ONLY | _LEAVING_ONLY)
    found.leaving_elr_counts = features & _LEAVING_ONLY
    found.elr_enabled = features & _ELR_ENABLED
    found.uses_last_known_leader = features & _LAST_KNOWN_LEADER
    found.marks_recovery = features & _MARKS_RECOVERY
    found.bumps_on_shrink = features & _BUMPS_ON_SHRINK != 0
    found.has_directories = features & _DIRECTORIES
    found.elects_dead_last_known = features & _DEAD_LAST_KNOWN_LEADER
    found.remembers_on_empty_isr = features & _REMEMBERS_ON_EMPTY_ISR
    found.awaits_all_replicas = features & _AWAITS_ALL_REPLICAS
    return found


cdef Targets targets_of(object targets) except *:
    cdef Targets found
    if targets is None:
        targets = (None, None, None, None, None, None, NOBODY, None)
    (isr, replicas, removing, adding, recovery, directory, directory_broker, default_directory) = targets
    found.isr, found.replicas = lists_of(isr, True), lists_of(replicas, True)
    found.removing, found.adding = lists_of(removing, True), lists_of(adding, True)
    found.recovery = <const int8_t*>address_or_null(recovery)
    found.directory = <const int32_t*>address_or_null(directory)
    found.directory_broker = directory_broker
    found.default_directory = <const int32_t*>address_or_null(default_directory)
    return found


cdef Changes changes_of(object heads__kr, Py_ssize_t step, object isr, object recovery__r, object fields__r) except *:
    cdef Changes out
    out.heads = heads_of(heads__kr, step, isr, recovery__r)
    out.fields = <uint16_t*>address_of(fields__r)
    out.at = 0
    return out


cdef void set_lists(List* lists, int32_t* first, Py_ssize_t candidates, Py_ssize_t room) noexcept:
    """Point each list at its places, offsets and values; list k begins at `first + k * room`."""
    cdef Py_ssize_t k
    for k in range(SPARSE_LISTS):
        lists[k].places = first + k * room
        lists[k].offsets = lists[k].places + candidates
        lists[k].values = lists[k].offsets + candidates + 1
        lists[k].count = lists[k].offsets[0] = 0


def decide(
    tuple columns, tuple lists, tuple rule, targets, brokers__b, rows__r, heads__kr, Py_ssize_t step, isr, recovery__r,
    fields__r, sparse__kl
):
    cdef Table t = table_of(columns, lists, brokers__b)
    cdef Rule how = rule_of(rule)
    cdef Targets to = targets_of(targets)
    cdef Changes out = changes_of(heads__kr, step, isr, recovery__r, fields__r)
    cdef const int32_t* rows = <const int32_t*>address_of(rows__r)
    cdef Py_ssize_t n = len(rows__r)
    cdef bint has_targets = targets is not None
    cdef bint has_lists = t.elr.members != NULL or t.last_known.members != NULL
    has_lists = has_lists or t.removing.members != NULL or t.adding.members != NULL
    cdef List sparse[SPARSE_LISTS]
    cdef int32_t no_list[MAX_REPLICAS + 3]  # Used without `sparse__kl`: no list changes, but directories are compared.
    out.lists = sparse
    if sparse__kl is None:
        set_lists(sparse, no_list, 1, 0)
    else:
        set_lists(sparse, <int32_t*>address_of(sparse__kl), n, sparse__kl.shape[1])
    with nogil:
        out = change_rows(&t, &how, &to, has_lists, has_targets, rows, n, out)
    cdef Py_ssize_t k
    sizes = []
    if sparse__kl is not None:
        for k in range(SPARSE_LISTS):
            sizes.append((sparse[k].count, sparse[k].offsets[sparse[k].count]))
    return out.heads.count, out.heads.isr_end, out.heads.failures, sizes


def rows_without_active_leader(
    const int16_t[:, ::1] replicas__ps, const int16_t[::1] leader__p, directories__ps, owner__d,
    const int64_t[::1] brokers__b, int32_t[::1] rows__r
):
    cdef Table t
    cdef Py_ssize_t p, s, found = 0, slots = replicas__ps.shape[1]
    cdef bint active
    t.brokers = &brokers__b[0]
    t.directories = <const int32_t*>address_or_null(directories__ps)
    t.owner_of_directory = <const int16_t*>address_or_null(owner__d)
    with nogil:
        for p in range(leader__p.shape[0]):
            active = flags_of(t.brokers, leader__p[p]) & MAY_LEAD_FLAG
            if active and t.directories != NULL:
                for s in range(slots):
                    if replicas__ps[p, s] == leader__p[p]:
                        active = is_online(&t, leader__p[p], t.directories[p * slots + s])
            if not active:
                rows__r[found] = <int32_t>p
                found += replicas__ps[p, 0] != NOBODY  # A free row of the table has no replicas.
    return found


def leaderless_rows(const int16_t[:, ::1] replicas__ps, const int16_t[::1] leader__p, int32_t[::1] rows__r):
    cdef Py_ssize_t p, block, begin, end, count = leader__p.shape[0], found = 0
    with nogil:
        for block in range((count + BLOCK - 1) // BLOCK):
            begin, end = block * BLOCK, min((block + 1) * BLOCK, count)
            if not has_entry(&leader__p[begin], end - begin, NOBODY):
                continue
            for p in range(begin, end):
                if leader__p[p] == NOBODY:
                    rows__r[found] = <int32_t>p
                    found += replicas__ps[p, 0] != NOBODY  # A free row of the table has no replicas.
    return found


def rows_with_member(const int16_t[:, ::1] lists__pi, int16_t broker_row, int32_t[::1] rows__r):
    cdef Py_ssize_t p, i, block, begin, end, count = lists__pi.shape[0], width = lists__pi.shape[1], found = 0
    cdef bint is_member
    with nogil:
        for block in range((count + BLOCK - 1) // BLOCK if width > 0 else 0):
            begin, end = block * BLOCK, min((block + 1) * BLOCK, count)
            if not has_entry(&lists__pi[begin, 0], (end - begin) * width, broker_row):
                continue
            for p in range(begin, end):
                is_member = False
                for i in range(width):
                    is_member |= lists__pi[p, i] == broker_row
                rows__r[found] = <int32_t>p
                found += is_member
    return found
