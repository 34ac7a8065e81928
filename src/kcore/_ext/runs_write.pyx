"""Runs of flat records: rows whose vectors are of equal length are written field by field, others vectors first."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kcore._ext.program cimport (
    BLOCK, BOOL, INT16, MAX_VECTORS, VARINT, VECTOR, Node, Op, can_shuffle, is_quad, move, move32x4, move_at,
    move_vectors, put_bytes, scatter, scatter4,
)
from kcore._ext.sink cimport Sink, offsets_of, put_length, varint_size


cdef int64_t count_alike(const Sink* s, const Node* node, int64_t begin, int64_t end) noexcept nogil:
    """How many rows from `begin` have vectors as long as its own."""
    cdef int64_t k, row, block, limit = end
    cdef int32_t length, different
    cdef const int32_t* offsets
    for k in range(node.op_begin, node.op_end):
        if s.ops[k].code != VECTOR or s.is_uniform[s.ops[k].column]:
            continue
        offsets = offsets_of(s, &s.ops[k])
        length = offsets[begin + 1] - offsets[begin]
        row = begin
        while row + BLOCK <= limit:
            different = 0
            for block in range(row, row + BLOCK):
                different |= offsets[block + 1] - offsets[block] ^ length
            if different:
                break
            row += BLOCK
        while row < limit and offsets[row + 1] - offsets[row] == length:
            row += 1
        limit = row
    return limit - begin


cdef void write_run(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil:
    """Rows of equal layout, a block at a time so that what is written is still in the L1 cache."""
    cdef int64_t block, size = node.flexible, k, length
    cdef const Op* op
    for k in range(node.op_begin, node.op_end):
        op = &s.ops[k]
        size += op.width
        if op.code == VECTOR:
            length = offsets_of(s, op)[row + 1] - offsets_of(s, op)[row]
            size += op.width * (length - 1) + (
                varint_size(length + 1) if op.prefix == VARINT else 2 if op.prefix == INT16 else 4
            )
    while count:
        block = min(count, <int64_t>BLOCK)
        write_block(s, node, row, block, size)
        s.at += block * size
        row += block
        count -= block


cdef void write_block(const Sink* s, const Node* node, int64_t row, int64_t count, int64_t size) noexcept nogil:
    """Rows [row, row + count), all of one layout, as records of that size."""
    cdef uint8_t length_bytes[8]
    cdef int64_t k, begin, length, taken
    cdef const Op* op = &s.ops[node.op_begin]
    cdef const Op* end = &s.ops[node.op_end]
    cdef uint8_t* target = s.out + s.at
    while op < end:
        if op.code == VECTOR:
            begin = offsets_of(s, op)[row]
            length = offsets_of(s, op)[row + 1] - begin
            taken = put_length(length_bytes, op.prefix, length)
            for k in range(taken):
                put_bytes(target + k, size, length_bytes[k], count)
            target += taken
            move_vectors(
                target, size, s.columns[op.column + 1] + begin * op.width, length * op.width, count, length, op
            )
            target += length * op.width
        elif can_shuffle and is_quad(op, end):
            write_quad(s, op, target, size, row, count)
            target += 16
            op += 3
        else:
            scatter(target, size, s.columns[op.column] + row * op.width, count, op.width, op.code == BOOL)
            target += op.width
        op += 1
    if node.flexible:
        put_bytes(target, size, 0, count)


cdef void write_quad(
    const Sink* s, const Op* op, uint8_t* target, int64_t size, int64_t row, int64_t count
) noexcept nogil:
    """Four adjacent int32 fields, four records at a time; the odd records at the end field by field."""
    cdef const uint8_t* columns[4]
    cdef int64_t k, even = count & ~<int64_t>3
    for k in range(4):
        columns[k] = s.columns[op[k].column] + row * 4
        scatter(target + even * size + k * 4, size, columns[k] + even * 4, count - even, 4, False)
    scatter4(target, size, columns[0], columns[1], columns[2], columns[3], even)


cdef struct Part:
    int64_t gap      # fixed bytes before the vector
    const Op* op
    const int32_t* offsets
    const uint8_t* values
    int64_t spare    # elements before this one have 16 bytes to load


cdef void write_others(Sink* s, const Node* node, int64_t row, int64_t count) noexcept nogil:
    """At most BLOCK rows of any layout: the vectors first, record by record, then the fields between them."""
    cdef int32_t places[MAX_VECTORS + 1][BLOCK]
    cdef Part parts[MAX_VECTORS]
    cdef int64_t k, r, vector = 0, gap = 0, tail, vectors = find_parts(s, node, row, parts, &tail)
    cdef const Op* op
    cdef uint8_t* out = s.out + s.at
    s.at += write_vectors(parts, vectors, tail, out, s.size - s.at, count, places)
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
    """The vectors of a flat node from `row` on, and the fixed bytes after the last; how many they are."""
    cdef int64_t k, vectors = 0, gap = 0
    cdef const Op* op
    for k in range(node.op_begin, node.op_end):
        op = &s.ops[k]
        if op.code != VECTOR:
            gap += op.width
            continue
        parts[vectors] = Part(
            gap, op, offsets_of(s, op) + row, s.columns[op.column + 1], s.bytes[op.column + 1] // 4 - 4
        )
        vectors += 1
        gap = 0
    tail[0] = gap + node.flexible
    return vectors


cdef int64_t write_vectors(
    const Part* parts, int64_t vectors, int64_t tail, uint8_t* out, int64_t room, int64_t count,
    int32_t[MAX_VECTORS + 1][BLOCK] places,
) noexcept nogil:
    """The vectors of `count` records, and where each record and what follows its vectors begin; the size of all.

    Few int32 are written as four: what is too many is written over by what follows, as nothing behind is written yet.
    """
    cdef int64_t k, r, begin, length, at = 0
    cdef const Part* part
    for r in range(count):
        places[0][r] = <int32_t>at
        for k in range(vectors):
            part = &parts[k]
            begin, length = part.offsets[r], part.offsets[r + 1] - part.offsets[r]
            at += part.gap
            at += put_length(out + at, part.op.prefix, length)
            if part.op.width == 4 and length <= 4 and begin <= part.spare and at + 16 <= room:
                move32x4(out + at, part.values + begin * 4)
            else:
                move(out + at, part.values + begin * part.op.width, length, part.op.width, part.op.is_bool)
            at += length * part.op.width
            places[k + 1][r] = <int32_t>at
        at += tail
    return at
