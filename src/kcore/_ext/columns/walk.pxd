"""Shared by the modules that read columns: the state of reading a message, and second reads of checked lengths."""

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

cdef enum Way:  # The way to read a run of records.
    WALKED = 0  # of any layouts: flat records field by field after `chain`, others one by one
    ALIKE = 1   # records of one layout
    MIXED = 2   # records of one layout except for the lengths of some vectors

cdef struct Layout:
    int64_t misses     # how often the next records had another layout
    int64_t windows    # number of 8-byte windows whose bits determine the layout
    int64_t start[MAX_WINDOWS]   # offsets of the windows in the record
    uint64_t mask[MAX_WINDOWS]   # the bits that determine the layout
    uint64_t value[MAX_WINDOWS]  # the values of these bits
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
    uint8_t** columns  # NULL during `measure`
    int64_t* rows      # by node: the rows read so far
    int64_t* totals    # by column: elements of a VECTOR's values so far; or tags, or bytes of unknown tags
    uint8_t* sent      # by op of a tagged field: 1 if any row has the field; valid after `measure`
    Layout* layouts    # by node: the layout of its last record
    Mixed* mixed       # state of the node whose records were mixed last; NULL before the first
    uint64_t varying   # the fields that differ in length among the last WALKED records, a bit for each
    int64_t* runs      # found by `measure`: count * 4 + a Way; after a MIXED run, the bits of the fields that differ
    int64_t run_count
    int64_t run_room
    int64_t next_run
    int problem


cdef inline bint is_left_out(const Walk* w, const Op* op) noexcept nogil:
    """True if no row has the tagged field, so that the field has no columns to fill."""
    return w.columns != NULL and op.tag >= 0 and not w.sent[op - w.ops]


cdef inline bint fail(Walk* w, Problem problem) noexcept nogil:
    w.problem = problem
    return False


cdef inline bint push_run(Walk* w, int64_t run) noexcept nogil:
    """Store a run that `measure` has found, for `fill`; False if memory ran out."""
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
    """Set `value` to the varint at `at`, which was checked before; returns its number of bytes."""
    cdef int64_t shift = 0, taken = 0
    value[0] = 0
    while True:
        value[0] += <int64_t>(at[taken] & 0x7F) << shift
        shift += 7
        taken += 1
        if at[taken - 1] < 0x80:
            return taken


cdef inline int64_t peek_prefix(const uint8_t* at, const Op* op, int64_t* length) noexcept nogil:
    """Set `length` to the length at `at`, which was checked before, -1 for null; returns its number of bytes."""
    cdef int64_t taken
    if op.prefix == VARINT:
        taken = peek_varint(at, length)
        length[0] -= 1
        return taken
    taken = 2 if op.prefix == INT16 else 4
    length[0] = peek_big(at, taken)
    return taken
