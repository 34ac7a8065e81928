"""Reads bytes to columns: the first pass checks every length and counts rows, the second fills columns of that size.

This module reads any record. `layout_read`, `runs_read` and `mixed_read` read many similar records faster.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from kcore._ext.columns.column_tables cimport Tables
from kcore._ext.columns.program cimport (
    BOOL, FEW, INT16, MAX_TEXT, ROWS, STRUCT, VARINT, VECTOR, Extent, Node, Op, is_utf8, move, move_one
)
from kcore._ext.columns.layout_read cimport find_run, is_alike, learn, learn_all
from kcore._ext.columns.mixed_read cimport copy_mixed, find_varying, take_mixed
from kcore._ext.columns.runs_read cimport chain, copy_others, copy_run, count_others, count_run
from kcore._ext.columns.walk cimport (
    ALIKE, BAD_COUNT, BAD_LENGTH, BAD_TAG_ORDER, BAD_TAG_SIZE, BAD_TEXT, BAD_VARINT, LEFT_OVER, MIXED, NO_MEMORY,
    NULL_VALUE, SHORT, WALKED, Layout, Places, Problem, Walk, fail, is_left_out, peek_big,
)

cdef enum:
    PAGE = 4096
    LINE = 64
    SLACK = 16  # Bytes that may be written past a column's end.

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


cdef inline bint read_varint(Walk* w, int64_t* value) noexcept nogil:
    """Read an unsigned varint of at most five bytes and 32 bits."""
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


cdef inline bint read_length(Walk* w, const Op* op, int64_t* length) noexcept nogil:
    """Read the length before a VECTOR or ROWS: -1 for null, which is an error if the field is not nullable."""
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


cdef inline bint fail_at(Walk* w, int64_t at, Problem problem) noexcept nogil:
    """Fail because of the length that begins at `at`."""
    w.at = at
    return fail(w, problem)


cdef inline void end_vector(Walk* w, const Op* op, int64_t row, bint is_null, int64_t begin) noexcept nogil:
    if w.columns != NULL:
        if op.begins >= 0:
            (<int64_t*>w.columns[op.begins])[row] = begin
        (<int32_t*>w.columns[op.column])[row + 1] = <int32_t>w.totals[op.column + 1]
        if op.nullable:
            w.columns[op.column + 2][row] = not is_null


cdef bint read_vector(Walk* w, const Op* op, int64_t row) noexcept nogil:
    cdef int64_t length, begin = w.at
    cdef int64_t* total = &w.totals[op.column + 1]
    if not read_length(w, op, &length):
        return False
    if length > 0:
        if length * op.width > w.size - w.at or op.is_text and length > MAX_TEXT:
            return fail_at(w, begin, BAD_LENGTH)
        if w.columns != NULL and op.begins < 0:
            move(w.columns[op.column + 1] + total[0] * op.width, w.data + w.at, length, op.width, op.is_bool)
        elif w.columns == NULL and op.is_text and not is_utf8(w.data + w.at, length):
            return fail(w, BAD_TEXT)
        total[0] += length
        w.at += length * op.width
    end_vector(w, op, row, length < 0, w.at - max(length, <int64_t>0) * op.width)
    return True


cdef inline void end_rows(Walk* w, const Op* op, int64_t row, int64_t count) noexcept nogil:
    """Store where the children of `row` end, for a ROWS or a STRUCT that may be null."""
    if w.columns != NULL:
        (<int32_t*>w.columns[op.column])[row + 1] = <int32_t>(w.rows[op.child] + (count if count > 0 else 0))
        if op.nullable and op.code == ROWS:
            w.columns[op.column + 1][row] = count >= 0


cdef bint read_rows(Walk* w, const Op* op, int64_t row) noexcept nogil:
    cdef int64_t count, begin = w.at
    cdef const Node* node = &w.nodes[op.child]
    if not read_length(w, op, &count):
        return False
    # Each row counts as at least one byte: otherwise the bytes would not bound a count of empty rows.
    if count > (w.size - w.at) // (node.min_size if node.min_size > 1 else 1):
        return fail_at(w, begin, BAD_COUNT)
    end_rows(w, op, row, count)
    return read_records(w, op.child, count) if count >= FEW else walk_rows(w, op.child, count, &begin)


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
    """Read one struct to the next row of its node."""
    cdef const Node* node = &w.nodes[child]
    cdef const Op* op = &w.ops[node.op_begin]
    cdef const Op* end = &w.ops[node.op_end]
    cdef int64_t row = w.rows[child]
    w.rows[child] += 1
    while op < end:
        if op.together:
            if not read_fixed(w, op, row):
                return False
            op += op.number
        elif not read_op(w, op, row):
            return False
        else:
            op += 1
    if not node.flexible:
        return True
    if w.at < w.size and w.data[w.at] == 0 and node.op_end == node.tag_end:
        w.at += 1
        return True
    return read_tags(w, node, row)


cdef inline bint read_fixed(Walk* w, const Op* op, int64_t row) noexcept nogil:
    """Read adjacent FIXED and BOOL fields with one check of the bytes left."""
    cdef const Op* end = op + op.number
    if w.size - w.at < op.together:
        while w.size - w.at >= op.width:
            w.at += op.width
            op += 1
        return fail(w, SHORT)
    if w.columns == NULL:
        w.at += op.together
        return True
    while op < end:
        move_one(w.columns[op.column] + row * op.width, w.data + w.at, op.width, op.code == BOOL)
        w.at += op.width
        op += 1
    return True


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
    """Read a tagged field of the schema. The field must have exactly the size before it."""
    cdef int64_t end = w.size
    w.sent[op - w.ops] = 1
    w.size = w.at + size
    if not read_op(w, op, row):
        return False
    if w.at != w.size:
        return fail(w, BAD_TAG_SIZE)
    w.size = end
    return True


cdef void keep_unknown(Walk* w, int64_t column, int64_t row, int64_t tag, int64_t size) noexcept nogil:
    """Store the row, tag and bytes of an unknown tagged field, which a newer peer sent."""
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
    """Set a tagged field, whose tag was not sent, to its default."""
    cdef int64_t k, child_row
    if is_left_out(w, op):
        return
    if op.code == VECTOR:
        end_vector(w, op, row, op.fallback, w.at)
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


cdef bint read_records(Walk* w, int64_t child, int64_t count) noexcept nogil:
    """Read the next `count` structs of an array in runs, each in the way that suits its records (`Way`)."""
    cdef int64_t run, begin
    while count > 0:
        if w.columns == NULL and not find_run(w, child, count):
            return False
        run = w.runs[w.next_run]
        w.next_run += 1
        count -= run >> 2
        if run & 3 == ALIKE and not run_of_equals(w, child, run >> 2):
            return False
        if run & 3 == MIXED:
            run_of_mixed(w, child, run >> 2)
        if run & 3 != WALKED:
            continue
        begin = w.at
        if not (run_of_others if w.nodes[child].flat else walk_rows)(w, child, run >> 2, &begin):
            return False
        if w.columns == NULL:
            learn_all(w, child, begin)
    return True


cdef bint walk_rows(Walk* w, int64_t child, int64_t count, int64_t* begin) noexcept nogil:
    """Read `count` records one by one; sets `begin` to the position of the last record."""
    while count > 0:
        begin[0] = w.at
        if not read_row(w, child):
            return False
        count -= 1
    return True


cdef bint run_of_others(Walk* w, int64_t child, int64_t count, int64_t* begin) noexcept nogil:
    """Read `count` flat records of any layouts: find all begins by `chain`, then copy field by field. `read_row` reads
    unusual records.
    """
    cdef Places places
    cdef int64_t chained
    w.varying = 0
    while count:
        chained = chain(w, &w.nodes[child], count, &places)
        if chained:
            w.varying |= find_varying(w, &w.nodes[child], chained, &places)
            begin[0] = places.begin[0][chained - 1]
            if w.columns != NULL:
                copy_others(w, &w.nodes[child], w.rows[child], chained, &places)
            elif not count_others(w, &w.nodes[child], chained, &places):
                return False
            w.rows[child] += chained
            count -= chained
        if count:
            begin[0] = w.at
            if not read_row(w, child):
                return False
            count -= 1
    return True


cdef bint run_of_equals(Walk* w, int64_t child, int64_t count) noexcept nogil:
    cdef Layout* layout = &w.layouts[child]
    cdef int64_t size = layout.steps.size
    if w.columns == NULL:
        return count_run(w, layout, count)
    if not (size and size <= w.size - w.at and is_alike(w.data + w.at, layout)):
        learn(w, child, layout, w.at)
    copy_run(w, layout, count)
    return True


cdef void run_of_mixed(Walk* w, int64_t child, int64_t count) noexcept nogil:
    cdef uint64_t varying = <uint64_t>w.runs[w.next_run]
    w.next_run += 1
    if w.columns == NULL:
        take_mixed(w, count)
    else:
        copy_mixed(w, child, varying, count)


cdef void forget_layouts(Walk* w, int64_t nodes) noexcept nogil:
    cdef int64_t k
    for k in range(nodes):
        w.layouts[k].steps.size = w.layouts[k].misses = 0  # `learn` sets the other members before they are read.


cdef void begin_offsets(Walk* w, int64_t nodes, int64_t ops) noexcept nogil:
    """Set the first offset of each column to 0. Each row then stores only its end."""
    cdef int64_t k
    for k in range(ops):
        if w.ops[k].code == VECTOR or w.ops[k].code == ROWS or w.ops[k].code == STRUCT and w.ops[k].nullable:
            begin_at_0(w.columns[w.ops[k].column])
    for k in range(nodes):
        if w.nodes[k].flexible:
            begin_at_0(w.columns[w.nodes[k].tag_column + 2])


cdef inline void begin_at_0(uint8_t* offsets) noexcept nogil:
    if offsets != NULL:
        (<int32_t*>offsets)[0] = 0


cdef bint read_each(Walk* w, int64_t size, const int64_t[:, ::1] spans__mx) noexcept nogil:
    """Read one message of `size` bytes, or one message for each span. Each message is a row of the root."""
    cdef Py_ssize_t m
    w.at, w.size = 0, size
    if spans__mx is None:
        return read_row(w, 0) and (w.at == w.size or fail(w, LEFT_OVER))
    for m in range(spans__mx.shape[0]):
        w.at, w.size = spans__mx[m, 0], spans__mx[m, 1]
        if not read_row(w, 0):
            return False
        if w.at != w.size:
            return fail(w, LEFT_OVER)
    return True


cdef class Reader:
    """Reads messages of one kind: call `measure`, then `arrange`, allocate an arena for the columns, then call `fill`.

    `tables` are the program; the root is node 0. `data` must not change as long as the reader exists. `spans__mx` has
    the begin and the end of each message m in `data`, and must lie in `data`. None: one message.
    """

    cdef Walk w
    cdef Tables tables
    cdef const int64_t[:, ::1] spans__mx
    cdef Py_buffer data
    cdef int64_t* places
    cdef int64_t room  # -1 until `arrange`.

    def __init__(self, Tables tables not None, data, const int64_t[:, ::1] spans__mx):
        cdef Walk* w = &self.w
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.tables, self.spans__mx, self.room = tables, spans__mx, -1
        w.nodes, w.ops, w.data = tables.nodes, tables.ops, <const uint8_t*>self.data.buf
        w.rows = <int64_t*>calloc(tables.node_count, sizeof(int64_t))
        w.totals = <int64_t*>calloc(tables.column_count + 1, sizeof(int64_t))
        w.sent = <uint8_t*>calloc(tables.op_count + 1, 1)
        w.layouts = <Layout*>malloc(tables.node_count * sizeof(Layout))
        self.places = <int64_t*>calloc(tables.column_count + 1, sizeof(int64_t))
        if w.rows == NULL or w.totals == NULL or w.sent == NULL or w.layouts == NULL or self.places == NULL:
            raise MemoryError
        forget_layouts(w, tables.node_count)

    def __dealloc__(self):
        PyBuffer_Release(&self.data)
        free(self.w.rows)
        free(self.w.totals)
        free(self.w.sent)
        free(self.w.layouts)
        free(self.w.mixed)
        free(self.w.runs)
        free(self.places)

    def measure(self):
        """Check the bytes, and count rows and elements. Returns (the problem or "", its offset)."""
        cdef Walk* w = &self.w
        w.columns, w.problem = NULL, 0
        with nogil:
            read_each(w, self.data.len, self.spans__mx)
        if w.problem == NO_MEMORY:
            raise MemoryError
        return PROBLEMS[w.problem], w.at

    def arrange(self):
        """Rows by node, values by column, first byte by column, and the arena's bytes.

        Call it only after a `measure` without a problem. If no row has a tagged field, the first byte of its columns is
        -1, and the counts of its children are meaningless. Columns that begin at the same offset of a page slow each
        other down (4 KiB store aliasing), so their first bytes are staggered.
        """
        cdef const Extent* extent
        cdef int64_t k, count, begin, end = 0
        cdef int64_t step = PAGE // max(self.tables.column_count, <Py_ssize_t>1) // LINE * LINE + LINE
        cdef list counts = [], begins = []
        for k in range(self.tables.column_count):
            extent = &self.tables.extents[k]
            if extent.owner >= 0 and not self.w.sent[extent.owner]:
                counts.append(0)
                begins.append(-1)
                self.places[k] = -1
                continue
            count = (self.w.totals if extent.is_total else self.w.rows)[extent.counted] + extent.more
            begin = (end + LINE - 1) // LINE * LINE
            if count * extent.width >= PAGE:
                begin += (k * step - begin) & (PAGE - 1)
            counts.append(count)
            begins.append(begin)
            self.places[k] = begin
            end = begin + count * extent.width + SLACK
        self.room = end
        return [self.w.rows[k] for k in range(self.tables.node_count)], counts, begins, end

    def fill(self, arena):
        """Fill the columns, once, in an arena of the size that `arrange` returned."""
        cdef Walk* w = &self.w
        cdef Tables tables = self.tables
        cdef Py_buffer room
        cdef int64_t k
        cdef uint8_t** columns = <uint8_t**>calloc(tables.column_count + 1, sizeof(uint8_t*))
        if columns == NULL:
            raise MemoryError
        try:
            PyObject_GetBuffer(arena, &room, PyBUF_WRITABLE)
            if self.room < 0 or room.len < self.room:
                PyBuffer_Release(&room)
                raise ValueError("the arena is smaller than `arrange` returned, or `arrange` was not called before")
            for k in range(tables.column_count):
                columns[k] = <uint8_t*>room.buf + self.places[k] if self.places[k] >= 0 else NULL
            memset(w.rows, 0, tables.node_count * sizeof(int64_t))
            memset(w.totals, 0, (tables.column_count + 1) * sizeof(int64_t))
            w.columns, w.next_run, self.room = columns, 0, -1
            forget_layouts(w, tables.node_count)  # The layouts of `measure` have steps for columns that do not exist.
            begin_offsets(w, tables.node_count, tables.op_count)
            with nogil:
                read_each(w, self.data.len, self.spans__mx)
            PyBuffer_Release(&room)
        finally:
            free(columns)
