"""Reads mixed records, which differ in the lengths of a few vectors: `measure` finds them, `fill` copies them.

The records that were read one by one before show which vectors differ.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from kcore._ext.columns.fused cimport fuse
from kcore._ext.columns.mixed cimport (
    MAX_CHECKS, MAX_JOINED, MAX_VARYING, OVER, Cuts, Mixed, add_cut, add_values, begin_cuts, count_cuts, cut,
    cut_by_shuffles, end_cuts, may_vary,
)
from kcore._ext.columns.program cimport BOOL, VECTOR, Node, Op, can_shuffle
from kcore._ext.columns.runs_read cimport copy_block, total_of
from kcore._ext.columns.steps cimport ENDS, FIELD, Step, add_step, block_of, elements_key, find_counter
from kcore._ext.columns.walk cimport Places, Walk, peek_prefix

cdef enum:
    MIN_BLOCK = 32    # The value of `block_of` for the largest mixed records, those of MAX_JOINED bytes.


cdef uint64_t find_varying(const Walk* w, const Node* node, int64_t count, const Places* places) noexcept nogil:
    """The fields of chained records that differ in length, a bit for each. 0 if other vectors differ too."""
    cdef int64_t k, r, vector = 0, different
    cdef uint64_t varying = 0
    if node.op_end - node.op_begin > 64:
        return 0
    for k in range(node.op_begin, node.op_end):
        if w.ops[k].code != VECTOR:
            continue
        different = 0
        for r in range(1, count):
            different |= places.length[vector][r] ^ places.length[vector][0]
        if different and not may_vary(&w.ops[k]):
            return 0
        varying |= <uint64_t>(different != 0) << (k - node.op_begin)
        vector += 1
    return varying


cdef bint learn_mixed(Walk* w, int64_t child, uint64_t varying, int64_t begin) noexcept nogil:
    """Learn from the record at `begin`, which was read before; the fields of `varying` may differ in length.

    False if such records must be read one by one.
    """
    if w.mixed == NULL:
        w.mixed = <Mixed*>malloc(sizeof(Mixed))
        if w.mixed == NULL:
            return False
        w.mixed.child, w.mixed.turns = -1, 0
    w.mixed.varying = varying
    if begin_cuts(w.mixed, child) and learn_fields(w, w.mixed, &w.nodes[child], begin):
        fuse(&w.mixed.steps, False)
        return True
    w.mixed.child = -1
    return False


cdef bint learn_fields(const Walk* w, Mixed* m, const Node* node, int64_t at) noexcept nogil:
    cdef int64_t k, length, taken
    cdef const Op* op
    for k in range(node.op_begin, node.op_end):
        op = &w.ops[k]
        if op.code <= BOOL:
            if add_step(&m.steps, FIELD, op, 0, 0) == NULL:
                return False
            m.steps.size += op.width
            at += op.width
            continue
        taken = peek_prefix(w.data + at, op, &length)
        if m.varying >> (k - node.op_begin) & 1:
            if not add_cut(m, op, taken):
                return False
        elif not learn_steady(m, op, w.data + at, taken, length):
            return False
        at += taken + length * op.width
    if node.flexible and (w.data[at] or not expect(m, w.data + at, 1)):  # Records with unknown tags are not mixed.
        return False
    end_cuts(m)
    return m.steps.size <= MAX_JOINED


cdef bint learn_steady(Mixed* m, const Op* op, const uint8_t* prefix, int64_t taken, int64_t length) noexcept nogil:
    """Learn a vector that has the same length in every record. False for strings, since `measure` must check each."""
    cdef Step* step
    cdef int64_t items
    if op.is_text or op.begins >= 0 or not expect(m, prefix, taken):
        return False
    if length and add_values(m, op, length) == NULL:
        return False
    step, items = add_step(&m.steps, ENDS, op, 0, 0), find_counter(&m.steps, elements_key(op.column + 1))
    if step == NULL or items < 0:
        return False
    step.items, step.item = <int32_t>items, <int32_t>length
    return True


cdef bint expect(Mixed* m, const uint8_t* same, int64_t size) noexcept nogil:
    """Add checks for `size` bytes that are the same in every record; False if there is no room for them."""
    cdef Cuts* cuts = &m.cuts
    cdef int64_t k, place, check = cuts.checks[cuts.vectors] - 1
    cdef int64_t first = cuts.checks[cuts.vectors - 1] if cuts.vectors else 0
    while check >= first and cuts.mask[check] == 0:
        check -= 1
    for k in range(size):
        place = m.steps.size + k - m.begin
        if check < first or place >= cuts.start[check] + 8:
            check += 1
            if check + 1 >= MAX_CHECKS:
                return False
            cuts.start[check], cuts.mask[check], cuts.value[check] = place, 0, 0
            cuts.start[check + 1], cuts.mask[check + 1], cuts.value[check + 1] = place, 0, 0
        (<uint8_t*>&cuts.mask[check])[place - cuts.start[check]] = 0xFF
        (<uint8_t*>&cuts.value[check])[place - cuts.start[check]] = same[k]
    cuts.checks[cuts.vectors] = first + (check + 2 - first) // 2 * 2
    m.steps.size += size
    return True


cdef int64_t count_mixed(Walk* w, int64_t child, int64_t count) noexcept nogil:
    """The number of next records that differ from the learned one only in the learned lengths, at most `count`."""
    cdef Mixed* m = w.mixed
    cdef const uint8_t* at = w.data + w.at
    cdef int64_t n, done, found = 0
    if m == NULL or m.child != child:
        return 0
    memset(m.totals, 0, sizeof(m.totals))
    while found < count:
        n = min(count - found, (w.size - (at - w.data) - OVER) // m.cuts.most)
        if n <= 0:
            break
        done = count_cuts(&m.cuts, &at, n, m.totals)
        found += done
        if done < n:
            break
    m.end = at - w.data
    return found


cdef void take_mixed(Walk* w, int64_t count) noexcept nogil:
    """Move past the `count` records that `count_mixed` found, and add their elements to the totals."""
    cdef Mixed* m = w.mixed
    cdef int64_t k
    for k in range(m.cuts.vectors):
        w.totals[m.op[k].column + 1] += m.totals[k]
    for k in range(m.steps.counters):
        total_of(w, m.steps.counter[k].key)[0] += count * m.steps.counter[k].each
    w.at = m.end


cdef void copy_mixed(Walk* w, int64_t child, uint64_t varying, int64_t count) noexcept nogil:
    """Fill columns from the `count` mixed records at `w.at` that `measure` found, in blocks."""
    cdef uint8_t joined[MIN_BLOCK * MAX_JOINED + OVER]
    cdef uint8_t* values[MAX_VARYING]
    cdef int32_t* ends[MAX_VARYING]
    cdef int64_t filled[MAX_VARYING]
    cdef Mixed* m
    cdef const uint8_t* at = w.data + w.at
    cdef int64_t k, block
    if w.mixed.varying != varying or count_mixed(w, child, 1) == 0:
        learn_mixed(w, child, varying, w.at)
    m = w.mixed
    for k in range(m.steps.counters):
        m.steps.counter[k].base = total_of(w, m.steps.counter[k].key)[0]
    for k in range(m.cuts.vectors):
        values[k], filled[k] = w.columns[m.op[k].column + 1], w.totals[m.op[k].column + 1]
        ends[k] = <int32_t*>w.columns[m.op[k].column] + w.rows[child] + 1
    while count:
        block = min(count, block_of(&m.steps))
        at = (cut_by_shuffles if can_shuffle else cut)(&m.cuts, at, block, joined, values, ends, filled)
        copy_block(w, &m.steps, joined, block)
        for k in range(m.cuts.vectors):
            ends[k] += block
        for k in range(m.steps.counters):
            m.steps.counter[k].base += block * m.steps.counter[k].each
        count -= block
    for k in range(m.cuts.vectors):
        w.totals[m.op[k].column + 1] = filled[k]
    for k in range(m.steps.counters):
        total_of(w, m.steps.counter[k].key)[0] = m.steps.counter[k].base
    w.at = at - w.data
