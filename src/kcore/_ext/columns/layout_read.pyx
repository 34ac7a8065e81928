"""Learns the layout of a record that was read, then searches for the same layout in the next records.

The bytes of lengths, counts, nulls and tags determine a layout. Only these bytes of the next records are compared, in
windows of eight bytes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kcore._ext.columns.fused cimport fuse
from kcore._ext.columns.mixed_read cimport count_mixed, learn_mixed
from kcore._ext.columns.program cimport (
    BLOCK, BOOL, MAX_WINDOWS, MIN_RUN, OTHERS, STRUCT, VECTOR, Node, Op, differ, load64
)
from kcore._ext.columns.steps cimport (
    BEGINS, DEFAULT, ENDS, FIELD, MAX_BACKOFF, MAX_NESTED, VALID, VALUES, Step, Steps, add_step, elements_key,
    find_counter,
)
from kcore._ext.columns.walk cimport ALIKE, MIXED, WALKED, Layout, Walk, is_left_out, peek_prefix, peek_varint, push_run

cdef enum:
    MOST_MIXED = 1024  # The most mixed records that are read before the next test for records of one layout.
    RARELY = 7  # A mask: one in eight runs of mixed records learns a new layout.

cdef struct Learner:
    const Walk* walk
    const uint8_t* record
    Layout* layout
    Steps* steps  # of the layout; `size` grows while the layout is learned


cdef bint learn(Walk* w, int64_t child, Layout* layout, int64_t begin) noexcept nogil:
    """Learn the layout of the record at `begin`, which was read before. False if it has too many steps or windows."""
    cdef Learner one = Learner(w, w.data + begin, layout, &layout.steps)
    cdef int64_t size
    layout.windows = one.steps.size = one.steps.count = one.steps.counters = 0
    # The window of a record shorter than 8 bytes begins before the record, so these bytes must exist.
    if begin < 8 or not learn_row(&one, child) or layout.windows > MAX_WINDOWS:
        one.steps.size = 0
        return False
    size = one.steps.size
    for k in range(layout.windows):
        shift_back(layout, k, size)
        layout.value[k] = load64(one.record + layout.start[k]) & layout.mask[k]
    fuse(one.steps, False)
    return size > 0


cdef void expect(Learner* one, int64_t size) noexcept nogil:
    """Add the next `size` bytes of the record to the windows, since they determine its layout."""
    cdef Layout* layout = one.layout
    cdef int64_t k, window = layout.windows - 1, begin = one.steps.size
    one.steps.size += size
    if layout.windows > MAX_WINDOWS:
        return  # The layout has too many windows already.
    for k in range(begin, begin + size):
        if window < 0 or k >= layout.start[window] + 8:
            window += 1
            if window == MAX_WINDOWS:
                layout.windows = MAX_WINDOWS + 1
                return
            layout.start[window], layout.mask[window], layout.windows = k, 0, window + 1
        (<uint8_t*>&layout.mask[window])[k - layout.start[window]] = 0xFF


cdef inline void shift_back(Layout* layout, int64_t window, int64_t size) noexcept nogil:
    """Move a window back so that its 8 bytes end within the record, since later bytes must not be read."""
    cdef uint8_t mask[16]
    cdef int64_t back = layout.start[window] + 8 - size
    if back > 0:
        memset(mask, 0, 16)
        memcpy(mask + back, &layout.mask[window], 8)
        memcpy(&layout.mask[window], mask, 8)
        layout.start[window] -= back


cdef bint learn_row(Learner* one, int64_t child) noexcept nogil:
    """Learn a struct: its fields, then its tags."""
    cdef const Node* node = &one.walk.nodes[child]
    cdef int64_t k, row, rows = next_row(one, child, &row)
    if rows < 0:
        return False
    for k in range(node.op_begin, node.op_end):
        if not learn_op(one, &one.walk.ops[k], rows, row):
            return False
    return learn_tags(one, node, rows, row) if node.flexible else True


cdef inline int64_t next_row(Learner* one, int64_t child, int64_t* row) noexcept nogil:
    """Count another row of the node; returns the index of its counter and sets `row`, -1 if there is no room."""
    cdef int64_t rows = find_counter(one.steps, child)
    if rows >= 0:
        row[0] = one.steps.counter[rows].each
        one.steps.counter[rows].each += 1
    return rows


cdef bint learn_op(Learner* one, const Op* op, int64_t rows, int64_t row) noexcept nogil:
    cdef int64_t length
    if op.code <= BOOL:
        if add_step(one.steps, FIELD, op, rows, row) == NULL:
            return False
        one.steps.size += op.width
        return True
    if op.code == STRUCT:
        if not op.nullable:
            return learn_row(one, op.child)
        length = 1 if one.record[one.steps.size] < 0x80 else -1
        expect(one, 1)
    else:
        expect(one, peek_prefix(one.record + one.steps.size, op, &length))
    if op.code == VECTOR:
        return learn_vector(one, op, rows, row, length)
    if length > MAX_NESTED or not learn_ends(one, op, rows, row, length):
        return False
    while length > 0:
        if not learn_row(one, op.child):
            return False
        length -= 1
    return True


cdef bint learn_vector(Learner* one, const Op* op, int64_t rows, int64_t row, int64_t length) noexcept nogil:
    """Learn the elements of a VECTOR of known length."""
    cdef Step* step
    cdef int64_t items
    if length > 0 and op.begins >= 0:
        one.steps.size += length * op.width
    elif length > 0:
        step, items = add_step(one.steps, VALUES, op, rows, row), find_counter(one.steps, elements_key(op.column + 1))
        if step == NULL or items < 0:
            return False
        step.items, step.item, step.length = <int32_t>items, <int32_t>one.steps.counter[items].each, <int32_t>length
        one.steps.size += length * op.width
    return learn_ends(one, op, rows, row, length)


cdef bint learn_ends(Learner* one, const Op* op, int64_t rows, int64_t row, int64_t length) noexcept nogil:
    """Learn where the elements or children of a row end, and if the row is null (`length` -1)."""
    cdef Step* step = add_step(one.steps, ENDS, op, rows, row)
    cdef int64_t items = find_counter(one.steps, elements_key(op.column + 1) if op.code == VECTOR else op.child)
    if step == NULL or items < 0:
        return False
    step.items, step.item = <int32_t>items, <int32_t>(one.steps.counter[items].each + max(length, <int64_t>0))
    if op.code == VECTOR:
        one.steps.counter[items].each = step.item  # The rows of ROWS and STRUCT are counted by `next_row` instead.
        if op.begins >= 0:
            step = add_step(one.steps, BEGINS, op, rows, row)
            if step == NULL:
                return False
            step.offset -= <int32_t>(max(length, <int64_t>0) * op.width)
    if op.nullable and op.code != STRUCT:
        step = add_step(one.steps, VALID, op, rows, row)
        if step == NULL:
            return False
        step.length = length >= 0
    return True


cdef bint learn_tags(Learner* one, const Node* node, int64_t rows, int64_t row) noexcept nogil:
    """Learn the sent tagged fields and the defaults of the others. False for unknown tags, which have no layout."""
    cdef int64_t tag, left, known = node.op_end
    left = learn_varint(one)
    while left > 0:
        left -= 1
        tag = learn_varint(one)
        learn_varint(one)  # The size.
        while known < node.tag_end and one.walk.ops[known].tag < tag:
            if not learn_default(one, &one.walk.ops[known], rows, row):
                return False
            known += 1
        if known == node.tag_end or one.walk.ops[known].tag != tag:
            return False
        if not learn_op(one, &one.walk.ops[known], rows, row):
            return False
        known += 1
    for known in range(known, node.tag_end):
        if not learn_default(one, &one.walk.ops[known], rows, row):
            return False
    return True


cdef inline int64_t learn_varint(Learner* one) noexcept nogil:
    cdef int64_t value
    expect(one, peek_varint(one.record + one.steps.size, &value))
    return value


cdef bint learn_default(Learner* one, const Op* op, int64_t rows, int64_t row) noexcept nogil:
    """Learn the default of a field whose tag was not sent."""
    cdef const Node* below
    cdef int64_t k
    if is_left_out(one.walk, op):
        return True
    if op.code <= BOOL:
        return add_step(one.steps, DEFAULT, op, rows, row) != NULL
    if op.code != STRUCT:
        return learn_ends(one, op, rows, row, -op.fallback)
    if op.nullable and not learn_ends(one, op, rows, row, -1 if op.fallback else 1):
        return False
    if op.fallback:
        return True
    below = &one.walk.nodes[op.child]
    rows = next_row(one, op.child, &row)
    if rows < 0:
        return False
    for k in range(below.op_begin, below.tag_end):
        if not learn_default(one, &one.walk.ops[k], rows, row):
            return False
    return True


cdef bint is_alike(const uint8_t* record, const Layout* layout) noexcept nogil:
    cdef int64_t k
    for k in range(layout.windows):
        if load64(record + layout.start[k]) & layout.mask[k] != layout.value[k]:
            return False
    return True


cdef int64_t count_alike(const uint8_t* record, int64_t limit, const Layout* layout) noexcept nogil:
    """The number of records in a row, at most `limit`, that have the layout."""
    cdef int64_t done = 0, k, block, size = layout.steps.size
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


cdef bint find_run(Walk* w, int64_t child, int64_t count) noexcept nogil:
    """Store the number of next records to read together, and the way to read them (`Way`)."""
    cdef Layout* layout = &w.layouts[child]
    cdef int64_t fit, alike = 0, mixed, is_flat = w.nodes[child].flat
    cdef bint was_mixed = w.mixed != NULL and w.mixed.child == child
    if layout.steps.size:
        fit = (w.size - w.at) // layout.steps.size
        fit = min(count, fit)
        alike = count_alike(w.data + w.at, min(fit, <int64_t>MIN_RUN) if was_mixed else fit, layout)
        if was_mixed and alike == MIN_RUN:
            alike = count_alike(w.data + w.at, fit, layout)
    if was_mixed and alike < count and alike < BLOCK:  # A run of so few equal records is read as mixed records.
        mixed = count_mixed(w, child, min(count, <int64_t>MOST_MIXED))
        if mixed > alike and (mixed >= MIN_RUN or mixed == count):
            w.mixed.turns += 1
            if w.mixed.turns & RARELY == 0:
                learn(w, child, layout, w.at)  # Later records may have the layout of the next record.
            return push_run(w, mixed << 2 | MIXED) and push_run(w, <int64_t>w.mixed.varying)
    if alike and (alike >= MIN_RUN or alike == count or not is_flat):
        layout.misses = 0
        return push_run(w, alike << 2 | ALIKE)
    layout.misses += layout.misses < MAX_BACKOFF
    return push_run(w, min(count, <int64_t>OTHERS if is_flat else <int64_t>1 << layout.misses - 1) << 2 | WALKED)


cdef void learn_all(Walk* w, int64_t child, int64_t begin) noexcept nogil:
    """Learn the layouts of records that were read one by one; the last of them begins at `begin`."""
    learn(w, child, &w.layouts[child], begin)
    if w.nodes[child].flat and w.varying:
        if w.mixed != NULL and w.mixed.child == child:
            w.varying |= w.mixed.varying
        learn_mixed(w, child, w.varying, begin)
