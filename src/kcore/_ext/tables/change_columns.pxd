"""The structs of partition changes: a table's columns, targets, rules, resulting changes, and small lists of brokers.

Axes: `p` partition row, `r` candidate, `s` replica slot, `i` ISR position, `b` broker row, `d` row of a log directory,
`t` topic row.
"""

from kcore._ext.constants cimport MAX_REPLICAS, NO_LEADER
from kcore._ext.elections.election_brokers cimport Heads, id_of, put
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

cdef enum:
    MOST = 3 * MAX_REPLICAS  # The most members of an ELR, an ISR and a last known ELR together.
    NOBODY = -1  # No broker: the end of a row of brokers.
    STRANGER = -2  # The id -1 that Kafka may store as a member of a last known ELR; it is no broker.
    AS_IS = -2  # As the first broker of a target row: keep the partition's list.
    NO_CHANGE = -1  # As a target leader recovery state: keep the partition's state.
    MIGRATING = 0  # This and the next two: directory rows of the reserved directory ids.
    UNASSIGNED = 1
    LOST = 2

cdef enum Field:
    ISR = 1 << 0
    LEADER = 1 << 1
    REPLICAS = 1 << 2
    REMOVING = 1 << 3
    ADDING = 1 << 4
    RECOVERY = 1 << 5
    ELR = 1 << 6
    LAST_KNOWN_ELR = 1 << 7
    DIRECTORIES = 1 << 8

cdef enum:  # Indexes of the lists that only few changes set.
    REPLICAS_LIST
    REMOVING_LIST
    ADDING_LIST
    ELR_LIST
    LAST_KNOWN_LIST
    DIRECTORIES_LIST
    SPARSE_LISTS

cdef enum Election:
    ONLINE  # A clean election: from the ISR, or from the ELR if the ISR is empty.
    UNCLEAN
    PREFERRED
    CONFIGURED  # Online or unclean, by the topic's configuration.

cdef enum By:  # A setting has one value for all partitions, for each partition or for each topic.
    ALL
    PARTITION
    TOPIC

cdef struct Lists:
    const int16_t* members  # a row of broker rows for each p, or each r; NULL: no partition has members
    Py_ssize_t width
    bint by_candidate

cdef struct Table:
    const int16_t* replicas
    const int16_t* isr
    const int16_t* leader
    const int32_t* leader_epoch
    const int32_t* partition_epoch
    const int8_t* recovery
    const int32_t* topic
    const int32_t* directories  # NULL: every replica's directory is MIGRATING
    const int16_t* owner_of_directory  # d; the row of the broker whose registration lists the directory, or -1
    const int64_t* brokers  # b + 1
    Py_ssize_t slots
    Py_ssize_t members
    Lists elr
    Lists last_known
    Lists removing
    Lists adding

cdef struct Targets:
    Lists isr
    Lists replicas
    Lists removing
    Lists adding
    const int8_t* recovery  # r; NULL: keep the partition's state
    const int32_t* directory  # r; NULL: no replica moves to another directory
    int16_t directory_broker  # the broker whose replicas move
    const int32_t* default_directory  # b; the directory of a new replica

cdef struct Rule:
    Election election
    const uint8_t* unclean  # unclean.leader.election.enable
    By unclean_by
    const int32_t* min_isr
    By min_isr_by
    const int32_t* first_row  # t; row of partition 0, whose replication factor caps min_isr
    const int32_t* has_first  # t; above 0 if the topic has a partition 0
    bint leaving_only  # change only partitions that lose an ISR member
    bint leaving_elr_counts  # with leaving_only: also partitions that lose an ELR member
    bint elr_enabled
    bint uses_last_known_leader
    bint marks_recovery
    bint bumps_on_shrink
    bint has_directories
    bint elects_dead_last_known
    bint remembers_on_empty_isr
    bint awaits_all_replicas

cdef struct List:
    int32_t* places
    int32_t* offsets
    int32_t* values
    int32_t count

cdef struct Changes:
    Heads heads
    uint16_t* fields
    Py_ssize_t at  # the next candidate
    List* lists  # SPARSE_LISTS of them

cdef struct Members:
    int16_t at[MOST]
    int32_t count

cdef inline void load(Members* into, const Lists* lists, Py_ssize_t p, Py_ssize_t r) noexcept nogil:
    cdef const int16_t* row
    into.count = 0
    if lists.members == NULL:
        return
    row = lists.members + (r if lists.by_candidate else p) * lists.width
    while into.count < lists.width and row[into.count] != NOBODY:
        into.at[into.count] = row[into.count]
        into.count += 1


cdef inline bint load_target(Members* into, const Lists* lists, Py_ssize_t r) noexcept nogil:
    """Load the target members of candidate r; False if the target keeps the partition's members."""
    if lists.members == NULL or (lists.width > 0 and lists.members[r * lists.width] == AS_IS):
        return False
    load(into, lists, 0, r)
    return True


cdef inline bint has(const Members* members, int16_t broker) noexcept nogil:
    cdef int32_t k
    for k in range(members.count):
        if members.at[k] == broker:
            return True
    return False


cdef inline bint has_all(const Members* members, const Members* these) noexcept nogil:
    cdef int32_t k
    for k in range(these.count):
        if not has(members, these.at[k]):
            return False
    return True


cdef inline bint are_equal(const Members* one, const Members* other) noexcept nogil:
    cdef int32_t k
    if one.count != other.count:
        return False
    for k in range(one.count):
        if one.at[k] != other.at[k]:
            return False
    return True


cdef inline void append(Members* members, int16_t broker) noexcept nogil:
    members.at[members.count] = broker
    members.count += 1


cdef inline void add(Members* members, const Members* these) noexcept nogil:
    """Append those members of `these` that `members` lacks."""
    cdef int32_t k
    for k in range(these.count):
        if members.count < MOST and not has(members, these.at[k]):
            append(members, these.at[k])


cdef inline void copy_without(Members* into, const Members* members, const Members* these) noexcept nogil:
    cdef int32_t k
    into.count = 0
    for k in range(members.count):
        if not has(these, members.at[k]):
            append(into, members.at[k])


cdef inline void copy(Members* into, const Members* members) noexcept nogil:
    """Copy the first `count` members, not the whole array."""
    cdef int32_t k
    into.count = members.count
    for k in range(members.count):
        into.at[k] = members.at[k]


cdef inline void set_one(Members* members, int16_t broker) noexcept nogil:
    members.at[0] = broker
    members.count = 1


cdef inline int32_t id_of_member(const int64_t* brokers, int16_t member) noexcept nogil:
    return NO_LEADER if member < 0 else id_of(brokers, member)


cdef inline uint32_t java_hash(const int64_t* brokers, int16_t member) noexcept nogil:
    cdef uint32_t value = <uint32_t>id_of_member(brokers, member)
    return value ^ value >> 16


cdef inline uint32_t java_buckets(const int64_t* brokers, const Members* members) noexcept nogil:
    """The number of buckets of a HashSet of these members (kcore.replication.java_random.hash_map_order)."""
    cdef uint32_t buckets = 16, chain, differing
    cdef int32_t k, earlier
    for k in range(members.count):
        if k >= 8 and buckets < 64:  # Below 64 buckets, Java also doubles them when a chain exceeds eight members.
            chain = 0
            for earlier in range(k):
                differing = java_hash(brokers, members.at[k]) ^ java_hash(brokers, members.at[earlier])
                chain += differing & (buckets - 1) == 0
            buckets <<= chain >= 8
        buckets <<= <uint32_t>k + 1 > buckets // 4 * 3
    return buckets


cdef inline void sort_as_java(const int64_t* brokers, Members* members) noexcept nogil:
    """Sort members into the iteration order of a Java HashSet to which they were added one after the other."""
    cdef uint32_t mask = java_buckets(brokers, members) - 1
    cdef int32_t k, at
    cdef int16_t member
    for k in range(1, members.count):
        member = members.at[k]
        at = k
        while at > 0 and (java_hash(brokers, members.at[at - 1]) & mask) > (java_hash(brokers, member) & mask):
            members.at[at] = members.at[at - 1]
            at -= 1
        members.at[at] = member


cdef inline void put_members(
    List* into, int32_t place, const int64_t* brokers, const Members* members
) noexcept nogil:
    cdef int32_t k, end = into.offsets[into.count]
    for k in range(members.count):
        into.values[end + k] = id_of_member(brokers, members.at[k])
    into.places[into.count] = place
    into.count += 1
    into.offsets[into.count] = end + members.count


cdef inline void put_change(
    Changes* out, int32_t p, int32_t leader, Py_ssize_t members, int32_t leader_epoch, int32_t partition_epoch,
    int8_t recovery, uint16_t fields
) noexcept nogil:
    out.fields[out.heads.count] = fields
    put(&out.heads, p, leader, members, leader_epoch, partition_epoch, recovery)
