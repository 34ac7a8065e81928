"""Runs of flat records: found by their layout, read field by field.

A walk from length to length is a serial chain, so records are first compared with the layout of the record before
them: the places of their lengths, eight bytes at a time. Records of other layouts are chained first, to know where
each part begins.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kcore._ext.program cimport (
    BLOCK, BOOL, INT16, MAX_TEXT, MAX_VECTORS, MAX_WINDOWS, MIN_RUN, VARINT, VECTOR, Node, Op, can_shuffle, differ,
    gather, gather4, is_quad, is_utf8, load64, move, move32x4, move_at, move_vectors, put_ends,
)
from kcore._ext.walk cimport BAD_TEXT, Layout, Places, Walk, fail, peek_big, peek_prefix


cdef void expect(Layout* layout, const uint8_t* record, int64_t begin, int64_t end) noexcept nogil:
    """Bytes [begin, end) of the record are part of what tells its layout."""
    cdef int64_t k, window = layout.windows - 1
    if layout.windows > MAX_WINDOWS:
        return  # There are too many already.
    for k in range(begin, end):
        if window < 0 or k >= layout.start[window] + 8:
            window += 1
            if window == MAX_WINDOWS:
                layout.windows = MAX_WINDOWS + 1
                return
            layout.start[window], layout.mask[window], layout.windows = k, 0, window + 1
        (<uint8_t*>&layout.mask[window])[k - layout.start[window]] = 0xFF


cdef bint learn(Walk* w, const Node* node, Layout* layout, int64_t begin) noexcept nogil:
    """The layout of the record at `begin`, which was read before; False where it cannot be told by its lengths."""
    cdef const uint8_t* record = w.data + begin
    cdef int64_t k, length, taken, window, offset = 0
    cdef const Op* op
    layout.size = layout.windows = 0
    if begin < 8:
        return False  # A window may begin before a record that is shorter than 8 bytes.
    for k in range(node.op_begin, node.op_end):
        op = &w.ops[k]
        if op.code == VECTOR:
            taken = peek_prefix(record + offset, op, &length)
            expect(layout, record, offset, offset + taken)
            offset += taken + length * op.width
        else:
            offset += op.width
    if node.flexible:
        expect(layout, record, offset, offset + 1)
        if record[offset]:
            return False  # Unknown tags: each such record is walked.
        offset += 1
    if layout.windows > MAX_WINDOWS:
        return False
    for window in range(layout.windows):
        shift_back(layout, window, offset)
        layout.value[window] = load64(record + layout.start[window]) & layout.mask[window]
    layout.size = offset
    return True


cdef inline void shift_back(Layout* layout, int64_t window, int64_t size) noexcept nogil:
    """Begin a window so that its 8 bytes end no later than the record does: they must not be read past the end."""
    cdef uint8_t mask[16]
    cdef int64_t back = layout.start[window] + 8 - size
    if back > 0:
        memset(mask, 0, 16)
        memcpy(mask + back, &layout.mask[window], 8)
        memcpy(&layout.mask[window], mask, 8)
        layout.start[window] -= back


cdef bint is_alike(const uint8_t* record, const Layout* layout) noexcept nogil:
    cdef int64_t k
    for k in range(layout.windows):
        if load64(record + layout.start[k]) & layout.mask[k] != layout.value[k]:
            return False
    return True


cdef int64_t count_alike(const uint8_t* record, int64_t limit, const Layout* layout) noexcept nogil:
    """How many of the next `limit` records have that layout."""
    cdef int64_t done = 0, k, block, size = layout.size
    cdef uint64_t different = 0
    while done + MIN_RUN <= limit:
        block = min(<int64_t>BLOCK, limit - done)
        for k in range(layout.windows):
            different |= differ(record + layout.start[k], size, layout.mask[k], layout.value[k], block)
        if different:
            break
        done += block
        record += block * size
    while done < limit and is_alike(record, layout):
        done += 1
        record += size
    return done


cdef struct Link:
    const Op* op
    int64_t gap     # fixed bytes before the length
    int64_t length  # of the record before
    int64_t step    # bytes of that length and its elements


cdef int64_t chain(Walk* w, const Node* node, int64_t count, Places* places) noexcept nogil:
    """Where the next records and their vectors are; stops before the first that is wrong or unusual.

    A length is compared with that of the record before: where it is the same, the processor need not wait for it.
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
    """Bytes of a length that is short."""
    return 1 if op.prefix == VARINT else 2 if op.prefix == INT16 else 4


cdef int64_t find_links(const Walk* w, const Node* node, Link* links, int64_t* tail) noexcept nogil:
    """The vectors of a flat node, what lies before each, and after the last; how many they are."""
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
    """Add up the elements of chained records; False where a string is not UTF-8."""
    cdef int64_t k, r, vector = 0, total
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
                if not is_utf8(
                    w.data + places.begin[vector + 1][r] - places.length[vector][r], places.length[vector][r]
                ):
                    w.at = places.begin[vector + 1][r]
                    return fail(w, BAD_TEXT)
        vector += 1
    return True


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
            if op.width == 4 and length <= 4 and w.data + w.size - source >= 16:
                move32x4(values + filled * 4, source)  # Too many: the next row, or the column's slack, takes the rest.
            else:
                move(values + filled * op.width, source, length, op.width, op.is_bool)
            filled += length
            ends[r] = <int32_t>filled
        w.totals[op.column + 1] = filled
        vector += 1
        gap = 0


cdef bint check_texts(Walk* w, const Node* node, const Layout* layout, int64_t count) noexcept nogil:
    """Add up the elements of `count` records of equal layout; False where a string is not UTF-8."""
    cdef int64_t k, r, length, offset = 0
    cdef const Op* op
    for k in range(node.op_begin, node.op_end):
        op = &w.ops[k]
        if op.code != VECTOR:
            offset += op.width
            continue
        offset += peek_prefix(w.data + w.at + offset, op, &length)
        if op.is_text:
            for r in range(count):
                if not is_utf8(w.data + w.at + offset + r * layout.size, length):
                    w.at += offset + r * layout.size
                    return fail(w, BAD_TEXT)
        w.totals[op.column + 1] += count * length
        offset += length * op.width
    return True


cdef void copy_block(Walk* w, const Node* node, const Layout* layout, int64_t row, int64_t count) noexcept nogil:
    """Fill rows [row, row + count) from the records at `w.at`, all of that layout."""
    cdef int64_t length, filled
    cdef const uint8_t* source = w.data + w.at
    cdef const Op* op = &w.ops[node.op_begin]
    cdef const Op* end = &w.ops[node.op_end]
    while op < end:
        if op.code == VECTOR:
            source += peek_prefix(source, op, &length)
            filled = w.totals[op.column + 1]
            put_ends(<int32_t*>w.columns[op.column] + row + 1, <int32_t>filled, <int32_t>length, count)
            move_vectors(
                w.columns[op.column + 1] + filled * op.width, length * op.width, source, layout.size, count, length, op
            )
            w.totals[op.column + 1] += count * length
            source += length * op.width
        elif can_shuffle and is_quad(op, end):
            copy_quad(w, op, source, layout.size, row, count)
            source += 16
            op += 3
        else:
            gather(
                w.columns[op.column] + row * op.width, source, layout.size, count, op.width, op.code == BOOL
            )
            source += op.width
        op += 1
    w.at += count * layout.size


cdef void copy_quad(
    Walk* w, const Op* op, const uint8_t* source, int64_t size, int64_t row, int64_t count
) noexcept nogil:
    """Four adjacent int32 fields, four records at a time; the odd records at the end field by field."""
    cdef uint8_t* columns[4]
    cdef int64_t k, even = count & ~<int64_t>3
    for k in range(4):
        columns[k] = w.columns[op[k].column] + row * 4
        gather(columns[k] + even * 4, source + even * size + k * 4, size, count - even, 4, False)
    gather4(columns[0], columns[1], columns[2], columns[3], source, size, even)
