"""A hash table from 16-byte ids to rows: search, insertion, removal."""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from kcore._ext.tables.uuid_index cimport ID_BYTES, find_row, hash_of, slot_of


cdef void close_gap(int32_t* slots, Py_ssize_t mask, const uint8_t* ids, Py_ssize_t gap) noexcept nogil:
    """Fill the freed slot `gap`: move later rows to it whose search would otherwise end there (Knuth 6.4, R)."""
    cdef Py_ssize_t at = gap, home
    while True:
        at = at + 1 & mask
        if slots[at] < 0:
            return
        home = <Py_ssize_t>(hash_of(ids + <Py_ssize_t>slots[at] * ID_BYTES) & <uint64_t>mask)
        if (at - home & mask) >= (at - gap & mask):
            slots[gap] = slots[at]
            slots[at] = -1
            gap = at


def find(const int32_t[::1] slots, const uint8_t[:, ::1] ids, const uint8_t[::1] id) -> int:
    """The row of an id of 16 bytes; -1 for an unknown id."""
    assert id.shape[0] == ID_BYTES
    return find_row(&slots[0], slots.shape[0] - 1, &ids[0, 0], &id[0])


def put(int32_t[::1] slots, const uint8_t[:, ::1] ids, int32_t row) -> int:
    """Insert the row of the id `ids[row]`; it replaces an earlier row of the same id.

    Returns True if the id is new. There must be two free slots.
    """
    assert 0 <= row < ids.shape[0]
    cdef Py_ssize_t slot = slot_of(&slots[0], slots.shape[0] - 1, &ids[0, 0], &ids[row, 0])
    cdef bint is_new = slots[slot] < 0
    slots[slot] = row
    return is_new


def put_all(int32_t[::1] slots, const uint8_t[:, ::1] ids, const int32_t[::1] rows) -> int:
    """Insert many rows as `put`; returns the number of new ids."""
    cdef Py_ssize_t k, slot, mask = slots.shape[0] - 1, found = 0
    with nogil:
        for k in range(rows.shape[0]):
            slot = slot_of(&slots[0], mask, &ids[0, 0], &ids[rows[k], 0])
            found += slots[slot] < 0
            slots[slot] = rows[k]
    return found


def drop(int32_t[::1] slots, const uint8_t[:, ::1] ids, int32_t row) -> int:
    """Remove the row of the id `ids[row]`; False if the table does not have the id, or has another row for it."""
    assert 0 <= row < ids.shape[0]
    cdef Py_ssize_t mask = slots.shape[0] - 1
    cdef Py_ssize_t slot = slot_of(&slots[0], mask, &ids[0, 0], &ids[row, 0])
    if slots[slot] != row:
        return False
    slots[slot] = -1
    close_gap(&slots[0], mask, &ids[0, 0], slot)
    return True
