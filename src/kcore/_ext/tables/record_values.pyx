"""Writes TopicRecords, PartitionRecords and PartitionChangeRecords with their frames, from columns.

The caller allocates `out` with room for the longest form of each record. Lists of brokers are packed rows, padded with
-1. Axes: `c` change, `p` partition row, `t` topic row, `j` topic of a slice, `k` partition of a slice.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kcore._ext.arrays cimport address_of
from kcore._ext.tables.record_values cimport (
    ID_BYTES, count_rows, put32, put_brokers, put_frame, put_id, put_varint, varint_size,
)

cdef enum:
    TOPIC_RECORD = 2
    PARTITION_RECORD = 3
    PARTITION_CHANGE_RECORD = 5
    NO_LEADER_CHANGE = -2
    NO_RECOVERY_CHANGE = -1
    LISTS = 6  # Lists of a change: isr, replicas, removing, adding, elr, last known elr.

cdef struct Ragged:  # A list for each change c: values[offsets[c]:offsets[c + 1]].
    const int32_t* offsets  # NULL if no change has the list.
    const int32_t* values
    const uint8_t* valid    # NULL if all changes have the list.

cdef struct Changes:
    Ragged lists[LISTS]
    Ragged directories
    const int32_t* leaders  # NULL if no change names a leader.
    const int8_t* recovery
    const uint8_t* directory_ids

cdef struct Table:
    const int32_t* topic_row
    const int32_t* partition_index
    const int16_t* replicas
    const int16_t* isr
    const int16_t* leader
    const int32_t* leader_epoch
    const int32_t* partition_epoch
    const int8_t* recovery
    const int32_t* directories  # NULL: all replicas are MIGRATING.
    const int16_t* elr          # This and the next: NULL if the records have no such field.
    const int16_t* last_known_elr
    const int32_t* id_of        # By broker row.
    const uint8_t* topic_ids
    const uint8_t* directory_ids
    int32_t slots
    int32_t members
    int32_t elr_width
    int32_t last_known_elr_width
    int version


cdef inline bint has_list(const Ragged* lists, Py_ssize_t c) noexcept nogil:
    return lists.offsets != NULL and (lists.valid == NULL or lists.valid[c] != 0)


cdef inline uint8_t* put_tagged_list(uint8_t* at, uint32_t tag, const Ragged* lists, Py_ssize_t c) noexcept nogil:
    """Write a tag, the size of its field, and a compact array of broker ids."""
    cdef int32_t k, count = lists.offsets[c + 1] - lists.offsets[c]
    cdef const int32_t* ids = lists.values + lists.offsets[c]
    at = put_varint(at, tag)
    at = put_varint(at, <uint32_t>(4 * count) + <uint32_t>varint_size(<uint32_t>count + 1))
    at = put_varint(at, <uint32_t>count + 1)
    for k in range(count):
        at = put32(at, ids[k])
    return at


cdef inline uint8_t* put_tagged_directories(uint8_t* at, uint32_t tag, const Changes* n, Py_ssize_t c) noexcept nogil:
    cdef int32_t k, count = n.directories.offsets[c + 1] - n.directories.offsets[c]
    cdef const int32_t* rows = n.directories.values + n.directories.offsets[c]
    at = put_varint(at, tag)
    at = put_varint(at, <uint32_t>(ID_BYTES * count) + <uint32_t>varint_size(<uint32_t>count + 1))
    at = put_varint(at, <uint32_t>count + 1)
    for k in range(count):
        at = put_id(at, n.directory_ids + <Py_ssize_t>ID_BYTES * rows[k])
    return at


cdef inline uint8_t* put_change(uint8_t* at, const Changes* n, Py_ssize_t c) noexcept nogil:
    """Write the number of set fields of a PartitionChangeRecord, then these tagged fields by ascending tag."""
    cdef bint names_leader = n.leaders != NULL and n.leaders[c] != NO_LEADER_CHANGE
    cdef bint recovers = n.recovery != NULL and n.recovery[c] != NO_RECOVERY_CHANGE
    cdef uint8_t* count = at
    cdef int k
    count[0] = names_leader + recovers
    at += 1
    if has_list(&n.lists[0], c):
        at = put_tagged_list(at, 0, &n.lists[0], c)
        count[0] += 1
    if names_leader:
        at[0], at[1] = 1, 4
        at = put32(at + 2, n.leaders[c])
    for k in range(1, 4):  # Replicas, removing, adding: tags 2, 3, 4.
        if has_list(&n.lists[k], c):
            at = put_tagged_list(at, k + 1, &n.lists[k], c)
            count[0] += 1
    if recovers:
        at[0], at[1], at[2] = 5, 1, <uint8_t>n.recovery[c]
        at += 3
    for k in range(4, 6):  # ELR and last known ELR: tags 6, 7.
        if has_list(&n.lists[k], c):
            at = put_tagged_list(at, k + 2, &n.lists[k], c)
            count[0] += 1
    if has_list(&n.directories, c):
        at = put_tagged_directories(at, 8, n, c)
        count[0] += 1
    return at


cdef Ragged ragged_of(object lists) except *:
    cdef Ragged found = Ragged(NULL, NULL, NULL)
    if lists is not None:
        offsets, values, valid = lists
        found.offsets, found.values = <const int32_t*>address_of(offsets), <const int32_t*>address_of(values)
        if valid is not None:
            found.valid = <const uint8_t*>address_of(valid)
    return found


def changes(
    const int32_t[::1] rows, const int32_t[::1] topic_row__p, const int32_t[::1] partition_index__p,
    const uint8_t[:, ::1] topic_ids, leaders, recovery, tuple lists, directories, const uint8_t[:, ::1] directory_ids,
    int version, uint8_t[::1] out, int64_t[::1] offsets,
) -> None:
    """Write the PartitionChangeRecord of each change c to out[offsets[c]:offsets[c + 1]]. `rows`: partition rows;
    directories are directory rows.
    """
    cdef Changes n
    cdef Py_ssize_t c
    cdef uint8_t* at = &out[0]
    cdef int k
    for k in range(LISTS):
        n.lists[k] = ragged_of(lists[k])
    n.directories = ragged_of(directories)
    n.leaders = <const int32_t*>address_of(leaders) if leaders is not None else NULL
    n.recovery = <const int8_t*>address_of(recovery) if recovery is not None else NULL
    n.directory_ids = &directory_ids[0, 0]
    offsets[0] = 0
    with nogil:
        for c in range(rows.shape[0]):
            at = put_frame(at, PARTITION_CHANGE_RECORD, version)
            at = put32(at, partition_index__p[rows[c]])
            at = put_id(at, &topic_ids[topic_row__p[rows[c]], 0])
            at = put_change(at, &n, c)
            offsets[c + 1] = at - &out[0]


cdef inline uint8_t* put_elr(
    uint8_t* at, uint32_t tag, const int16_t* rows, int32_t count, const Table* t
) noexcept nogil:
    at = put_varint(at, tag)
    at = put_varint(at, <uint32_t>(4 * count) + <uint32_t>varint_size(<uint32_t>count + 1))
    return put_brokers(at, rows, count, t.id_of)


cdef inline uint8_t* put_partition(
    uint8_t* at, const Table* t, Py_ssize_t p, const int16_t* adding, int32_t adds, const int16_t* removing,
    int32_t removes
) noexcept nogil:
    """Write the PartitionRecord of row p, as PartitionRegistration.toRecord; returns the address after it."""
    cdef const int16_t* replicas = t.replicas + p * t.slots
    cdef int32_t s, count = count_rows(replicas, t.slots), elrs = 0, last_elrs = 0
    cdef int16_t leader = t.leader[p]
    at = put_frame(at, PARTITION_RECORD, t.version)
    at = put32(at, t.partition_index[p])
    at = put_id(at, t.topic_ids + <Py_ssize_t>ID_BYTES * t.topic_row[p])
    at = put_brokers(at, replicas, count, t.id_of)
    at = put_brokers(at, t.isr + p * t.members, count_rows(t.isr + p * t.members, t.members), t.id_of)
    at = put_brokers(at, removing, removes, t.id_of)
    at = put_brokers(at, adding, adds, t.id_of)
    at = put32(at, t.id_of[leader] if leader >= 0 else -1)
    at = put32(put32(at, t.leader_epoch[p]), t.partition_epoch[p])
    if t.version >= 1:
        at = put_varint(at, <uint32_t>count + 1)
        for s in range(count):
            at = put_id(at, t.directory_ids + <Py_ssize_t>ID_BYTES * (t.directories[p * t.slots + s]
                                                                      if t.directories != NULL else 0))
    if t.elr != NULL:
        elrs = count_rows(t.elr + p * t.elr_width, t.elr_width)
    if t.last_known_elr != NULL:
        last_elrs = count_rows(t.last_known_elr + p * t.last_known_elr_width, t.last_known_elr_width)
    at[0] = (t.recovery[p] != 0) + (elrs > 0) + (last_elrs > 0)
    at += 1
    if t.recovery[p] != 0:
        at[0], at[1], at[2] = 0, 1, <uint8_t>t.recovery[p]
        at += 3
    if elrs > 0:
        at = put_elr(at, 1, t.elr + p * t.elr_width, elrs, t)
    if last_elrs > 0:
        at = put_elr(at, 2, t.last_known_elr + p * t.last_known_elr_width, last_elrs, t)
    return at


cdef inline const void* address_or_null(object array) except? NULL:
    return NULL if array is None else address_of(array)


cdef Table table_of(tuple columns, tuple ids, int version) except *:
    cdef Table t
    (topic_row, partition_index, replicas, isr, leader, leader_epoch, partition_epoch, recovery, directories, elr,
     last_known_elr) = columns
    t.topic_row, t.partition_index = <const int32_t*>address_of(topic_row), <const int32_t*>address_of(partition_index)
    t.replicas, t.isr = <const int16_t*>address_of(replicas), <const int16_t*>address_of(isr)
    t.leader, t.recovery = <const int16_t*>address_of(leader), <const int8_t*>address_of(recovery)
    t.leader_epoch = <const int32_t*>address_of(leader_epoch)
    t.partition_epoch = <const int32_t*>address_of(partition_epoch)
    t.directories, t.elr = <const int32_t*>address_or_null(directories), <const int16_t*>address_or_null(elr)
    t.last_known_elr = <const int16_t*>address_or_null(last_known_elr)
    t.slots, t.members = replicas.shape[1], isr.shape[1]
    t.elr_width = 0 if elr is None else elr.shape[1]
    t.last_known_elr_width = 0 if last_known_elr is None else last_known_elr.shape[1]
    t.id_of, t.topic_ids = <const int32_t*>address_of(ids[0]), <const uint8_t*>address_of(ids[1])
    t.directory_ids, t.version = <const uint8_t*>address_of(ids[2]), version
    assert directories is None or directories.shape[1] == t.slots
    return t


cdef uint8_t* put_topic(uint8_t* at, const uint8_t* name, int64_t size, const uint8_t* id) noexcept nogil:
    at = put_frame(at, TOPIC_RECORD, 0)
    at = put_varint(at, <uint32_t>size + 1)
    memcpy(at, name, size)
    at = put_id(at + size, id)
    at[0] = 0
    return at + 1


def topics(
    tuple columns, tuple ids, int version, const int32_t[::1] rows__k, const int64_t[::1] starts__j,
    const int32_t[::1] topic_rows__j, const uint8_t[::1] names, const int64_t[::1] name_offsets__j,
    const uint8_t[::1] writes_topic__j, tuple adding, tuple removing, uint8_t[::1] out, int64_t[::1] offsets,
) -> int:
    """For each topic j, write its TopicRecord if writes_topic__j[j], then the PartitionRecords of its partitions, whose
    rows are rows__k[starts__j[j]:starts__j[j + 1]].

    `adding`, `removing`: offsets and broker rows of reassignments, a list for each partition k. Returns the number of
    records.
    """
    cdef Table t = table_of(columns, ids, version)
    cdef const int32_t* adding_offsets = <const int32_t*>address_of(adding[0])
    cdef const int16_t* adding_rows = <const int16_t*>address_of(adding[1])
    cdef const int32_t* removing_offsets = <const int32_t*>address_of(removing[0])
    cdef const int16_t* removing_rows = <const int16_t*>address_of(removing[1])
    cdef Py_ssize_t j, k, count = 0
    cdef uint8_t* at = &out[0]
    offsets[0] = 0
    with nogil:
        for j in range(topic_rows__j.shape[0]):
            if writes_topic__j[j]:
                at = put_topic(at, &names[name_offsets__j[j]], name_offsets__j[j + 1] - name_offsets__j[j],
                               t.topic_ids + <Py_ssize_t>ID_BYTES * topic_rows__j[j])
                count += 1
                offsets[count] = at - &out[0]
            for k in range(starts__j[j], starts__j[j + 1]):
                at = put_partition(
                    at, &t, rows__k[k], adding_rows + adding_offsets[k], adding_offsets[k + 1] - adding_offsets[k],
                    removing_rows + removing_offsets[k], removing_offsets[k + 1] - removing_offsets[k])
                count += 1
                offsets[count] = at - &out[0]
    return count
