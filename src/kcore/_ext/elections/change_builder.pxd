"""All steps of PartitionChangeBuilder, for one partition of the table, on small arrays of the stack.

Most partitions need only some of the steps. `partition_change.pyx` handles these partitions, and calls this file for
the others. The steps and their order are those of `kcore.replication.partition_change`. Axes as in
`change_columns.pxd`.
"""

from kcore._ext.tables.change_columns cimport (
    ADDING, ADDING_LIST, ALL, CONFIGURED, DIRECTORIES, DIRECTORIES_LIST, ELR, ELR_LIST, ISR, LAST_KNOWN_ELR,
    LAST_KNOWN_LIST, LEADER, LOST, MIGRATING, NOBODY, NO_CHANGE, PARTITION, PREFERRED, RECOVERY, REMOVING,
    REMOVING_LIST, REPLICAS, REPLICAS_LIST, STRANGER, UNCLEAN, Changes, List, Lists, Members, Rule, Table, Targets, add,
    append, are_equal, copy, copy_without, has, has_all, load, load_target, put_change, put_members, set_one,
    sort_as_java,
)
from kcore._ext.constants cimport MAX_REPLICAS, RECOVERING
from kcore._ext.elections.election_brokers cimport (
    CRASHED_FLAG, LEAVES_FLAG, MAY_LEAD_FLAG, NO_DIRECTORIES_FLAG, flags_of, id_of, put_failure,
)
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t

cdef struct Work:
    Members old_replicas
    Members old_isr
    Members old_elr
    Members old_last_known
    Members old_removing
    Members old_adding
    Members isr
    Members replicas
    Members removing
    Members adding
    Members elr
    Members last_known
    int16_t old_leader
    int16_t leader
    bint names_leader
    bint names_isr
    bint is_unclean
    int8_t recovery


cdef inline bint is_online(const Table* t, int16_t broker, int32_t directory) noexcept nogil:
    """DirectoryId.isOnline. All directories of a broker that reports none (before KIP-858) are online (KAFKA-16162)."""
    cdef bint known = t.owner_of_directory[max(directory, 0)] == broker  # Padding has -1 in place of a directory.
    return (directory < LOST) | known | ((flags_of(t.brokers, broker) & NO_DIRECTORIES_FLAG != 0) & (directory > LOST))


cdef inline bint may_lead(
    const Table* t, const Work* w, Py_ssize_t p, int16_t broker, bint if_no_replica
) noexcept nogil:
    """True if the broker is active and the directory of its replica is online.

    `if_no_replica`: the result for an active broker that has no replica of the partition yet.
    """
    cdef int32_t s
    if broker < 0 or not flags_of(t.brokers, broker) & MAY_LEAD_FLAG:
        return False
    for s in range(w.old_replicas.count):
        if w.old_replicas.at[s] == broker:
            return t.directories == NULL or is_online(t, broker, t.directories[p * t.slots + s])
    return if_no_replica


cdef inline int32_t effective_min_isr(const Table* t, const Rule* rule, Py_ssize_t p) noexcept nogil:
    """min.insync.replicas, at most the replication factor of the topic's partition 0 (getTopicEffectiveMinIsr)."""
    cdef int32_t wanted = configured_min_isr(t, rule, p), factor = 0
    cdef Py_ssize_t first = rule.first_row[t.topic[p]] if rule.has_first[t.topic[p]] > 0 else p
    cdef const int16_t* replicas = t.replicas + first * t.slots
    while factor < t.slots and replicas[factor] != NOBODY:
        factor += 1
    return min(wanted, factor)


cdef inline int32_t configured_min_isr(const Table* t, const Rule* rule, Py_ssize_t p) noexcept nogil:
    return rule.min_isr[0 if rule.min_isr_by == ALL else p if rule.min_isr_by == PARTITION else t.topic[p]]


cdef inline bint allows_unclean(const Table* t, const Rule* rule, Py_ssize_t p) noexcept nogil:
    if rule.election != CONFIGURED:
        return rule.election == UNCLEAN
    return rule.unclean[0 if rule.unclean_by == ALL else p if rule.unclean_by == PARTITION else t.topic[p]]


cdef inline void begin(Work* w, const Table* t, const Targets* targets, Py_ssize_t p, Py_ssize_t r) noexcept nogil:
    cdef Lists replicas = Lists(t.replicas, t.slots, False), isr = Lists(t.isr, t.members, False)
    cdef int32_t k
    load(&w.old_replicas, &replicas, p, r)
    load(&w.old_isr, &isr, p, r)
    load(&w.old_elr, &t.elr, p, r)
    load(&w.old_last_known, &t.last_known, p, r)
    load(&w.old_removing, &t.removing, p, r)
    load(&w.old_adding, &t.adding, p, r)
    w.old_leader = w.leader = t.leader[p]
    w.recovery = t.recovery[p]
    w.names_leader = w.names_isr = w.is_unclean = False
    if not load_target(&w.isr, &targets.isr, r):
        w.isr.count = 0
        for k in range(w.old_isr.count):
            if not flags_of(t.brokers, w.old_isr.at[k]) & LEAVES_FLAG:
                append(&w.isr, w.old_isr.at[k])
    if not load_target(&w.replicas, &targets.replicas, r):
        copy(&w.replicas, &w.old_replicas)
    if not load_target(&w.removing, &targets.removing, r):
        copy(&w.removing, &w.old_removing)
    if not load_target(&w.adding, &targets.adding, r):
        copy(&w.adding, &w.old_adding)
    copy(&w.elr, &w.old_elr)
    copy(&w.last_known, &w.old_last_known)


cdef inline bint elr_leaves(const Work* w, const Table* t) noexcept nogil:
    cdef int32_t k
    cdef uint32_t flags = 0
    for k in range(w.old_elr.count):
        flags |= flags_of(t.brokers, w.old_elr.at[k])
    return flags & LEAVES_FLAG != 0


cdef inline void complete_reassignment(Work* w, const Rule* rule) noexcept nogil:
    """End the reassignment if the ISR has its target (PartitionReassignmentReplicas.maybeCompleteReassignment)."""
    cdef Members isr, replicas
    if w.removing.count == 0 and w.adding.count == 0:
        return
    copy_without(&isr, &w.isr, &w.removing)
    copy_without(&replicas, &w.replicas, &w.removing)
    if w.removing.count > 0 and (isr.count == 0 or replicas.count == 0):
        return
    if not rule.awaits_all_replicas and not has_all(&isr, &w.adding):
        return
    if (rule.awaits_all_replicas or w.adding.count < w.removing.count) and not has_all(&isr, &replicas):
        return
    copy(&w.isr, &isr)
    copy(&w.replicas, &replicas)
    w.removing.count = w.adding.count = 0


cdef inline void find_eligible_leaders(Work* w, const Table* t, const Rule* rule, Py_ssize_t p) noexcept nogil:
    """Set the ELR and the last known ELR, each of at most MAX_REPLICAS (PartitionChangeBuilder.maybePopulateTargetElr).
    """
    cdef Members candidates, known
    cdef int32_t k
    w.elr.count = w.last_known.count = 0
    if w.isr.count >= effective_min_isr(t, rule, p):
        return
    copy(&candidates, &w.old_elr)
    add(&candidates, &w.old_isr)
    copy(&known, &candidates)
    add(&known, &w.old_last_known)
    sort_as_java(t.brokers, &candidates)
    for k in range(candidates.count):
        if flags_of(t.brokers, candidates.at[k]) & CRASHED_FLAG or has(&w.isr, candidates.at[k]):
            continue
        if w.elr.count < MAX_REPLICAS:
            append(&w.elr, candidates.at[k])
    sort_as_java(t.brokers, &known)
    for k in range(known.count):
        if not has(&w.isr, known.at[k]) and not has(&w.elr, known.at[k]) and w.last_known.count < MAX_REPLICAS:
            append(&w.last_known, known.at[k])


cdef inline bint is_valid(
    const Table* t, const Work* w, Py_ssize_t p, int16_t broker, bint if_no_replica
) noexcept nogil:
    """PartitionChangeBuilder.isValidNewLeader: in the ISR, or in the ELR if the ISR is empty, and able to lead."""
    return has(&w.isr if w.isr.count > 0 else &w.elr, broker) and may_lead(t, w, p, broker, if_no_replica)


cdef inline int16_t elected(Work* w, const Table* t, const Rule* rule, Py_ssize_t p) noexcept nogil:
    """The new leader; NOBODY if no replica may lead (PartitionChangeBuilder.electLeader)."""
    cdef int32_t k
    cdef bint last_known
    if rule.election == PREFERRED and w.replicas.count > 0 and is_valid(t, w, p, w.replicas.at[0], False):
        return w.replicas.at[0]
    if is_valid(t, w, p, w.old_leader, True):
        return w.old_leader
    for k in range(w.replicas.count):
        if is_valid(t, w, p, w.replicas.at[k], False):
            return w.replicas.at[k]
    if rule.elr_enabled and rule.uses_last_known_leader and w.elr.count == 0 and w.isr.count == 0:
        if w.old_last_known.count == 1:  # The list names a last known leader only if it has exactly one member.
            last_known = rule.elects_dead_last_known and has(&w.old_replicas, w.old_last_known.at[0])
            if last_known or may_lead(t, w, p, w.old_last_known.at[0], False):
                w.is_unclean = True
                return w.old_last_known.at[0]
    if allows_unclean(t, rule, p):
        for k in range(w.replicas.count):
            if may_lead(t, w, p, w.replicas.at[k], True):
                w.is_unclean = True
                return w.replicas.at[k]
    return NOBODY


cdef inline void elect(Work* w, const Table* t, const Rule* rule, Py_ssize_t p) noexcept nogil:
    """Set the new leader, and the ISR, ELR and recovery state that follow (PartitionChangeBuilder.tryElection)."""
    cdef Members leader, others
    w.leader = elected(w, t, rule, p)
    if w.leader == w.old_leader:
        w.is_unclean = False
        return
    w.names_leader = True
    set_one(&leader, w.leader)
    if has(&w.elr, w.leader):
        copy_without(&others, &w.elr, &leader)
        copy(&w.elr, &others)
        copy(&w.isr, &leader)
    if w.is_unclean:
        copy(&w.isr, &leader)
        w.names_isr = True
        if rule.marks_recovery:
            w.recovery = RECOVERING


cdef inline void settle_isr_and_elr(Work* w, const Rule* rule) noexcept nogil:
    """Decide whether the record sets the leader, the ISR and the ELRs.

    Source: triggerLeaderEpochBumpForReplicaReassignmentIfNeeded, maybeUpdateRecordElr,
    triggerLeaderEpochBumpForIsrShrinkIfNeeded.
    """
    if not has_all(&w.replicas, &w.old_replicas):
        w.names_leader = True  # A replica is removed: a new leader epoch lets the leader refuse its fetches.
    if w.names_isr or not rule.elr_enabled:
        w.elr.count = w.last_known.count = 0
    if rule.uses_last_known_leader:
        copy(&w.last_known, &w.old_last_known)
    if not w.names_isr:
        w.names_isr = (w.isr.count > 0 or rule.elr_enabled) and not are_equal(&w.isr, &w.old_isr)
    if w.names_isr and rule.bumps_on_shrink and not has_all(&w.isr, &w.old_isr):
        w.names_leader = True


cdef inline void remember_leader(Work* w, const Rule* rule) noexcept nogil:
    """PartitionChangeBuilder.maybeUpdateLastKnownLeader: without a leader, the last known ELR holds the last leader."""
    cdef bint has_leader, forgets, remembers
    cdef int16_t old_leader = w.old_leader if w.old_leader >= 0 else STRANGER
    if not rule.elr_enabled or not rule.uses_last_known_leader:
        return
    has_leader = w.names_leader and w.leader >= 0
    if rule.remembers_on_empty_isr:
        forgets = has_leader or (w.old_leader >= 0 and not w.names_leader)
        remembers = w.names_isr and w.isr.count == 0
        remembers = remembers and not (w.old_last_known.count == 1 and w.old_last_known.at[0] == old_leader)
    else:
        forgets = has_leader
        remembers = w.names_leader and w.leader < 0 and w.old_last_known.count == 0
    if remembers:
        set_one(&w.last_known, old_leader)
    elif forgets:
        w.last_known.count = 0


cdef inline uint16_t put_if_new(
    Changes* out, int which, uint16_t field, const int64_t* brokers, const Members* members, const Members* before
) noexcept nogil:
    if are_equal(members, before):
        return 0
    put_members(&out.lists[which], <int32_t>out.heads.count, brokers, members)
    return field


cdef inline int32_t directory_of(
    const Table* t, const Work* w, const Targets* targets, Py_ssize_t p, Py_ssize_t r, int16_t replica
) noexcept nogil:
    cdef int32_t s
    if targets.directory != NULL and targets.directory_broker == replica:
        return targets.directory[r]
    for s in range(w.old_replicas.count):
        if w.old_replicas.at[s] == replica:
            return MIGRATING if t.directories == NULL else t.directories[p * t.slots + s]
    return MIGRATING if targets.default_directory == NULL else targets.default_directory[replica]


cdef inline uint16_t put_directories(
    const Table* t, const Work* w, const Rule* rule, const Targets* targets, Py_ssize_t p, Py_ssize_t r, Changes* out
) noexcept nogil:
    """Put the directories of the replicas if they change (PartitionChangeBuilder.setAssignmentChanges)."""
    cdef List* into = &out.lists[DIRECTORIES_LIST]
    cdef int32_t s, before, end = into.offsets[into.count]
    cdef bint differs = w.replicas.count != w.old_replicas.count
    if w.replicas.count == 0 or not rule.has_directories:
        return 0
    for s in range(w.replicas.count):
        into.values[end + s] = directory_of(t, w, targets, p, r, w.replicas.at[s])
        if s < w.old_replicas.count:
            before = MIGRATING if t.directories == NULL else t.directories[p * t.slots + s]
            differs = differs or into.values[end + s] != before
    if not differs:
        return 0
    into.places[into.count] = <int32_t>out.heads.count
    into.count += 1
    into.offsets[into.count] = end + w.replicas.count
    return DIRECTORIES


cdef inline void finish(
    const Work* w, const Table* t, const Rule* rule, const Targets* targets, Py_ssize_t p, Py_ssize_t r, Changes* out
) noexcept nogil:
    cdef int8_t recovery = w.recovery
    cdef uint16_t fields = w.names_leader * LEADER | w.names_isr * ISR
    cdef const Members* isr = &w.isr if w.names_isr else &w.old_isr
    cdef int32_t k
    fields |= put_if_new(out, REPLICAS_LIST, REPLICAS, t.brokers, &w.replicas, &w.old_replicas)
    fields |= put_if_new(out, REMOVING_LIST, REMOVING, t.brokers, &w.removing, &w.old_removing)
    fields |= put_if_new(out, ADDING_LIST, ADDING, t.brokers, &w.adding, &w.old_adding)
    fields |= put_if_new(out, ELR_LIST, ELR, t.brokers, &w.elr, &w.old_elr)
    fields |= put_if_new(out, LAST_KNOWN_LIST, LAST_KNOWN_ELR, t.brokers, &w.last_known, &w.old_last_known)
    fields |= put_directories(t, w, rule, targets, p, r, out)
    if targets.recovery != NULL and targets.recovery[r] != NO_CHANGE and targets.recovery[r] != t.recovery[p]:
        recovery = targets.recovery[r]
    fields |= (recovery != t.recovery[p]) * RECOVERY
    if w.leader < 0:
        put_failure(&out.heads, <int32_t>p)
    if fields == 0:
        return
    for k in range(isr.count):
        out.heads.isr[out.heads.isr_end + k] = id_of(t.brokers, isr.at[k])
    put_change(out, <int32_t>p, id_of(t.brokers, w.leader), isr.count, t.leader_epoch[p] + w.names_leader,
               t.partition_epoch[p] + 1, recovery, fields)


cdef inline void change_partition(
    const Table* t, const Rule* rule, const Targets* targets, Py_ssize_t p, Py_ssize_t r, Changes* out
) noexcept nogil:
    cdef Work w
    begin(&w, t, targets, p, r)
    if rule.leaving_only and w.isr.count == w.old_isr.count and not (rule.leaving_elr_counts and elr_leaves(&w, t)):
        return
    complete_reassignment(&w, rule)
    if rule.elr_enabled:
        find_eligible_leaders(&w, t, rule, p)
    elect(&w, t, rule, p)
    settle_isr_and_elr(&w, rule)
    remember_leader(&w, rule)
    finish(&w, t, rule, targets, p, r, out)
