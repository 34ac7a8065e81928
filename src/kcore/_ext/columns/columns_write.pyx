"""Writes columns to bytes: computes the exact size first, then writes every row.

This module writes any row. `layout_write`, `runs_write` and `mixed_write` write many similar rows faster. Offsets,
validity flags and the start of each span decide where a value goes. A Writer copies these columns, so that nobody can
change them between the check and the write. If all rows have the same length, it does not copy the offsets, since it
does not read them again. Values are read once, when they are written.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from kcore._ext.columns.column_tables cimport Tables
from kcore._ext.columns.columns_size cimport find_absent, first_tag, has_tags, size_op, size_rows
from kcore._ext.columns.layout_write cimport find_layout
from kcore._ext.columns.mixed_write cimport can_be_mixed, write_mixed
from kcore._ext.columns.program cimport (
    BOOL, FEW, MAX_TEXT, OTHERS, ROWS, STRUCT, VECTOR, Node, Op, is_utf8, move, move_one,
)
from kcore._ext.columns.runs_write cimport write_others, write_run
from kcore._ext.wire.sink cimport (
    Layout, Sink, is_null, is_unset, length_at, offset_at, put_length, put_varint_at, values_of,
)
from kcore._ext.columns.steps cimport MAX_BACKOFF

cdef enum Problem:
    NOT_ASCENDING = 1
    TOO_LONG = 2
    BAD_TEXT = 3
    NULL_HAS_ELEMENTS = 4
    NOT_ONE = 5
    OUTSIDE = 6
    NO_MEMORY = 7

PROBLEMS = (
    "",
    "the offsets are not ascending",
    "a string is longer than the 32767 bytes that Kafka allows",
    "a string is not UTF-8",
    "a row that is null has elements",
    "a row has more than one struct",
    "a row is not within the column's bytes",
    "",
)


cdef bint are_alike(Sink* s, const Op* op, int64_t rows) noexcept nogil:
    """True if all rows have the same number of elements. Then offsets are computed and not read again."""
    cdef const int32_t* offsets = <const int32_t*>s.columns[op.column]
    cdef int32_t different = 0, first = offsets[1] - offsets[0] if rows else 0
    cdef int64_t k
    for k in range(rows):
        different |= (offsets[k + 1] - offsets[k]) ^ first
    s.is_uniform[op.column], s.widest[op.column] = different == 0, first
    return different == 0


cdef int copy_offsets(Sink* s, const Op* op, int64_t rows) noexcept nogil:
    """Copy the offsets of a field and store the length of the longest row. Returns a Problem of the offsets, or 0."""
    cdef int32_t* offsets = <int32_t*>malloc((rows + 1) * sizeof(int32_t))
    cdef int32_t length, widest = 0, negative = 0
    cdef int64_t k
    if offsets == NULL:
        return NO_MEMORY
    s.copies[op.column] = <uint8_t*>offsets
    memcpy(offsets, s.columns[op.column], (rows + 1) * sizeof(int32_t))
    s.columns[op.column] = <const uint8_t*>offsets
    for k in range(rows):
        length = offsets[k + 1] - offsets[k]
        negative |= length
        widest = length if length > widest else widest
    s.widest[op.column] = widest
    return NOT_ASCENDING if negative < 0 or offsets[0] != 0 else 0


cdef int check_offsets(Sink* s, const Op* op, int64_t rows) noexcept nogil:
    """The Problem of a field's offsets, nulls, begins or strings; 0 if there is none.

    The last offset is compared with the number of elements, since the array may have changed after the wrapper's check.
    """
    cdef int problem = 0
    if not are_alike(s, op, rows):
        problem = copy_offsets(s, op, rows)
    elif s.widest[op.column] < 0:
        problem = NOT_ASCENDING
    if problem:
        return problem
    if offset_at(s, op, rows) > elements_of(s, op):
        return OUTSIDE
    if op.code == STRUCT and s.widest[op.column] > 1:
        return NOT_ONE
    if op.code != STRUCT and op.nullable and not nulls_are_empty(s, op, rows):
        return NULL_HAS_ELEMENTS
    if op.begins >= 0 and s.columns[op.begins] != NULL and not are_inside(s, op, rows):
        return OUTSIDE
    if not op.is_text:
        return 0
    if s.widest[op.column] > MAX_TEXT:
        return TOO_LONG
    return 0 if are_texts(s, op, rows) else BAD_TEXT


cdef bint are_texts(const Sink* s, const Op* op, int64_t rows) noexcept nogil:
    cdef const uint8_t* text = s.columns[op.column + 1]
    cdef int64_t k
    if is_ascii(text, offset_at(s, op, rows)):
        return True
    for k in range(rows):
        if not is_utf8(text + offset_at(s, op, k), length_at(s, op, k)):
            return False
    return True


cdef bint is_ascii(const uint8_t* text, int64_t length) noexcept nogil:
    cdef uint8_t found = 0
    cdef int64_t k
    for k in range(length):
        found |= text[k]
    return found < 0x80


cdef int64_t elements_of(const Sink* s, const Op* op) noexcept nogil:
    """The number of elements of a field with offsets."""
    if op.code != VECTOR:
        return s.rows[op.child]
    if op.begins >= 0 and s.columns[op.begins] != NULL:
        return INT32_MAX  # No limit here: `are_inside` checks each row instead.
    return s.bytes[op.column + 1] // op.width


cdef bint are_inside(const Sink* s, const Op* op, int64_t rows) noexcept nogil:
    """True if all rows of a field with begins lie within the bytes of the column."""
    cdef const int64_t* begins = <const int64_t*>s.columns[op.begins]
    cdef int64_t k
    cdef uint64_t room = s.bytes[op.column + 1], outside = 0  # Unsigned: a negative number has the top bit.
    for k in range(rows):
        outside |= <uint64_t>begins[k] | (room - <uint64_t>length_at(s, op, k) - <uint64_t>begins[k])
    return outside >> 63 == 0


cdef bint nulls_are_empty(const Sink* s, const Op* op, int64_t rows) noexcept nogil:
    cdef const uint8_t* valid = s.columns[op.column + (2 if op.code == VECTOR else 1)]
    cdef int64_t k, wrong = 0
    for k in range(rows):
        wrong |= 0 if valid[k] else length_at(s, op, k)
    return wrong == 0


cdef inline void put_varint(Sink* s, int64_t value) noexcept nogil:
    s.at += put_varint_at(s.out + s.at, value)


cdef void write_op(Sink* s, const Op* op, int64_t row) noexcept nogil:
    cdef int64_t begin = row, end = row + 1
    cdef bint null = op.nullable and op.code >= VECTOR and is_null(s, op, row)
    if op.code < VECTOR:
        move_one(s.out + s.at, s.columns[op.column] + row * op.width, op.width, op.code == BOOL)
        s.at += op.width
        return
    if op.code != STRUCT or op.nullable:
        begin, end = offset_at(s, op, row), offset_at(s, op, row + 1)
    if op.code != STRUCT:
        s.at += put_length(s.out + s.at, op.prefix, -1 if null else end - begin)
    elif op.nullable:
        s.out[s.at] = 0xFF if null else 1
        s.at += 1
    if op.code == VECTOR:
        move(s.out + s.at, values_of(s, op, row), end - begin, op.width, op.is_bool)
        s.at += (end - begin) * op.width
    else:
        write_rows(s, op.child, begin, end)


cdef void write_rows(Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil:
    """Write rows of a known layout together by its steps, other rows by `write_some`."""
    cdef Layout* layout = &s.layouts[child]
    cdef int64_t count
    if end - begin < FEW:
        write_each(s, child, begin, end)
        return
    while begin < end:
        if layout.first < begin < layout.end:
            count = min(end, layout.end) - begin
            write_run(s, layout, begin, count)
        else:
            count = write_some(s, child, begin, end)
        begin += count


cdef int64_t write_some(Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil:
    """Write some of the next rows and return their number: the first row of a new layout, mixed rows, other flat rows
    field by field, or rows one by one.
    """
    cdef const Node* node = &s.nodes[child]
    cdef Layout* layout = &s.layouts[child]
    cdef bint is_flat = node.flat and not s.tag_counts[child], is_mixed = is_flat and can_be_mixed(s, child)
    cdef int64_t count
    if find_layout(s, child, begin, is_mixed):
        layout.template, layout.misses = s.at, 0
        write_row(s, child, begin)
        return 1
    if is_mixed:
        count = write_mixed(s, begin, end - begin)
        if count:
            return count
    if is_flat:
        count = min(end - begin, <int64_t>OTHERS)
        write_others(s, node, begin, count)
        return count
    count = min(end - begin, <int64_t>1 << layout.misses)
    layout.misses += layout.misses < MAX_BACKOFF
    write_each(s, child, begin, begin + count)
    return count


cdef void write_each(Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t row
    for row in range(begin, end):
        write_row(s, child, row)


cdef void write_row(Sink* s, int64_t child, int64_t row) noexcept nogil:
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k
    for k in range(node.op_begin, node.op_end):
        write_op(s, &s.ops[k], row)
    if node.flexible:
        if not has_tags(s, child):
            s.out[s.at] = 0
            s.at += 1
        else:
            write_tags(s, child, row)


cdef void write_tags(Sink* s, int64_t child, int64_t row) noexcept nogil:
    """Write the number of tagged fields, then the known ones that differ from their defaults and the unknown ones,
    merged by ascending tag.
    """
    cdef const Node* node = &s.nodes[child]
    cdef int64_t k, count = 0, unknown = 0, unknown_end = 0
    if s.tag_counts[child]:
        unknown, unknown_end = first_tag(s, child, row), first_tag(s, child, row + 1)
    for k in range(node.op_end, node.tag_end):
        count += not s.absent[k][row]
    put_varint(s, count + unknown_end - unknown)
    for k in range(node.op_end, node.tag_end):
        if not s.absent[k][row]:
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
    """Writes a message for each row of the first node: `measure` checks the columns and sets `size`, then `fill` or
    `to_bytes` writes all messages one after the other. `to_bytes_each` also stores where each message ends.

    `tables`: the program. `arrays`: its columns, C-contiguous, of the right dtypes and lengths; None for the columns of
    an unset tagged field or of no unknown tags. The arrays of unknown tags must not change; other arrays may. `rows`,
    `tag_counts`: the numbers of rows and of unknown tags of each node.
    """

    cdef Sink s
    cdef Tables tables
    cdef int64_t* rows
    cdef Py_buffer* buffers
    cdef int64_t buffer_count
    cdef uint8_t* flags  # the memory of `s.absent`
    cdef readonly int64_t size

    def __init__(self, Tables tables not None, list arrays, list rows, list tag_counts):
        self.tables = tables
        cdef Py_ssize_t k, count = max(len(arrays), 1)
        self.buffers = <Py_buffer*>calloc(count, sizeof(Py_buffer))
        self.s.columns = <const uint8_t**>calloc(count, sizeof(uint8_t*))
        self.s.copies = <uint8_t**>calloc(count, sizeof(uint8_t*))
        self.s.is_uniform = <int64_t*>calloc(3 * count, sizeof(int64_t))
        self.s.absent = <uint8_t**>calloc(tables.op_count + 1, sizeof(uint8_t*))
        self.s.is_absent = <int64_t*>calloc(tables.op_count + 1, sizeof(int64_t))
        self.s.layouts = <Layout*>malloc(tables.node_count * sizeof(Layout))
        if self.buffers == NULL or self.s.columns == NULL or self.s.is_uniform == NULL or self.s.absent == NULL:
            raise MemoryError
        self.rows = <int64_t*>calloc(2 * tables.node_count, sizeof(int64_t))
        if self.s.is_absent == NULL or self.s.layouts == NULL or self.rows == NULL or self.s.copies == NULL:
            raise MemoryError
        self.s.widest, self.s.bytes = self.s.is_uniform + count, self.s.is_uniform + 2 * count
        for array in arrays:
            if array is not None:
                PyObject_GetBuffer(array, &self.buffers[self.buffer_count], PyBUF_SIMPLE)
                self.s.columns[self.buffer_count] = <const uint8_t*>self.buffers[self.buffer_count].buf
                self.s.is_uniform[2 * count + self.buffer_count] = self.buffers[self.buffer_count].len
            self.buffer_count += 1
        self.s.nodes, self.s.ops = tables.nodes, tables.ops
        self.s.rows, self.s.tag_counts = self.rows, self.rows + tables.node_count
        for k in range(tables.node_count):
            self.rows[k], self.s.tag_counts[k] = rows[k], tag_counts[k]
        self.copy_places()

    cdef int copy_places(self) except -1:
        """Copy validity flags and where each span begins. `measure` copies the offsets that it needs."""
        cdef Py_ssize_t k
        cdef const Op* op
        for k in range(self.tables.op_count):
            op = &self.s.ops[k]
            if op.nullable and (op.code == VECTOR or op.code == ROWS):
                self.copy(op.column + (2 if op.code == VECTOR else 1))
            if op.code == VECTOR and op.begins >= 0:
                self.copy(op.begins)
        return 0

    cdef int copy(self, int64_t column) except -1:
        cdef Py_buffer* buffer = &self.buffers[column]
        if self.s.columns[column] == NULL:
            return 0
        self.s.copies[column] = <uint8_t*>malloc(buffer.len + 1)
        if self.s.copies[column] == NULL:
            raise MemoryError
        memcpy(self.s.copies[column], buffer.buf, buffer.len)
        self.s.columns[column] = self.s.copies[column]
        return 0

    def __dealloc__(self):
        for k in range(self.buffer_count):
            PyBuffer_Release(&self.buffers[k])
            if self.s.copies != NULL:
                free(self.s.copies[k])
        free(self.buffers)
        free(self.s.columns)
        free(self.s.copies)
        free(self.s.is_uniform)
        free(self.s.absent)
        free(self.s.is_absent)
        free(self.s.layouts)
        free(self.s.mixed)
        free(self.flags)
        free(self.rows)

    def measure(self):
        """Check offsets and texts, then set `size`. Returns (the problem or "", its column)."""
        cdef int64_t child, k
        cdef int problem
        for child in range(self.tables.node_count):
            for k in range(self.s.nodes[child].op_begin, self.s.nodes[child].tag_end):
                if self.s.ops[k].code < VECTOR or self.s.ops[k].code == STRUCT and not self.s.ops[k].nullable:
                    continue
                if is_unset(&self.s, &self.s.ops[k]):
                    continue
                problem = check_offsets(&self.s, &self.s.ops[k], self.rows[child])
                if problem == NO_MEMORY:
                    raise MemoryError
                if problem:
                    return PROBLEMS[problem], self.s.ops[k].column
        self.find_all_absent()
        self.size = self.s.size = size_rows(&self.s, 0, 0, self.rows[0])
        return "", 0

    cdef int find_all_absent(self) except -1:
        cdef int64_t child, k, room = 0
        for child in range(self.tables.node_count):
            room += (self.s.nodes[child].tag_end - self.s.nodes[child].op_end) * self.rows[child]
        free(self.flags)
        self.flags = <uint8_t*>malloc(room + 1)
        if self.flags == NULL:
            raise MemoryError
        room = 0
        for child in range(self.tables.node_count):
            for k in range(self.s.nodes[child].op_end, self.s.nodes[child].tag_end):
                self.s.absent[k] = self.flags + room
                find_absent(&self.s, k, self.rows[child])
                room += self.rows[child]
        return 0

    cdef void write(self, uint8_t* out, int64_t* ends) noexcept nogil:
        cdef int64_t child, row
        for child in range(self.tables.node_count):
            self.s.layouts[child].first = self.s.layouts[child].end = self.s.layouts[child].misses = 0
        self.s.out, self.s.at = out, 0
        for row in range(self.rows[0]):
            write_row(&self.s, 0, row)
            if ends != NULL:
                ends[row] = self.s.at

    def fill(self, out):
        """Write to `out`, which has room for `size` bytes; only after a `measure` without a problem."""
        cdef Py_buffer room
        PyObject_GetBuffer(out, &room, PyBUF_WRITABLE)
        if room.len >= self.size:
            self.write(<uint8_t*>room.buf, NULL)
        PyBuffer_Release(&room)
        if room.len < self.size:
            raise ValueError("no room for the message")

    def to_bytes(self):
        """The messages as new bytes."""
        data = PyBytes_FromStringAndSize(NULL, self.size)
        self.write(<uint8_t*>PyBytes_AS_STRING(data), NULL)
        return data

    def to_bytes_each(self, ends):
        """The messages as new bytes; stores the end of each message in `ends`, int64. ValueError if `ends` is too
        short.
        """
        cdef Py_buffer room
        cdef object data = PyBytes_FromStringAndSize(NULL, self.size)
        PyObject_GetBuffer(ends, &room, PyBUF_WRITABLE)
        cdef bint has_room = room.len >= self.rows[0] * <Py_ssize_t>sizeof(int64_t)
        if has_room:
            self.write(<uint8_t*>PyBytes_AS_STRING(data), <int64_t*>room.buf)
        PyBuffer_Release(&room)
        if not has_room:
            raise ValueError("no room for the ends of the messages")
        return data
