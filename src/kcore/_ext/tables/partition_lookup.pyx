"""Finds, adds and removes the rows of many partitions by topic row and partition index."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

from kcore._ext.arrays cimport address_of
from kcore._ext.tables.partition_lookup cimport (
    _FREE, Lookup, add_partition, find_partition, home_of, key_of, slot_of_key,
)


cdef Lookup lookup_of(tuple arrays) except *:
    """The struct for the arrays of the .pyi's `Arrays`; there is at least one slot."""
    cdef Lookup known
    first, count, head, key, row, after, slots, state = arrays
    known.first__t, known.count__t = <int32_t*>address_of(first), <int32_t*>address_of(count)
    known.head__t, known.key__e = <int32_t*>address_of(head), <int64_t*>address_of(key)
    known.row__e, known.next__e = <int32_t*>address_of(row), <int32_t*>address_of(after)
    known.slots, known.state = <int32_t*>address_of(slots), <int32_t*>address_of(state)
    known.topics, known.heads, known.entries, known.mask = len(first), len(head), len(key), len(slots) - 1
    return known


cdef void close_gap(Lookup* known, Py_ssize_t gap) noexcept nogil:
    """Fill the freed slot `gap`: move later entries to it whose search would otherwise end at the gap."""
    cdef Py_ssize_t at = gap, home
    while True:
        at = at + 1 & known.mask
        if known.slots[at] < 0:
            return
        home = home_of(known, known.key__e[known.slots[at]])
        if (at - home & known.mask) >= (at - gap & known.mask):
            known.slots[gap] = known.slots[at]
            known.slots[at] = -1
            gap = at


cdef void drop_entry(Lookup* known, int32_t entry) noexcept nogil:
    """Remove the entry from the slots and add it to the free entries; the caller updates its topic's chain."""
    cdef Py_ssize_t slot = slot_of_key(known, known.key__e[entry])
    known.slots[slot] = -1
    close_gap(known, slot)
    known.next__e[entry] = known.state[_FREE]
    known.state[_FREE] = entry


cdef bint drop_stray(Lookup* known, int32_t topic, int32_t partition) noexcept nogil:
    cdef int32_t entry, before
    if topic >= known.heads:
        return False
    entry = known.slots[slot_of_key(known, key_of(topic, partition))]
    if entry < 0:
        return False
    before = known.head__t[topic]
    if before == entry:
        known.head__t[topic] = known.next__e[entry]
    else:
        while known.next__e[before] != entry:
            before = known.next__e[before]
        known.next__e[before] = known.next__e[entry]
    drop_entry(known, entry)
    return True


def find(tuple arrays, const int32_t[::1] topic_rows, const int32_t[::1] partitions, int32_t[::1] rows) -> None:
    """Set the row of each partition, -1 for an unknown partition. Topic rows must be within the arrays."""
    cdef Lookup known = lookup_of(arrays)
    cdef Py_ssize_t k
    with nogil:
        for k in range(rows.shape[0]):
            rows[k] = find_partition(&known, topic_rows[k], partitions[k])


def add(
    tuple arrays, const int32_t[::1] topic_rows, const int32_t[::1] partitions, const int32_t[::1] rows
) -> int:
    """Add new partitions with these rows; returns the number added before the entries for strays were used up."""
    cdef Lookup known = lookup_of(arrays)
    cdef Py_ssize_t k, done = 0
    with nogil:
        for k in range(rows.shape[0]):
            if not add_partition(&known, topic_rows[k], partitions[k], rows[k]):
                break
            done += 1
    return done


def rehash(tuple arrays) -> None:
    """Insert all strays into `slots`, which the caller has replaced by an empty array."""
    cdef Lookup known = lookup_of(arrays)
    cdef Py_ssize_t topic
    cdef int32_t entry
    with nogil:
        for topic in range(known.heads):
            entry = known.head__t[topic]
            while entry >= 0:
                known.slots[slot_of_key(&known, known.key__e[entry])] = entry
                entry = known.next__e[entry]


def strays(tuple arrays, int32_t topic, int32_t[:, ::1] found) -> int:
    """Write partition index and row of a topic's strays, unordered, as many as fit; returns the number of strays."""
    cdef Lookup known = lookup_of(arrays)
    cdef Py_ssize_t k = 0
    cdef int32_t entry = known.head__t[topic] if topic < known.heads else -1
    while entry >= 0:
        if k < found.shape[0]:
            found[k, 0] = <int32_t>(known.key__e[entry] & 0x7FFFFFFF)
            found[k, 1] = known.row__e[entry]
        k += 1
        entry = known.next__e[entry]
    return k


cdef int by_partition(const void* one, const void* other) noexcept nogil:
    cdef int64_t left = (<const int64_t*>one)[0], right = (<const int64_t*>other)[0]
    return (left > right) - (left < right)


def gather(
    tuple arrays, const int32_t[::1] topic_rows, int64_t[::1] starts, int32_t[::1] rows, int64_t[::1] scratch
) -> int:
    """Write the rows of topics, one topic after the other, by ascending partition; topic j starts at rows[starts[j]].

    Returns the number of rows. It may exceed the room: rows that do not fit, and strays of a topic with more strays
    than `scratch` holds, are not written.
    """
    cdef Lookup known = lookup_of(arrays)
    cdef Py_ssize_t j, k, strays
    cdef int64_t at = 0
    cdef int32_t entry, topic, count
    with nogil:
        for j in range(topic_rows.shape[0]):
            topic = topic_rows[j]
            starts[j] = at
            count = known.count__t[topic]
            if at + count <= rows.shape[0]:
                for k in range(count):
                    rows[at + k] = known.first__t[topic] + <int32_t>k
            at += count
            strays = 0
            entry = known.head__t[topic] if topic < known.heads else -1
            while entry >= 0:
                if strays < scratch.shape[0]:
                    scratch[strays] = (known.key__e[entry] & 0x7FFFFFFF) << 32 | <int64_t>known.row__e[entry]
                strays += 1
                entry = known.next__e[entry]
            if 0 < strays <= scratch.shape[0] and at + strays <= rows.shape[0]:
                qsort(&scratch[0], strays, sizeof(int64_t), by_partition)
                for k in range(strays):
                    rows[at + k] = <int32_t>(scratch[k] & 0x7FFFFFFF)
            at += strays
        starts[topic_rows.shape[0]] = at
    return at


def drop_topic(tuple arrays, int32_t topic) -> int:
    """Remove all partitions of the topic; returns the number of strays among them."""
    cdef Lookup known = lookup_of(arrays)
    cdef int32_t entry = known.head__t[topic] if topic < known.heads else -1, after
    cdef Py_ssize_t dropped = 0
    known.first__t[topic] = known.count__t[topic] = 0
    while entry >= 0:
        after = known.next__e[entry]
        drop_entry(&known, entry)
        entry = after
        dropped += 1
    if topic < known.heads:
        known.head__t[topic] = -1
    return dropped


def drop(tuple arrays, const int32_t[::1] topic_rows, const int32_t[::1] partitions) -> int:
    """Remove partitions in the given order; returns the number removed.

    Ends early at a partition that is neither a stray nor the last of its topic's consecutive rows. So callers pass
    partitions in descending order.
    """
    cdef Lookup known = lookup_of(arrays)
    cdef Py_ssize_t k, done = 0
    cdef int32_t topic, partition
    with nogil:
        for k in range(topic_rows.shape[0]):
            topic, partition = topic_rows[k], partitions[k]
            if not drop_stray(&known, topic, partition):
                if partition < 0 or partition != known.count__t[topic] - 1:
                    break
                known.count__t[topic] -= 1
            done += 1
    return done
