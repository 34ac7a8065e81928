"""Computes the bytes that columns take in a message, and the tagged fields that rows omit."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset

from kcore._ext.columns.program cimport (
    BOOL, INT16, ROWS, STRUCT, VARINT, VECTOR, Node, Op, all_are, default_bytes, mark_equal, move
)
from kcore._ext.wire.sink cimport Sink, is_null, is_unset, length_at, offset_at, varint_size


cdef bint has_tags(const Sink* s, int64_t child) noexcept nogil:
    """True if any row of a flexible node sends a tagged field, known or unknown."""
    cdef int64_t k
    for k in range(s.nodes[child].op_end, s.nodes[child].tag_end):
        if not s.is_absent[k]:
            return True
    return s.tag_counts[child] > 0


cdef void find_absent(Sink* s, int64_t k, int64_t rows) noexcept nogil:
    """Set s.absent[k] to 1 for the rows that omit the tagged field of op `k`, because they have its default."""
    cdef uint8_t* absent = s.absent[k]
    cdef int64_t row
    cdef uint8_t all_of_them = 1
    memset(absent, 1, rows)
    if not mark_default(s, &s.ops[k], rows, absent):
        for row in range(rows):
            all_of_them &= absent[row]
    s.is_absent[k] = all_of_them


cdef bint mark_default(const Sink* s, const Op* op, int64_t rows, uint8_t* flags) noexcept nogil:
    """Clear the flags of rows that do not have the field's default. True if all rows have it: then no flag changes."""
    cdef uint8_t value[16]
    cdef const Node* below
    cdef int64_t k
    cdef bint all_of_them = True
    if is_unset(s, op):
        return True
    if op.code <= BOOL:
        default_bytes(op, value)
        if not all_are(s.columns[op.column], value, op.width, rows):
            mark_equal(flags, s.columns[op.column], value, op.width, rows)
            return False
    elif op.code == STRUCT and not op.nullable and not s.tag_counts[op.child]:
        below = &s.nodes[op.child]
        for k in range(below.op_begin, below.tag_end):
            all_of_them &= mark_default(s, &s.ops[k], rows, flags)
    else:
        for k in range(rows):
            flags[k] &= is_default(s, op, k)
        return False
    return all_of_them


cdef int64_t size_prefixes(const Sink* s, const Op* op, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t row, size = 0
    if op.prefix != VARINT:
        return (end - begin) * (2 if op.prefix == INT16 else 4)
    if s.widest[op.column] < 127:
        return end - begin
    if s.is_uniform[op.column]:
        return (end - begin) * varint_size(s.widest[op.column] + 1)
    for row in range(begin, end):
        size += varint_size(length_at(s, op, row) + 1)
    return size


cdef int64_t size_op(const Sink* s, const Op* op, int64_t begin, int64_t end) noexcept nogil:
    """The bytes of a field in the rows [begin, end)."""
    cdef int64_t first, last
    if op.code == STRUCT and not op.nullable:
        return size_rows(s, op.child, begin, end)
    if op.code < VECTOR:
        return (end - begin) * op.width
    first, last = offset_at(s, op, begin), offset_at(s, op, end)
    if op.code == STRUCT:
        return end - begin + size_rows(s, op.child, first, last)
    if op.code == ROWS:
        return size_prefixes(s, op, begin, end) + size_rows(s, op.child, first, last)
    return size_prefixes(s, op, begin, end) + op.width * (last - first)


cdef int64_t size_rows(const Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k, size = 0
    for k in range(node.op_begin, node.op_end):
        size += size_op(s, &s.ops[k], begin, end)
    if not node.flexible:
        return size
    if not has_tags(s, child):
        return size + end - begin
    for k in range(begin, end):
        size += size_tags(s, child, k)
    return size


cdef int64_t first_tag(const Sink* s, int64_t child, int64_t row) noexcept nogil:
    """The index of the first unknown tag of `row` or of a later row."""
    cdef const int32_t* rows = <const int32_t*>s.columns[s.nodes[child].tag_column]
    cdef int64_t low = 0, high = s.tag_counts[child], middle
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


cdef int64_t size_tags(const Sink* s, int64_t child, int64_t row) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef const uint32_t* tags
    cdef const int32_t* ends
    cdef int64_t k, one, count = 0, size = 0
    for k in range(node.op_end, node.tag_end):
        if not s.absent[k][row]:
            one = size_op(s, &s.ops[k], row, row + 1)
            size += varint_size(s.ops[k].tag) + varint_size(one) + one
            count += 1
    if s.tag_counts[child]:
        tags = <const uint32_t*>s.columns[node.tag_column + 1]
        ends = <const int32_t*>s.columns[node.tag_column + 2]
        for k in range(first_tag(s, child, row), first_tag(s, child, row + 1)):
            one = ends[k + 1] - ends[k]
            size += varint_size(tags[k]) + varint_size(one) + one
            count += 1
    return size + varint_size(count)


cdef bint is_default(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    """True if the row has the field's default."""
    cdef uint8_t wire[16]
    cdef int64_t k
    if is_unset(s, op):
        return True
    if op.code == STRUCT:
        if op.nullable and is_null(s, op, row):
            return op.fallback
        return not op.fallback and is_default_row(s, op.child, offset_at(s, op, row) if op.nullable else row)
    if op.code >= VECTOR:
        if op.nullable and is_null(s, op, row):
            return op.fallback
        return not op.fallback and length_at(s, op, row) == 0
    move(wire, s.columns[op.column] + row * op.width, 1, op.width, op.code == BOOL)
    if op.width < 16:
        return memcmp(wire, &op.fallback, op.width) == 0
    for k in range(16):
        if wire[k]:
            return False
    return True


cdef bint is_default_row(const Sink* s, int64_t child, int64_t row) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k
    for k in range(node.op_begin, node.tag_end):
        if not is_default(s, &s.ops[k], row):
            return False
    return not s.tag_counts[child] or first_tag(s, child, row) == first_tag(s, child, row + 1)
