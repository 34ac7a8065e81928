"""A hash table from 16-byte ids to rows, by open addressing; other kernels call `find_row`.

`slots` has a power of two of entries; each is a row, or -1 if it is free, and some are always free. `ids` has 16 bytes
for each row. A row is in the first free slot from its id's hash on, so a search ends at a free slot.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    ID_BYTES = 16


cdef inline uint64_t hash_of(const uint8_t* id) noexcept nogil:
    """A hash of both halves of the id. The last steps are MurmurHash3's: the lowest bits depend on all others."""
    cdef uint64_t high, low
    memcpy(&high, id, 8)
    memcpy(&low, id + 8, 8)
    cdef uint64_t mixed = high ^ (low * <uint64_t>0x9E3779B97F4A7C15)
    mixed ^= mixed >> 33
    mixed *= <uint64_t>0xFF51AFD7ED558CCD
    mixed ^= mixed >> 33
    mixed *= <uint64_t>0xC4CEB9FE1A85EC53
    return mixed ^ mixed >> 33


cdef inline Py_ssize_t slot_of(
    const int32_t* slots, Py_ssize_t mask, const uint8_t* ids, const uint8_t* id
) noexcept nogil:
    """The slot of the id's row, or the free slot for it."""
    cdef Py_ssize_t slot = <Py_ssize_t>(hash_of(id) & <uint64_t>mask)
    while slots[slot] >= 0 and memcmp(ids + <Py_ssize_t>slots[slot] * ID_BYTES, id, ID_BYTES) != 0:
        slot = slot + 1 & mask
    return slot


cdef inline int32_t find_row(
    const int32_t* slots, Py_ssize_t mask, const uint8_t* ids, const uint8_t* id
) noexcept nogil:
    """The id's row; -1 for an unknown id."""
    return slots[slot_of(slots, mask, ids, id)]
