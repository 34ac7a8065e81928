"""Columns to bytes: the exact size first, then runs of records of equal layout field by field."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from kcore._ext.program cimport (
    BLOCK, BOOL, INT16, MAX_TEXT, MAX_VECTORS, MIN_RUN, ROWS, STRUCT, VARINT, VECTOR, Node, Op, can_shuffle, is_quad,
    is_utf8, move, move16, move32, move32x4, move_at, move_vectors, put_bytes, scatter, scatter4,
)

cdef enum:
    OTHERS = 32  # Records of other layouts are handled this many at a time.

cdef enum Problem:
    NOT_ASCENDING = 1
    TOO_LONG = 2
    BAD_TEXT = 3

PROBLEMS = (
    "",
    "the offsets are not ascending",
    "a string is longer than the 32767 bytes that Kafka allows",
    "a string is not UTF-8",
)

cdef struct Sink:
    const Node* nodes
    const Op* ops
    const uint8_t** columns
    int64_t* tag_counts  # unknown tags, by node
    int64_t* is_uniform  # by column of offsets: whether all rows have as many elements, and the most that one has
    int64_t* widest
    const int64_t* bytes  # by column
    uint8_t* out
    int64_t at
    int64_t size         # of the whole message


cdef inline const int32_t* offsets_of(const Sink* s, const Op* op) noexcept nogil:
    return <const int32_t*>s.columns[op.column]


cdef inline int64_t varint_size(int64_t value) noexcept nogil:
    return 1 if value < 1 << 7 else 2 if value < 1 << 14 else 3 if value < 1 << 21 else 4 if value < 1 << 28 else 5


cdef inline bint is_null(const Sink* s, const Op* op, int64_t row) noexcept nogil:
    """Of a nullable VECTOR, ROWS or STRUCT."""
    if op.code == STRUCT:
        return offsets_of(s, op)[row] == offsets_of(s, op)[row + 1]
    return not s.columns[op.column + (2 if op.code == VECTOR else 1)][row]


cdef int check_offsets(Sink* s, const Op* op, int64_t rows) noexcept nogil:
    """What is wrong with the offsets of a VECTOR or ROWS, 0 if nothing; notes the widest row."""
    cdef const int32_t* offsets = offsets_of(s, op)
    cdef int32_t length, different = 0, negative = 0, first = offsets[1] - offsets[0] if rows else 0
    cdef int32_t widest = first
    cdef int64_t k
    for k in range(rows):
        length = offsets[k + 1] - offsets[k]
        different |= length ^ first
        negative |= length
    if different:
        for k in range(rows):
            length = offsets[k + 1] - offsets[k]
            widest = length if length > widest else widest
    s.is_uniform[op.column], s.widest[op.column] = different == 0, widest
    if negative < 0:
        return NOT_ASCENDING
    if not op.is_text:
        return 0
    if widest > MAX_TEXT:
        return TOO_LONG
    for k in range(rows):
        if not is_utf8(s.columns[op.column + 1] + offsets[k], offsets[k + 1] - offsets[k]):
            return BAD_TEXT
    return 0


cdef int64_t size_prefixes(const Sink* s, const Op* op, int64_t begin, int64_t end) noexcept nogil:
    cdef const int32_t* offsets = offsets_of(s, op)
    cdef int64_t row, size = 0
    if op.prefix != VARINT:
        return (end - begin) * (2 if op.prefix == INT16 else 4)
    if s.widest[op.column] < 127:
        return end - begin
    for row in range(begin, end):
        size += varint_size(offsets[row + 1] - offsets[row] + 1)
    return size


cdef int64_t size_op(const Sink* s, const Op* op, int64_t begin, int64_t end) noexcept nogil:
    """Bytes of a field in the rows [begin, end)."""
    cdef const int32_t* offsets
    if op.code == STRUCT and not op.nullable:
        return size_rows(s, op.child, begin, end)
    if op.code < VECTOR:
        return (end - begin) * op.width
    offsets = offsets_of(s, op)
    if op.code == STRUCT:
        return end - begin + size_rows(s, op.child, offsets[begin], offsets[end])
    if op.code == ROWS:
        return size_prefixes(s, op, begin, end) + size_rows(s, op.child, offsets[begin], offsets[end])
    return size_prefixes(s, op, begin, end) + op.width * <int64_t>(offsets[end] - offsets[begin])


cdef int64_t size_rows(const Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k, size = 0
    for k in range(node.op_begin, node.op_end):
        size += size_op(s, &s.ops[k], begin, end)
    if not node.flexible:
        return size
    if node.op_end == node.tag_end and s.tag_counts[child] == 0:
        return size + end - begin
    for k in range(begin, end):
        size += size_tags(s, child, k)
    return size


cdef int64_t first_tag(const Sink* s, int64_t child, int64_t row) noexcept nogil:
    """The first unknown tag of `row` or of a row after it."""
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
        if not is_default(s, &s.ops[k], row):
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
    """Whether a tagged field is left out."""
    cdef uint8_t wire[16]
    cdef int64_t k
    if op.code == STRUCT:
        if op.nullable and is_null(s, op, row):
            return op.fallback
        return not op.fallback and is_default_row(s, op.child, offsets_of(s, op)[row] if op.nullable else row)
    if op.code >= VECTOR:
        if op.nullable and is_null(s, op, row):
            return op.fallback
        return not op.fallback and offsets_of(s, op)[row] == offsets_of(s, op)[row + 1]
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


cdef int64_t put_varint_at(uint8_t* target, int64_t value) noexcept nogil:
    cdef int64_t taken = 0
    while value >= 0x80:
        target[taken] = <uint8_t>(value | 0x80)
        value >>= 7
        taken += 1
    target[taken] = <uint8_t>value
    return taken + 1


cdef inline void put_varint(Sink* s, int64_t value) noexcept nogil:
    s.at += put_varint_at(s.out + s.at, value)


cdef inline int64_t put_length(uint8_t* target, int64_t prefix, int64_t length) noexcept nogil:
    """The length before a VECTOR or ROWS, -1 for null; how many bytes it takes."""
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


cdef void write_op(Sink* s, const Op* op, int64_t row) noexcept nogil:
    cdef int64_t begin = row, end = row + 1
    cdef bint null = op.nullable and op.code >= VECTOR and is_null(s, op, row)
    if op.code < VECTOR:
        move(s.out + s.at, s.columns[op.column] + row * op.width, 1, op.width, op.code == BOOL)
        s.at += op.width
        return
    if op.code != STRUCT or op.nullable:
        begin, end = offsets_of(s, op)[row], offsets_of(s, op)[row + 1]
    if op.code != STRUCT:
        s.at += put_length(s.out + s.at, op.prefix, -1 if null else end - begin)
    elif op.nullable:
        s.out[s.at] = 0xFF if null else 1
        s.at += 1
    if op.code == VECTOR:
        move(s.out + s.at, s.columns[op.column + 1] + begin * op.width, end - begin, op.width, op.is_bool)
        s.at += (end - begin) * op.width
    else:
        write_rows(s, op.child, begin, end)


cdef void write_rows(Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef int64_t alike
    while begin < end:
        if not node.flat or s.tag_counts[child]:
            write_row(s, child, begin)
            begin += 1
            continue
        alike = count_alike(s, node, begin, end)
        if alike >= MIN_RUN:
            write_run(s, node, begin, alike)
        else:
            alike = min(end - begin, <int64_t>OTHERS)
            write_others(s, node, begin, alike)
        begin += alike


cdef void write_row(Sink* s, int64_t child, int64_t row) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k
    for k in range(node.op_begin, node.op_end):
        write_op(s, &s.ops[k], row)
    if node.flexible:
        if node.op_end == node.tag_end and s.tag_counts[child] == 0:
            s.out[s.at] = 0
            s.at += 1
        else:
            write_tags(s, child, row)


cdef void write_tags(Sink* s, int64_t child, int64_t row) noexcept nogil:
    """Known tags that are not their default, merged with the unknown ones, ascending."""
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k, count = 0, unknown = 0, unknown_end = 0
    if s.tag_counts[child]:
        unknown, unknown_end = first_tag(s, child, row), first_tag(s, child, row + 1)
    for k in range(node.op_end, node.tag_end):
        count += not is_default(s, &s.ops[k], row)
    put_varint(s, count + unknown_end - unknown)
    for k in range(node.op_end, node.tag_end):
        if not is_default(s, &s.ops[k], row):
            while unknown < unknown_end and (<const uint32_t*>s.columns[node.tag_column + 1])[unknown] < s.ops[k].tag:
                write_unknown(s, node.tag_column, unknown)
                unknown += 1
            put_varint(s, s.ops[k].tag)
            put_varint(s, size_op(s, &s.ops[k], row, row + 1))
            write_op(s, &s.ops[k], row)
    for k in range(unknown, unknown_end):
        write_unknown(s, node.tag_column, k)


cdef void write_unknown(Sink* s, int64_t column, int64_t k) noexcept nogil:
    cdef const int32_t* ends = <const int32_t*>s.columns[column + 2]
    cdef int64_t size = ends[k + 1] - ends[k]
    put_varint(s, (<const uint32_t*>s.columns[column + 1])[k])
    put_varint(s, size)
    memcpy(s.out + s.at, s.columns[column + 3] + ends[k], size)
    s.at += size


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


cdef class Writer:
    """Writes one message. `measure` checks the columns and gives the size; then `fill` or `to_bytes`.

    `nodes`, `ops`: the program. `arrays`: its columns, C-contiguous, of the right dtypes and lengths.
    `rows`, `tag_counts`: how many rows and unknown tags each node has.
    """

    cdef Sink s
    cdef const int64_t[:, ::1] nodes
    cdef const int64_t[:, ::1] ops
    cdef const int64_t[::1] rows
    cdef int64_t[::1] tag_counts
    cdef Py_buffer* buffers
    cdef int64_t buffer_count
    cdef readonly int64_t size

    def __init__(
        self, const int64_t[:, ::1] nodes, const int64_t[:, ::1] ops, list arrays, const int64_t[::1] rows,
        int64_t[::1] tag_counts,
    ):
        self.nodes, self.ops, self.rows, self.tag_counts = nodes, ops, rows, tag_counts
        cdef Py_ssize_t count = max(len(arrays), 1)
        self.buffers = <Py_buffer*>calloc(count, sizeof(Py_buffer))
        self.s.columns = <const uint8_t**>calloc(count, sizeof(uint8_t*))
        self.s.is_uniform = <int64_t*>calloc(3 * count, sizeof(int64_t))
        if self.buffers == NULL or self.s.columns == NULL or self.s.is_uniform == NULL:
            raise MemoryError
        self.s.widest, self.s.bytes = self.s.is_uniform + count, self.s.is_uniform + 2 * count
        for array in arrays:
            PyObject_GetBuffer(array, &self.buffers[self.buffer_count], PyBUF_SIMPLE | PyBUF_FORMAT)
            self.s.columns[self.buffer_count] = <const uint8_t*>self.buffers[self.buffer_count].buf
            self.s.is_uniform[2 * count + self.buffer_count] = self.buffers[self.buffer_count].len
            self.buffer_count += 1
        self.s.nodes = <const Node*>&nodes[0, 0]
        self.s.ops = <const Op*>&ops[0, 0] if ops.shape[0] else NULL
        self.s.tag_counts = &tag_counts[0]

    def __dealloc__(self):
        for k in range(self.buffer_count):
            PyBuffer_Release(&self.buffers[k])
        free(self.buffers)
        free(self.s.columns)
        free(self.s.is_uniform)

    def measure(self):
        """Check offsets and texts, then set `size`; (what is wrong or "", the column)."""
        cdef int64_t child, k
        cdef int problem
        for child in range(self.nodes.shape[0]):
            for k in range(self.s.nodes[child].op_begin, self.s.nodes[child].tag_end):
                if self.s.ops[k].code < VECTOR or self.s.ops[k].code == STRUCT and not self.s.ops[k].nullable:
                    continue
                problem = check_offsets(&self.s, &self.s.ops[k], self.rows[child])
                if problem:
                    return PROBLEMS[problem], self.s.ops[k].column
        self.size = self.s.size = size_rows(&self.s, 0, 0, 1)
        return "", 0

    def fill(self, uint8_t[::1] out):
        """Write into `out`, which has room for `size` bytes; only after a `measure` without a problem."""
        self.s.out, self.s.at = &out[0], 0
        with nogil:
            write_rows(&self.s, 0, 0, 1)

    def to_bytes(self):
        """The message as new bytes."""
        data = PyBytes_FromStringAndSize(NULL, self.size)
        self.s.out, self.s.at = <uint8_t*>PyBytes_AS_STRING(data), 0
        with nogil:
            write_rows(&self.s, 0, 0, 1)
        return data
