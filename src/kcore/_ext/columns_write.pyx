"""Columns to bytes: the exact size first, then every row.

`runs_write` has the fast way through many rows of fixed fields and vectors; here is the way through anything.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from kcore._ext.program cimport (
    BOOL, INT16, MAX_TEXT, MIN_RUN, OTHERS, ROWS, STRUCT, VARINT, VECTOR, Node, Op, is_utf8, move
)
from kcore._ext.runs_write cimport count_alike, write_others, write_run
from kcore._ext.sink cimport Sink, offsets_of, put_length, put_varint_at, varint_size

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


cdef inline void put_varint(Sink* s, int64_t value) noexcept nogil:
    s.at += put_varint_at(s.out + s.at, value)


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
