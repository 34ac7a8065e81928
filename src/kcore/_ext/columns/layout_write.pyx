"""Learns the layouts of records to write: how many rows are alike, and where their fields go.

Rows are alike if they have the same lengths, null fields and omitted tags, and the same holds for the rows of their
nested structs.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kcore._ext.columns.columns_size cimport size_op
from kcore._ext.columns.fused cimport fuse
from kcore._ext.columns.program cimport BLOCK, BOOL, INT16, MIN_RUN, STRUCT, VARINT, VECTOR, Node, Op
from kcore._ext.wire.sink cimport Layout, Sink, is_null, is_unset, length_at, offset_at, varint_size
from kcore._ext.columns.steps cimport (
    FIELD, MAX_NESTED, SPAN, VALUES, Step, Steps, add_step, elements_key, find_counter
)

cdef enum:
    SOME = 64     # Rows that are compared first.
    MANY = 8192   # The most rows that are compared: otherwise a field with long runs would be compared repeatedly.


cdef bint find_layout(Sink* s, int64_t child, int64_t row, bint is_mixed) noexcept nogil:
    """Learn the layout of `row` if enough rows after it have the same layout; their parents may differ. False if not.

    Writing mixed rows takes little longer. So if rows can be written as mixed rows, more rows must be alike.
    """
    cdef Layout* layout = &s.layouts[child]
    cdef Learner one = Learner(s, &layout.steps)
    cdef int64_t left = s.rows[child] - row
    cdef int64_t alike = alike_rows(s, child, row, 1, min(left, <int64_t>SOME))
    if alike == SOME:
        alike = alike_rows(s, child, row, 1, min(left, <int64_t>MANY))
    layout.first = layout.end = row
    if alike < (SOME if is_mixed else MIN_RUN):
        return False
    layout.steps.size = layout.steps.count = layout.steps.counters = 0
    if not learn_next(&one, child, row):
        return False
    layout.end = row + alike
    fuse(&layout.steps, True)
    return True


cdef int64_t alike_rows(const Sink* s, int64_t child, int64_t row, int64_t each, int64_t limit) noexcept nogil:
    """The number of records, at most `limit`, that are alike. Each has `each` rows of the node, the first record from
    `row` on. 0 if no layout can be learned.
    """
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k
    if each == 0:
        return limit
    if each > MAX_NESTED or s.tag_counts[child]:
        return 0
    for k in range(node.op_begin, node.tag_end):
        if k >= node.op_end:
            if s.is_absent[k]:
                continue
            limit = same_bytes(s.absent[k] + row, each, limit * each) // each
        limit = alike_op(s, &s.ops[k], row, each, limit)
        if limit <= 1:
            return limit
    return limit


cdef int64_t alike_op(const Sink* s, const Op* op, int64_t row, int64_t each, int64_t limit) noexcept nogil:
    cdef int64_t first
    if op.code <= BOOL:
        return limit
    if op.code == STRUCT and not op.nullable:
        return alike_rows(s, op.child, row, each, limit)
    if not s.is_uniform[op.column]:
        limit = same_lengths(<const int32_t*>s.columns[op.column] + row, each, limit * each) // each
    if op.nullable and op.code != STRUCT:
        limit = same_bytes(s.columns[op.column + (2 if op.code == VECTOR else 1)] + row, each, limit * each) // each
    if op.code == VECTOR:
        return limit
    first = offset_at(s, op, row)
    return alike_rows(s, op.child, first, offset_at(s, op, row + each) - first, limit)


cdef int64_t same_lengths(const int32_t* offsets, int64_t each, int64_t count) noexcept nogil:
    """The number of lengths until one differs from the length `each` rows before it; at least `each`."""
    cdef int64_t k = each, block
    cdef int32_t different
    while k + BLOCK <= count:
        different = 0
        for block in range(k, k + BLOCK):
            different |= (offsets[block + 1] - offsets[block]) ^ (offsets[block + 1 - each] - offsets[block - each])
        if different:
            break
        k += BLOCK
    while k < count and offsets[k + 1] - offsets[k] == offsets[k + 1 - each] - offsets[k - each]:
        k += 1
    return k


cdef int64_t same_bytes(const uint8_t* flags, int64_t each, int64_t count) noexcept nogil:
    """The number of flags (not null, or absent) until one differs from the flag `each` rows before it; at least `each`.
    """
    cdef int64_t k = each, block
    cdef uint8_t different
    while k + BLOCK <= count:
        different = 0
        for block in range(k, k + BLOCK):
            different |= flags[block] ^ flags[block - each]
        if different:
            break
        k += BLOCK
    while k < count and flags[k] == flags[k - each]:
        k += 1
    return k


cdef struct Learner:
    const Sink* sink
    Steps* steps  # `size` grows while the layout is learned.


cdef bint learn_next(Learner* one, int64_t child, int64_t row) noexcept nogil:
    """Learn where the fields of the record's next row of a node go. False if there is no room for a counter or step."""
    cdef int64_t rows = find_counter(one.steps, child)
    if rows < 0:
        return False
    if one.steps.counter[rows].each == 0:
        one.steps.counter[rows].base = row
    one.steps.counter[rows].each += 1
    return learn_row(one, child, row, rows, one.steps.counter[rows].each - 1)


cdef bint learn_row(Learner* one, int64_t child, int64_t row, int64_t rows, int64_t mine) noexcept nogil:
    """Learn a struct: its fields, then its tags. `row` is number `mine` of the record's rows by the counter `rows`."""
    cdef const Node* node = &one.sink.nodes[child]
    cdef int64_t k
    for k in range(node.op_begin, node.op_end):
        if not learn_op(one, &one.sink.ops[k], row, rows, mine):
            return False
    return learn_tags(one, node, row, rows, mine) if node.flexible else True


cdef bint learn_op(Learner* one, const Op* op, int64_t row, int64_t rows, int64_t mine) noexcept nogil:
    cdef int64_t k, first, length
    if op.code <= BOOL:
        if add_step(one.steps, FIELD, op, rows, mine) == NULL:
            return False
        one.steps.size += op.width
        return True
    if op.code == STRUCT and not op.nullable:
        return learn_row(one, op.child, row, rows, mine)  # The struct has a row for each row of its parent.
    first, length = offset_at(one.sink, op, row), length_at(one.sink, op, row)
    if not add_span(one, op, 1 if op.code == STRUCT else prefix_size(op, length)):
        return False
    if op.code == VECTOR:
        return learn_values(one, op, first, length, rows, mine)
    for k in range(first, first + length):
        if not learn_next(one, op.child, k):
            return False
    return True


cdef inline int64_t prefix_size(const Op* op, int64_t length) noexcept nogil:
    """The number of bytes of an encoded length; null takes as many as 0."""
    return varint_size(length + 1) if op.prefix == VARINT else 2 if op.prefix == INT16 else 4


cdef bint learn_values(
    Learner* one, const Op* op, int64_t begin, int64_t length, int64_t rows, int64_t mine
) noexcept nogil:
    cdef Step* step
    cdef int64_t items = find_counter(one.steps, elements_key(op.column + 1))
    if items < 0:
        return False
    if one.steps.counter[items].each == 0:
        one.steps.counter[items].base = begin
    if length:
        step = add_step(one.steps, VALUES, op, rows, mine)
        if step == NULL:
            return False
        step.items, step.item, step.length = <int32_t>items, <int32_t>one.steps.counter[items].each, <int32_t>length
        one.steps.counter[items].each += length
        one.steps.size += length * op.width
    return True


cdef bint learn_tags(Learner* one, const Node* node, int64_t row, int64_t rows, int64_t mine) noexcept nogil:
    cdef const Sink* s = one.sink
    cdef int64_t k, size, count = 0
    for k in range(node.op_end, node.tag_end):
        count += not s.absent[k][row]
    if not add_span(one, s.ops, varint_size(count)):
        return False
    for k in range(node.op_end, node.tag_end):
        if s.absent[k][row]:
            if has_hidden_row(s, &s.ops[k], row):
                return False
            continue
        size = size_op(s, &s.ops[k], row, row + 1)
        if not add_span(one, s.ops, varint_size(s.ops[k].tag) + varint_size(size)):
            return False
        if not learn_op(one, &s.ops[k], row, rows, mine):
            return False
    return True


cdef inline bint has_hidden_row(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    """True if a nullable struct has a row although its tag is omitted. The counters would not count that row."""
    return op.code == STRUCT and op.nullable and not is_unset(s, op) and not is_null(s, op, row)


cdef bint add_span(Learner* one, const Op* op, int64_t size) noexcept nogil:
    """Add `size` bytes that are the same in each record; extends the last step if that is a SPAN."""
    cdef Step* step = &one.steps.step[one.steps.count - 1] if one.steps.count else NULL
    if step == NULL or step.kind != SPAN:
        step = add_step(one.steps, SPAN, op, 0, 0)
        if step == NULL:
            return False
        step.length = 0
    step.length += <int32_t>size
    one.steps.size += size
    return True
