"""Writes many records at once: those of one layout step by step, flat records of different layouts vectors first."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kcore._ext.columns.fused cimport fields_of, scatter_fused
from kcore._ext.columns.program cimport (
    BLOCK, BOOL, MAX_VECTORS, VECTOR, Node, Op, move, move32x4, move_at, move_vectors, put_bytes, repeat,
    scatter, spread,
)
from kcore._ext.wire.sink cimport Layout, Sink, offset_at, put_length, values_of
from kcore._ext.columns.steps cimport DUO, PAIR, QUAD, SPAN, TRIO, VALUES, Step, Steps, block_of


cdef void write_run(Sink* s, const Layout* layout, int64_t row, int64_t count) noexcept nogil:
    """Write rows of a layout, in blocks whose bytes stay in the L1 cache."""
    cdef int64_t block
    while count:
        block = min(count, block_of(&layout.steps))
        write_block(s, &layout.steps, s.out + s.at, s.out + layout.template, row - layout.first, block)
        s.at += block * layout.steps.size
        row += block
        count -= block


cdef void write_block(
    const Sink* s, const Steps* steps, uint8_t* records, const uint8_t* same, int64_t done, int64_t count
) noexcept nogil:
    """Write `count` records of a layout after the first `done`; `same` has the bytes that all records share."""
    cdef int64_t row, each
    cdef const Op* op
    cdef const Step* step = &steps.step[0]
    cdef const Step* end = step + steps.count
    cdef uint8_t* target
    while step < end:
        op, target, each = step.op, records + step.offset, steps.counter[step.rows].each
        row = steps.counter[step.rows].base + done * each + step.row
        if step.kind == SPAN:
            write_span(target, steps.size, same + step.offset, step.length, count)
        elif step.kind == VALUES:
            write_values(s, target, step, steps, done, count)
        elif step.kind in (QUAD, TRIO, PAIR, DUO):
            scatter_fused(records, steps.size, s.columns, step, each, row, count)
            step += fields_of(step.kind) - 1
        elif each == 1:
            scatter(target, steps.size, s.columns[op.column] + row * op.width, count, op.width, op.code == BOOL)
        else:
            spread(
                target, steps.size, s.columns[op.column] + row * op.width, each * op.width, count, op.width,
                op.code == BOOL,
            )
        step += 1


cdef inline void write_span(
    uint8_t* target, int64_t size, const uint8_t* same, int64_t length, int64_t count
) noexcept nogil:
    """Write the same few bytes in each record."""
    cdef uint8_t value[16]
    cdef int64_t width
    if length == 1:
        put_bytes(target, size, same[0], count)
        return
    while length:
        width = 8 if length >= 8 else 4 if length >= 4 else 2 if length >= 2 else 1
        memcpy(value, same, width)
        repeat(target, size, value, width, count)
        target, same, length = target + width, same + width, length - width


cdef inline void write_values(
    const Sink* s, uint8_t* target, const Step* step, const Steps* steps, int64_t done, int64_t count
) noexcept nogil:
    cdef int64_t each = steps.counter[step.items].each, width = step.op.width
    cdef int64_t k, row, rows = steps.counter[step.rows].each
    cdef const int64_t* begins
    if step.op.begins >= 0 and s.columns[step.op.begins] != NULL:
        row = steps.counter[step.rows].base + done * rows + step.row
        begins = <const int64_t*>s.columns[step.op.begins] + row
        for k in range(count):
            memcpy(target + k * steps.size, s.columns[step.op.column + 1] + begins[k * rows], step.length)
        return
    cdef int64_t begin = steps.counter[step.items].base + done * each + step.item
    move_vectors(
        target, steps.size, s.columns[step.op.column + 1] + begin * width, each * width, count, step.length, step.op
    )


cdef struct Part:
    int64_t gap      # fixed bytes before the vector
    const Op* op
    const int32_t* offsets  # NULL if all rows have `length` elements; then the first row begins at element `first`
    int64_t first
    int64_t length
    const uint8_t* values
    int64_t spare    # the last element at which a load of 16 bytes stays within the column


cdef void write_others(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil:
    """Write at most BLOCK rows of any layouts: first the vectors, record by record, then the fields between them."""
    cdef int32_t places[MAX_VECTORS + 1][BLOCK]
    cdef Part parts[MAX_VECTORS]
    cdef int64_t k, r, vector = 0, gap = 0, tail, vectors = find_parts(s, node, row, parts, &tail)
    cdef const Op* op
    cdef uint8_t* out = s.out + s.at
    s.at += write_vectors(s, parts, vectors, tail, out, row, count, places)
    for k in range(node.op_begin, node.op_end):
        op = &s.ops[k]
        if op.code == VECTOR:
            vector += 1
            gap = 0
        else:
            move_at(
                False, <uint8_t*>s.columns[op.column] + row * op.width, out + gap, places[vector], count, op.width,
                op.code == BOOL,
            )
            gap += op.width
    if node.flexible:
        for r in range(count):
            out[places[vector][r] + gap] = 0


cdef int64_t find_parts(const Sink* s, const Node* node, int64_t row, Part* parts, int64_t* tail) noexcept nogil:
    """Find the vectors of a flat node from `row` on and the fixed bytes after the last; returns the number of vectors.
    """
    cdef int64_t k, vectors = 0, gap = 0
    cdef const Op* op
    for k in range(node.op_begin, node.op_end):
        op = &s.ops[k]
        if op.code != VECTOR:
            gap += op.width
            continue
        parts[vectors] = Part(
            gap, op, NULL, offset_at(s, op, row), s.widest[op.column], s.columns[op.column + 1],
            s.bytes[op.column + 1] // 4 - 4,
        )
        if not s.is_uniform[op.column]:
            parts[vectors].offsets = <const int32_t*>s.columns[op.column] + row
        vectors += 1
        gap = 0
    tail[0] = gap + node.flexible
    return vectors


cdef int64_t write_vectors(
    const Sink* s, const Part* parts, int64_t vectors, int64_t tail, uint8_t* out, int64_t row, int64_t count,
    int32_t[MAX_VECTORS + 1][BLOCK] places,
) noexcept nogil:
    """Write the vectors of `count` records; store in `places` where each record and each part after a vector begins.

    Returns the size of all records. Short int32 vectors are written as four numbers; the next part overwrites the
    surplus.
    """
    cdef int64_t k, r, begin, length, at = 0, room = s.size - (out - s.out)
    cdef const Part* part
    for r in range(count):
        places[0][r] = <int32_t>at
        for k in range(vectors):
            part = &parts[k]
            if part.offsets == NULL:
                begin, length = part.first + r * part.length, part.length
            else:
                begin, length = part.offsets[r], part.offsets[r + 1] - part.offsets[r]
            at += part.gap
            at += put_length(out + at, part.op.prefix, length)
            if part.op.width == 4 and length <= 4 and begin <= part.spare and at + 16 <= room:
                move32x4(out + at, part.values + begin * 4)
            else:
                move(out + at, values_of(s, part.op, row + r), length, part.op.width, part.op.is_bool)
            at += length * part.op.width
            places[k + 1][r] = <int32_t>at
        at += tail
    return at
