"""Finds and inserts a partition's row by topic row and partition index; other kernels include it.

The first count__t[t] partitions of topic t have consecutive rows from first__t[t] on. All other partitions are strays:
each is entry e of a hash table, and in a chain of its topic's strays. No stray has a partition index below its topic's
count. Axes: `t` topic row, `e` entry of a stray.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:
    _USED = 0  # Index in `state`: the number of entries that were ever used.
    _FREE = 1  # Index in `state`: the first free entry, -1 for none; `next__e` links the others.

cdef struct Lookup:
    int32_t* first__t
    int32_t* count__t
    int32_t* head__t  # The first of a topic's strays, -1 for none.
    int64_t* key__e
    int32_t* row__e
    int32_t* next__e  # The next stray of the topic, -1 after the last.
    int32_t* slots  # The hash table: entries by the hash of their key, -1 if free; its length is a power of two.
    int32_t* state  # At _USED and _FREE.
    Py_ssize_t topics
    Py_ssize_t heads  # Length of `head__t`: topics from this row on have no strays.
    Py_ssize_t entries  # Capacity of the entries.
    Py_ssize_t mask  # Number of slots, less one.

cdef Lookup lookup_of(tuple arrays) except *


cdef inline int64_t key_of(int32_t topic, int32_t partition) noexcept nogil:
    return (<int64_t>topic << 32) | <int64_t>partition


cdef inline Py_ssize_t home_of(const Lookup* known, int64_t key) noexcept nogil:
    cdef uint64_t mixed = <uint64_t>key * <uint64_t>0x9E3779B97F4A7C15
    return <Py_ssize_t>((mixed ^ mixed >> 29) * <uint64_t>0xBF58476D1CE4E5B9 >> 32 & <uint64_t>known.mask)


cdef inline Py_ssize_t slot_of_key(const Lookup* known, int64_t key) noexcept nogil:
    """The slot of the key's entry, or the free slot for it."""
    cdef Py_ssize_t slot = home_of(known, key)
    while known.slots[slot] >= 0 and known.key__e[known.slots[slot]] != key:
        slot = slot + 1 & known.mask
    return slot


cdef inline int32_t find_partition(const Lookup* known, int32_t topic, int32_t partition) noexcept nogil:
    """The partition's row; -1 if it is unknown. `topic` must be below `known.topics`."""
    cdef int32_t entry
    if 0 <= partition < known.count__t[topic]:
        return known.first__t[topic] + partition
    if topic >= known.heads or known.head__t[topic] < 0 or partition < 0:
        return -1
    entry = known.slots[slot_of_key(known, key_of(topic, partition))]
    return known.row__e[entry] if entry >= 0 else -1


cdef inline bint add_partition(Lookup* known, int32_t topic, int32_t partition, int32_t row) noexcept nogil:
    """Add a new partition with this row; False, without a change, if there is no room for a stray."""
    cdef int32_t count = known.count__t[topic], entry
    if partition == count and (count == 0 or known.first__t[topic] + count == row):
        known.first__t[topic] = row - partition
        known.count__t[topic] = count + 1
        return True
    if topic >= known.heads:
        return False
    if known.state[_FREE] >= 0:
        entry = known.state[_FREE]
        known.state[_FREE] = known.next__e[entry]
    elif known.state[_USED] < known.entries:
        entry = known.state[_USED]
        known.state[_USED] += 1
    else:
        return False
    known.key__e[entry] = key_of(topic, partition)
    known.row__e[entry] = row
    known.next__e[entry] = known.head__t[topic]
    known.head__t[topic] = entry
    known.slots[slot_of_key(known, known.key__e[entry])] = entry
    return True
