"""Shared by the modules that read columns: the state of a walk, and second reads of lengths."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc

from kcore._ext.columns.mixed cimport Mixed
from kcore._ext.columns.program cimport BLOCK, INT16, MAX_VECTORS, MAX_WINDOWS, VARINT, Node, Op
from kcore._ext.columns.steps cimport Steps

cdef enum Problem:
    SHORT = 1
    BAD_VARINT = 2
    NULL_VALUE = 3
    BAD_LENGTH = 4
    BAD_COUNT = 5
    BAD_TEXT = 6
    BAD_TAG_ORDER = 7
    BAD_TAG_SIZE = 8
    LEFT_OVER = 9
    NO_MEMORY = 10

cdef enum Way:  # The way to read records.
    WALKED = 0  # flat ones as a chain, others one by one
    ALIKE = 1   # of one layout
    MIXED = 2   # of one layout except for the lengths of some vectors

cdef struct Layout:
    int64_t misses     # how often the following records had other layouts
    int64_t windows    # 8-byte places that determine the layout: where, which bits, which values
    int64_t start[MAX_WINDOWS]
    uint64_t mask[MAX_WINDOWS]
    uint64_t value[MAX_WINDOWS]
    Steps steps

cdef struct Places:
    int32_t begin[MAX_VECTORS + 1][BLOCK]  # begin of the record, then of the bytes after each of its vectors
    int32_t length[MAX_VECTORS][BLOCK]

cdef struct Walk:
    const Node* nodes
    const Op* ops
    const uint8_t* data
    int64_t size
    int64_t at
    uint8_t** columns  # NULL while measuring
    int64_t* rows      # counted so far, by node
    int64_t* totals    # elements of a VECTOR's values, tags and bytes of unknown tags, by column
    uint8_t* sent      # by op of a tagged field: whether any row has it; valid after measuring
    Layout* layouts    # by node: the layout of its last record
    Mixed* mixed       # state of the node whose records were mixed last; NULL if none were
    uint64_t varying   # fields that differ in length among the last walked records, a bit each
    int64_t* runs      # found while measuring: count * 4 + a Way; behind MIXED the fields that differ
    int64_t run_count
    int64_t run_room
    int64_t next_run
    int problem


cdef inline bint is_left_out(const Walk* w, const Op* op) noexcept nogil:
    """True if no row sent the tagged field, so that it has no columns to fill."""
    return w.columns != NULL and op.tag >= 0 and not w.sent[op - w.ops]


cdef inline bint fail(Walk* w, Problem problem) noexcept nogil:
    w.problem = problem
    return False


cdef inline bint push_run(Walk* w, int64_t run) noexcept nogil:
    """Store what measuring found, for filling."""
    cdef void* grown
    if w.run_count == w.run_room:
        grown = realloc(w.runs, (w.run_room * 2 + 64) * sizeof(int64_t))
        if grown == NULL:
            return fail(w, NO_MEMORY)
        w.runs = <int64_t*>grown
        w.run_room = w.run_room * 2 + 64
    w.runs[w.run_count] = run
    w.run_count += 1
    return True


cdef inline int64_t peek_big(const uint8_t* at, int64_t width) noexcept nogil:
    if width == 2:
        return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16) >> 16
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline int64_t peek_varint(const uint8_t* at, int64_t* value) noexcept nogil:
    """Read again the varint at a place; returns how many bytes it takes."""
    cdef int64_t shift = 0, taken = 0
    value[0] = 0
    while True:
        value[0] += <int64_t>(at[taken] & 0x7F) << shift
        shift += 7
        taken += 1
        if at[taken - 1] < 0x80:
            return taken


cdef inline int64_t peek_prefix(const uint8_t* at, const Op* op, int64_t* length) noexcept nogil:
    """Read again the length at a place; returns how many bytes it takes."""
    cdef int64_t taken
    if op.prefix == VARINT:
        taken = peek_varint(at, length)
        length[0] -= 1
        return taken
    taken = 2 if op.prefix == INT16 else 4
    length[0] = peek_big(at, taken)
    return taken
