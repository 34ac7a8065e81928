"""Reads many records at once: those of one layout step by step, flat records of different layouts field by field.

The begin of a field depends on all lengths before it: a serial chain. Records of one layout do not need the chain. For
others, `chain` first finds where each part of each record begins.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kcore._ext.columns.fused cimport fields_of, gather_fused
from kcore._ext.columns.program cimport (
    BOOL, INT16, MAX_TEXT, MAX_VECTORS, VARINT, VECTOR, Node, Op, default_bytes, gather, is_utf8, move,
    move32x4, move_at, move_vectors, put_bytes, put_ends, put_ends_apart, repeat, spread,
)
from kcore._ext.columns.steps cimport BEGINS, DUO, ENDS, FIELD, VALID, VALUES, Step, Steps, block_of
from kcore._ext.columns.walk cimport BAD_TEXT, Layout, Places, Walk, fail, peek_big


cdef struct Link:
    const Op* op
    int64_t gap     # fixed bytes before the length
    int64_t length  # the length in the record before
    int64_t step    # bytes of the length and its elements


cdef int64_t chain(Walk* w, const Node* node, int64_t count, Places* places) noexcept nogil:
    """Finds where the next records and their vectors begin; ends before the first invalid or unusual record.

    Each length is compared with the length in the record before. If they are equal, the processor can go on with the
    predicted length before the load completes.
    """
    cdef Link links[MAX_VECTORS]
    cdef Link* link
    cdef const uint8_t* data = w.data
    cdef int64_t k, r, length, tail, size = w.size, at = w.at
    cdef int64_t vectors = find_links(w, node, links, &tail)
    for r in range(count):
        w.at = places.begin[0][r] = <int32_t>at
        for k in range(vectors):
            link = &links[k]
            at += link.gap
            if size - at < 4:
                return r
            if link.op.prefix == VARINT:
                length = <int64_t>data[at] - 1
            else:
                length = peek_big(data + at, 2 if link.op.prefix == INT16 else 4)
            if length != link.length:
                if length < 0 or link.op.prefix == VARINT and length >= 127 or link.op.is_text and length > MAX_TEXT:
                    return r
                link.length = length
                link.step = length * link.op.width + prefix_width(link.op)
            at += link.step
            if at > size:
                return r
            places.begin[k + 1][r] = <int32_t>at
            places.length[k][r] = <int32_t>length
        at += tail
        if at > size or node.flexible and data[at - 1]:
            return r
    w.at = at
    return count


cdef inline int64_t prefix_width(const Op* op) noexcept nogil:
    """The number of bytes of an encoded short length."""
    return 1 if op.prefix == VARINT else 2 if op.prefix == INT16 else 4


cdef int64_t find_links(const Walk* w, const Node* node, Link* links, int64_t* tail) noexcept nogil:
    """Find the vectors of a flat node and the fixed bytes before each and after the last; returns the number of
    vectors.
    """
    cdef int64_t k, vectors = 0, gap = 0
    for k in range(node.op_begin, node.op_end):
        if w.ops[k].code == VECTOR:
            links[vectors].op, links[vectors].gap = &w.ops[k], gap
            links[vectors].length, links[vectors].step = 0, prefix_width(&w.ops[k])
            vectors += 1
            gap = 0
        else:
            gap += w.ops[k].width
    tail[0] = gap + node.flexible
    return vectors


cdef bint count_others(Walk* w, const Node* node, int64_t count, const Places* places) noexcept nogil:
    """Add the elements of chained records to the totals; False if a string is not UTF-8."""
    cdef int64_t k, r, begin, vector = 0, total, first = w.size
    cdef const Op* op
    for k in range(node.op_begin, node.op_end):
        op = &w.ops[k]
        if op.code != VECTOR:
            continue
        total = 0
        for r in range(count):
            total += places.length[vector][r]
        w.totals[op.column + 1] += total
        if op.is_text:
            for r in range(count):
                begin = places.begin[vector + 1][r] - places.length[vector][r]
                if not is_utf8(w.data + begin, places.length[vector][r]):
                    first = min(first, begin)
                    break
        vector += 1
    return first == w.size or fail_at(w, first)


cdef inline bint fail_at(Walk* w, int64_t at) noexcept nogil:
    """Fail with the offset of the first string that is not UTF-8."""
    w.at = at
    return fail(w, BAD_TEXT)


cdef void copy_others(Walk* w, const Node* node, int64_t row, int64_t count, const Places* places) noexcept nogil:
    """Fill rows [row, row + count) from chained records."""
    cdef int64_t k, r, vector = 0, gap = 0, filled, length
    cdef const Op* op
    cdef int32_t* ends
    cdef uint8_t* values
    cdef const uint8_t* source
    for k in range(node.op_begin, node.op_end):
        op = &w.ops[k]
        if op.code != VECTOR:
            move_at(
                True, w.columns[op.column] + row * op.width, <uint8_t*>w.data + gap, places.begin[vector], count,
                op.width, op.code == BOOL,
            )
            gap += op.width
            continue
        filled = w.totals[op.column + 1]
        ends = <int32_t*>w.columns[op.column] + row + 1
        values = w.columns[op.column + 1]
        for r in range(count):
            length = places.length[vector][r]
            source = w.data + places.begin[vector + 1][r] - length * op.width
            if op.begins >= 0:
                (<int64_t*>w.columns[op.begins])[row + r] = source - w.data
            elif op.width == 4 and length <= 4 and w.data + w.size - source >= 16:
                move32x4(values + filled * 4, source)  # The next row overwrites the surplus, or the column has slack.
            else:
                move(values + filled * op.width, source, length, op.width, op.is_bool)
            filled += length
            ends[r] = <int32_t>filled
        w.totals[op.column + 1] = filled
        vector += 1
        gap = 0


cdef bint count_run(Walk* w, const Layout* layout, int64_t count) noexcept nogil:
    """Move past `count` records of the layout and add their elements to the totals; False if a string is not UTF-8."""
    cdef const Steps* steps = &layout.steps
    cdef int64_t k, r, first = w.size
    cdef const Step* step
    cdef const uint8_t* text
    for k in range(steps.count):
        step = &steps.step[k]
        if step.kind == VALUES and step.op.is_text:
            text = w.data + w.at + step.offset
            for r in range(count):
                if not is_utf8(text + r * steps.size, step.length):
                    first = min(first, w.at + step.offset + r * steps.size)
                    break
    if first < w.size:
        return fail_at(w, first)
    for k in range(steps.counters):
        total_of(w, steps.counter[k].key)[0] += count * steps.counter[k].each
    w.at += count * steps.size
    return True


cdef void copy_run(Walk* w, Layout* layout, int64_t count) noexcept nogil:
    """Fill columns from the `count` records at `w.at`, in blocks that stay in the cache."""
    cdef Steps* steps = &layout.steps
    cdef int64_t k, block
    for k in range(steps.counters):
        steps.counter[k].base = total_of(w, steps.counter[k].key)[0]
    while count:
        block = min(count, block_of(steps))
        copy_block(w, steps, w.data + w.at, block)
        for k in range(steps.counters):
            steps.counter[k].base += block * steps.counter[k].each
        w.at += block * steps.size
        count -= block
    for k in range(steps.counters):
        total_of(w, steps.counter[k].key)[0] = steps.counter[k].base


cdef void copy_block(Walk* w, const Steps* steps, const uint8_t* records, int64_t count) noexcept nogil:
    """Fill columns from `count` records at `records`: bytes of the message, or the joined pieces of mixed records."""
    cdef int64_t row, each
    cdef const uint8_t* source
    cdef const Op* op
    cdef const Step* step = &steps.step[0]
    cdef const Step* end = step + steps.count
    while step < end:
        op, source = step.op, records + step.offset
        row, each = steps.counter[step.rows].base + step.row, steps.counter[step.rows].each
        if step.kind == FIELD:
            copy_field(w.columns[op.column] + row * op.width, each, source, steps.size, count, op)
        elif step.kind <= DUO:
            gather_fused(w.columns, step, each, records, steps.size, row, count)
            step += fields_of(step.kind) - 1
        elif step.kind == ENDS:
            copy_ends(<int32_t*>w.columns[op.column] + row + 1, each, step, steps, count)
        elif step.kind == VALUES:
            copy_values(w.columns[op.column + 1], source, steps.size, step, steps, count)
        elif step.kind == BEGINS:
            copy_begins(<int64_t*>w.columns[op.begins] + row, each, source - w.data, steps.size, count)
        elif step.kind == VALID:
            put_bytes(w.columns[op.column + (2 if op.code == VECTOR else 1)] + row, each, step.length, count)
        else:
            put_default(w.columns[op.column] + row * op.width, each, op, count)
        step += 1


cdef inline void copy_field(
    uint8_t* target, int64_t each, const uint8_t* source, int64_t size, int64_t count, const Op* op
) noexcept nogil:
    if each == 1:
        gather(target, source, size, count, op.width, op.code == BOOL)
    else:
        spread(target, each * op.width, source, size, count, op.width, op.code == BOOL)


cdef inline void copy_ends(
    int32_t* ends, int64_t each, const Step* step, const Steps* steps, int64_t count
) noexcept nogil:
    cdef int64_t end = steps.counter[step.items].base + step.item, length = steps.counter[step.items].each
    if each == 1:
        put_ends(ends, <int32_t>(end - length), <int32_t>length, count)
    else:
        put_ends_apart(ends, each, <int32_t>end, <int32_t>length, count)


cdef inline void copy_begins(int64_t* begins, int64_t each, int64_t at, int64_t size, int64_t count) noexcept nogil:
    cdef int64_t k
    for k in range(count):
        begins[k * each] = at + k * size


cdef inline void copy_values(
    uint8_t* values, const uint8_t* source, int64_t size, const Step* step, const Steps* steps, int64_t count
) noexcept nogil:
    cdef int64_t width = step.op.width, filled = steps.counter[step.items].base + step.item
    move_vectors(
        values + filled * width, steps.counter[step.items].each * width, source, size, count, step.length, step.op
    )


cdef inline void put_default(uint8_t* target, int64_t each, const Op* op, int64_t count) noexcept nogil:
    cdef uint8_t value[16]
    default_bytes(op, value)
    repeat(target, each * op.width, value, op.width, count)
