"""Bytes to columns: one pass measures and checks every length, the second fills columns that are just large enough.

A walk from length to length is a serial chain, so records are first compared with the layout of the record before
them; a run of equal layout is then copied field by field.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from kcore._ext.program cimport (
    BLOCK, BOOL, INT16, MAX_TEXT, MAX_VECTORS, MAX_WINDOWS, MIN_RUN, ROWS, STRUCT, VARINT, VECTOR, Node, Op,
    can_shuffle, differ, gather, gather4, is_quad, is_utf8, load64, move, move32x4, move_at, move_vectors, put_ends,
)

cdef enum:
    OTHERS = 32  # Records of other layouts are handled this many at a time.

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

PROBLEMS = (
    "",
    "the bytes end inside a value",
    "a varint is longer than 32 bits",
    "null, but not nullable",
    "a length is greater than the bytes left or than Kafka allows",
    "an array's count is greater than the bytes left can hold",
    "a string is not UTF-8",
    "tags are not in ascending order",
    "a tagged field is not as long as its size",
    "bytes are left over after the message",
    "",
)

cdef struct Layout:
    int64_t size       # of a record; 0 while unknown
    int64_t windows    # 8-byte places that tell the layout: where, which bits, what they must be
    int64_t start[MAX_WINDOWS]
    uint64_t mask[MAX_WINDOWS]
    uint64_t value[MAX_WINDOWS]

cdef struct Places:
    int32_t begin[MAX_VECTORS + 1][BLOCK]  # of the record, then of what follows each of its vectors
    int32_t length[MAX_VECTORS][BLOCK]

cdef struct Walk:
    const Node* nodes
    const Op* ops
    const uint8_t* data
    int64_t size
    int64_t at
    uint8_t** columns  # NULL while measuring
    int64_t* rows      # so far, by node
    int64_t* totals    # elements of a VECTOR's values, tags and bytes of unknown tags, by column
    Layout* layouts    # by node: of the last record
    int64_t* runs      # what measuring found: count * 2 + whether the layout is equal
    int64_t run_count
    int64_t run_room
    int64_t next_run
    int problem


cdef inline bint fail(Walk* w, Problem problem) noexcept nogil:
    w.problem = problem
    return False


cdef inline bint read_varint(Walk* w, int64_t* value) noexcept nogil:
    """An unsigned varint of at most five bytes and 32 bits."""
    cdef int64_t shift, read = 0
    cdef uint8_t byte
    for shift in range(0, 35, 7):
        if w.at >= w.size:
            return fail(w, SHORT)
        byte = w.data[w.at]
        w.at += 1
        read |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = read
            return True if read >> 32 == 0 else fail(w, BAD_VARINT)
    return fail(w, BAD_VARINT)


cdef inline int64_t peek_big(const uint8_t* at, int64_t width) noexcept nogil:
    if width == 2:
        return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16) >> 16
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline bint read_length(Walk* w, const Op* op, int64_t* length) noexcept nogil:
    """The length before a VECTOR or ROWS; -1 for null, which is refused where the field may not be."""
    cdef int64_t width
    if op.prefix == VARINT:
        if not read_varint(w, length):
            return False
        length[0] -= 1
    else:
        width = 2 if op.prefix == INT16 else 4
        if w.size - w.at < width:
            return fail(w, SHORT)
        length[0] = peek_big(w.data + w.at, width)
        w.at += width
    if length[0] < 0:
        length[0] = -1
        return op.nullable or fail(w, NULL_VALUE)
    return True


cdef inline void end_vector(Walk* w, const Op* op, int64_t row, bint is_null) noexcept nogil:
    if w.columns != NULL:
        (<int32_t*>w.columns[op.column])[row + 1] = <int32_t>w.totals[op.column + 1]
        if op.nullable:
            w.columns[op.column + 2][row] = not is_null


cdef bint read_vector(Walk* w, const Op* op, int64_t row) noexcept nogil:
    cdef int64_t length
    cdef int64_t* total = &w.totals[op.column + 1]
    if not read_length(w, op, &length):
        return False
    if length > 0:
        if length * op.width > w.size - w.at or op.is_text and length > MAX_TEXT:
            return fail(w, BAD_LENGTH)
        if w.columns != NULL:
            move(w.columns[op.column + 1] + total[0] * op.width, w.data + w.at, length, op.width, op.is_bool)
        elif op.is_text and not is_utf8(w.data + w.at, length):
            return fail(w, BAD_TEXT)
        total[0] += length
        w.at += length * op.width
    end_vector(w, op, row, length < 0)
    return True


cdef inline void end_rows(Walk* w, const Op* op, int64_t row, int64_t count) noexcept nogil:
    """Where the children of `row` end, for a ROWS or a STRUCT that may be null."""
    if w.columns != NULL:
        (<int32_t*>w.columns[op.column])[row + 1] = <int32_t>(w.rows[op.child] + (count if count > 0 else 0))
        if op.nullable and op.code == ROWS:
            w.columns[op.column + 1][row] = count >= 0


cdef bint read_rows(Walk* w, const Op* op, int64_t row) noexcept nogil:
    cdef int64_t count
    cdef const Node* node = &w.nodes[op.child]
    if not read_length(w, op, &count):
        return False
    # A row of no bytes would let a count allocate without end, so each is taken to have one.
    if count > (w.size - w.at) // (node.min_size if node.min_size > 1 else 1):
        return fail(w, BAD_COUNT)
    end_rows(w, op, row, count)
    if node.flat and count >= 2:
        return read_flat(w, op.child, count)
    while count > 0:
        if not read_row(w, op.child):
            return False
        count -= 1
    return True


cdef bint read_struct(Walk* w, const Op* op, int64_t row) noexcept nogil:
    cdef bint present = True
    if op.nullable:
        if w.at >= w.size:
            return fail(w, SHORT)
        present = w.data[w.at] < 0x80  # A negative byte is null (KIP-893).
        w.at += 1
        end_rows(w, op, row, present)
    return read_row(w, op.child) if present else True


cdef bint read_op(Walk* w, const Op* op, int64_t row) noexcept nogil:
    if op.code == VECTOR:
        return read_vector(w, op, row)
    if op.code == ROWS:
        return read_rows(w, op, row)
    if op.code == STRUCT:
        return read_struct(w, op, row)
    if w.size - w.at < op.width:
        return fail(w, SHORT)
    if w.columns != NULL:
        move(w.columns[op.column] + row * op.width, w.data + w.at, 1, op.width, op.code == BOOL)
    w.at += op.width
    return True


cdef bint read_row(Walk* w, int64_t child) noexcept nogil:
    """One struct, into the next row of its node."""
    cdef const Node* node = &w.nodes[child]
    cdef int64_t k, row = w.rows[child]
    w.rows[child] += 1
    for k in range(node.op_begin, node.op_end):
        if not read_op(w, &w.ops[k], row):
            return False
    return read_tags(w, node, row) if node.flexible else True


cdef bint read_tags(Walk* w, const Node* node, int64_t row) noexcept nogil:
    cdef int64_t left, tag, size, previous = -1, known = node.op_end
    if not read_varint(w, &left):
        return False
    while left > 0:
        left -= 1
        if not read_varint(w, &tag):
            return False
        if tag <= previous:
            return fail(w, BAD_TAG_ORDER)
        previous = tag
        if not read_varint(w, &size):
            return False
        if size > w.size - w.at:
            return fail(w, BAD_TAG_SIZE)
        while known < node.tag_end and w.ops[known].tag < tag:
            set_default(w, &w.ops[known], row)
            known += 1
        if known == node.tag_end or w.ops[known].tag != tag:
            keep_unknown(w, node.tag_column, row, tag, size)
        elif read_known(w, &w.ops[known], row, size):
            known += 1
        else:
            return False
    while known < node.tag_end:
        set_default(w, &w.ops[known], row)
        known += 1
    return True


cdef bint read_known(Walk* w, const Op* op, int64_t row, int64_t size) noexcept nogil:
    """A tagged field of the schema: it must fill the size that was announced."""
    cdef int64_t end = w.size
    w.size = w.at + size
    if not read_op(w, op, row):
        return False
    if w.at != w.size:
        return fail(w, BAD_TAG_SIZE)
    w.size = end
    return True


cdef void keep_unknown(Walk* w, int64_t column, int64_t row, int64_t tag, int64_t size) noexcept nogil:
    """What a newer peer sent: its row, its tag and its bytes."""
    cdef int64_t k = w.totals[column]
    cdef int64_t* filled = &w.totals[column + 3]
    if w.columns != NULL:
        (<int32_t*>w.columns[column])[k] = <int32_t>row
        (<uint32_t*>w.columns[column + 1])[k] = <uint32_t>tag
        (<int32_t*>w.columns[column + 2])[k + 1] = <int32_t>(filled[0] + size)
        memcpy(w.columns[column + 3] + filled[0], w.data + w.at, size)
    w.totals[column] += 1
    filled[0] += size
    w.at += size


cdef void set_default(Walk* w, const Op* op, int64_t row) noexcept nogil:
    """What a field holds whose tag was not sent."""
    cdef int64_t k, child_row
    if op.code == VECTOR:
        end_vector(w, op, row, op.fallback)
    elif op.code == ROWS:
        end_rows(w, op, row, -op.fallback)
    elif op.code == STRUCT:
        if op.nullable:
            end_rows(w, op, row, not op.fallback)
        if op.fallback:
            return
        child_row = w.rows[op.child]
        w.rows[op.child] += 1
        for k in range(w.nodes[op.child].op_begin, w.nodes[op.child].tag_end):
            set_default(w, &w.ops[k], child_row)
    elif w.columns != NULL and op.width == 16:
        memset(w.columns[op.column] + row * 16, 0, 16)
    elif w.columns != NULL:
        move(w.columns[op.column] + row * op.width, <const uint8_t*>&op.fallback, 1, op.width, op.code == BOOL)


cdef inline int64_t peek_prefix(const uint8_t* at, const Op* op, int64_t* length) noexcept nogil:
    """The length at a place that was read before; how many bytes it takes."""
    cdef int64_t shift = 0, taken = 0
    if op.prefix != VARINT:
        taken = 2 if op.prefix == INT16 else 4
        length[0] = peek_big(at, taken)
        return taken
    length[0] = -1
    while True:
        length[0] += <int64_t>(at[taken] & 0x7F) << shift
        shift += 7
        taken += 1
        if at[taken - 1] < 0x80:
            return taken


cdef void expect(Layout* layout, const uint8_t* record, int64_t begin, int64_t end) noexcept nogil:
    """Bytes [begin, end) of the record are part of what tells its layout."""
    cdef int64_t k, window = layout.windows - 1
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


cdef inline bint is_alike(const uint8_t* record, const Layout* layout) noexcept nogil:
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


cdef bint push_run(Walk* w, int64_t run) noexcept nogil:
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


cdef bint read_flat(Walk* w, int64_t child, int64_t count) noexcept nogil:
    """The `count` next structs of a flat node: runs of equal layout at once, others one by one."""
    cdef int64_t run
    while count > 0:
        if w.columns == NULL and not find_run(w, child, count):
            return False
        run = w.runs[w.next_run]
        w.next_run += 1
        count -= run >> 1
        if not (run_of_equals(w, child, run >> 1) if run & 1 else run_of_others(w, child, run >> 1)):
            return False
    return True


cdef bint find_run(Walk* w, int64_t child, int64_t count) noexcept nogil:
    cdef Layout* layout = &w.layouts[child]
    cdef int64_t fit, alike = 0
    if layout.size:
        fit = (w.size - w.at) // layout.size
        alike = count_alike(w.data + w.at, min(count, fit), layout)
    if alike >= MIN_RUN or alike == count:
        return push_run(w, alike << 1 | 1)
    return push_run(w, min(count, <int64_t>OTHERS) << 1)


cdef bint run_of_others(Walk* w, int64_t child, int64_t count) noexcept nogil:
    """`count` records of any layout: a chain of lengths, then field by field; what is unusual by `read_row`."""
    cdef Places places
    cdef int64_t begin = w.at, chained
    while count:
        chained = chain(w, &w.nodes[child], count, &places)
        if chained:
            begin = places.begin[0][chained - 1]
            if w.columns != NULL:
                copy_others(w, &w.nodes[child], w.rows[child], chained, &places)
            elif not count_others(w, &w.nodes[child], chained, &places):
                return False
            w.rows[child] += chained
            count -= chained
        if count:
            begin = w.at
            if not read_row(w, child):
                return False
            count -= 1
    if w.columns == NULL:
        learn(w, &w.nodes[child], &w.layouts[child], begin)
    return True


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


cdef bint run_of_equals(Walk* w, int64_t child, int64_t count) noexcept nogil:
    cdef const Node* node = &w.nodes[child]
    cdef Layout* layout = &w.layouts[child]
    cdef int64_t block, row = w.rows[child]
    w.rows[child] += count
    if w.columns == NULL:
        if not check_texts(w, node, layout, count):
            return False
        w.at += count * layout.size
    else:
        if not (layout.size and layout.size <= w.size - w.at and is_alike(w.data + w.at, layout)):
            learn(w, node, layout, w.at)
        while count:
            block = min(count, <int64_t>BLOCK)
            copy_block(w, node, layout, row, block)
            count -= block
            row += block
    return True


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


cdef void begin_offsets(Walk* w, int64_t nodes, int64_t ops) noexcept nogil:
    """Offsets begin at 0; every row then writes where it ends."""
    cdef int64_t k
    for k in range(ops):
        if w.ops[k].code == VECTOR or w.ops[k].code == ROWS or w.ops[k].code == STRUCT and w.ops[k].nullable:
            (<int32_t*>w.columns[w.ops[k].column])[0] = 0
    for k in range(nodes):
        if w.nodes[k].flexible:
            (<int32_t*>w.columns[w.nodes[k].tag_column + 2])[0] = 0


cdef class Reader:
    """Reads one message. `measure`, make room by what `rows` and `totals` say, then `fill`.

    `nodes` and `ops` are the program; the root is node 0. `data` stays alive as long as the reader does.
    """

    cdef Walk w
    cdef const int64_t[:, ::1] nodes
    cdef const int64_t[:, ::1] ops
    cdef const uint8_t[::1] data
    cdef readonly int64_t[::1] rows
    cdef readonly int64_t[::1] totals

    def __init__(
        self, const int64_t[:, ::1] nodes, const int64_t[:, ::1] ops, int64_t[::1] rows, int64_t[::1] totals,
        const uint8_t[::1] data,
    ):
        self.nodes, self.ops, self.rows, self.totals, self.data = nodes, ops, rows, totals, data
        self.w.nodes = <const Node*>&nodes[0, 0]
        self.w.ops = <const Op*>&ops[0, 0] if ops.shape[0] else NULL
        self.w.rows, self.w.totals = &rows[0], &totals[0]
        self.w.data = &data[0] if data.shape[0] else NULL
        self.w.layouts = <Layout*>calloc(nodes.shape[0], sizeof(Layout))
        if self.w.layouts == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.w.layouts)
        free(self.w.runs)

    def measure(self):
        """Count rows and elements; (what is wrong or "", the offset where)."""
        cdef Walk* w = &self.w
        w.size, w.at, w.columns, w.problem = self.data.shape[0], 0, NULL, 0
        with nogil:
            if read_row(w, 0) and w.at != w.size:
                fail(w, LEFT_OVER)
        if w.problem == NO_MEMORY:
            raise MemoryError
        return PROBLEMS[w.problem], w.at

    def fill(self, uint8_t[::1] arena, const int64_t[::1] places):
        """Fill the columns, column k at byte places[k] of the arena; only after a `measure` without a problem."""
        cdef Walk* w = &self.w
        cdef int64_t k
        cdef uint8_t** columns = <uint8_t**>calloc(places.shape[0], sizeof(uint8_t*))
        if columns == NULL:
            raise MemoryError
        for k in range(places.shape[0]):
            columns[k] = &arena[0] + places[k]
        self.rows[:] = 0
        self.totals[:] = 0
        w.columns, w.at, w.next_run = columns, 0, 0
        begin_offsets(w, self.nodes.shape[0], self.ops.shape[0])
        memset(w.layouts, 0, self.nodes.shape[0] * sizeof(Layout))
        with nogil:
            read_row(w, 0)
        free(columns)
