"""The state of writing columns to messages, and the lengths of rows; shared by the modules that write columns."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kcore._ext.columns.mixed cimport Mixed
from kcore._ext.columns.program cimport INT16, STRUCT, VARINT, VECTOR, Node, Op, move16, move32
from kcore._ext.columns.steps cimport Steps

cdef struct Layout:
    int64_t first      # Rows [first, end) have the same layout. Row `first` is written, at byte `template` of `out`.
    int64_t end
    int64_t template
    int64_t misses     # how often the next rows had another layout
    Steps steps

cdef struct Sink:
    const Node* nodes
    const Op* ops
    const uint8_t** columns
    uint8_t** copies     # by column: the Writer's own copy of a column that decides where bytes go, or NULL
    int64_t* tag_counts  # by node: the number of unknown tags
    int64_t* is_uniform  # by column of offsets: 1 if all rows have the same number of elements
    int64_t* widest      # by column of offsets: the most elements of a row
    const int64_t* bytes  # by column: the size in bytes
    const int64_t* rows  # by node: the number of rows
    uint8_t** absent     # by op of a tagged field: for each row, 1 if the row omits the field
    int64_t* is_absent   # by op of a tagged field: 1 if all rows omit the field
    Layout* layouts      # by node
    Mixed* mixed         # state of the node whose rows differ in lengths; NULL if there is none yet
    uint8_t* out
    int64_t at           # the next byte of `out` to write
    int64_t size         # size of the whole message


cdef inline int64_t offset_at(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    """The index of a row's first element: from the common length of all rows, or the Writer's copy of the offsets."""
    if s.is_uniform[op.column]:
        return row * s.widest[op.column]
    return (<const int32_t*>s.columns[op.column])[row]


cdef inline int64_t length_at(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    return offset_at(s, op, row + 1) - offset_at(s, op, row)


cdef inline const uint8_t* values_of(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    """The elements of a VECTOR's row: at the row's entry in the column of begins, or after those of the row before."""
    if op.begins >= 0 and s.columns[op.begins] != NULL:
        return s.columns[op.column + 1] + (<const int64_t*>s.columns[op.begins])[row]
    return s.columns[op.column + 1] + offset_at(s, op, row) * op.width


cdef inline bint is_unset(const Sink* s, const Op* op) noexcept nogil:
    """True if a tagged field has no columns, so that no row sends it."""
    return s.rows[op.child] == 0 if op.code == STRUCT and not op.nullable else s.columns[op.column] == NULL


cdef inline bint is_null(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    """True if a row of a nullable VECTOR, ROWS or STRUCT is null."""
    if op.code == STRUCT:
        return length_at(s, op, row) == 0
    return not s.columns[op.column + (2 if op.code == VECTOR else 1)][row]


cdef inline int64_t varint_size(int64_t value) noexcept nogil:
    return 1 if value < 1 << 7 else 2 if value < 1 << 14 else 3 if value < 1 << 21 else 4 if value < 1 << 28 else 5


cdef inline int64_t put_varint_at(uint8_t* target, int64_t value) noexcept nogil:
    cdef inline int64_t taken = 0
    while value >= 0x80:
        target[taken] = <uint8_t>(value | 0x80)
        value >>= 7
        taken += 1
    target[taken] = <uint8_t>value
    return taken + 1


cdef inline int64_t put_length(uint8_t* target, int64_t prefix, int64_t length) noexcept nogil:
    """Write the length of a VECTOR or ROWS, -1 for null; returns the number of bytes written."""
    cdef int32_t wide = <int32_t>length
    cdef int16_t narrow = <int16_t>length
    if prefix == VARINT and length < 127:
        target[0] = <uint8_t>(length + 1)
        return 1
    if prefix == VARINT:
        return put_varint_at(target, length + 1)
    if prefix == INT16:
        move16(target, <const uint8_t*>&narrow)
        return 2
    move32(target, <const uint8_t*>&wide)
    return 4
