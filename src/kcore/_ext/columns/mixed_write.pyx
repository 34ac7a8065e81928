"""Writes mixed records, which differ in the lengths of a few vectors: first the pieces, then joined with the vectors.

The columns' offsets show which vectors differ, so nothing is learned from a record.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport malloc

from kcore._ext.columns.fused cimport fuse
from kcore._ext.columns.mixed cimport (
    LONGEST, MAX_JOINED, MAX_VARYING, OVER, Mixed, add_cut, add_values, begin_cuts, end_cuts, join, join_by_shuffles,
    may_vary,
)
from kcore._ext.columns.program cimport BOOL, VARINT, Node, Op, can_shuffle
from kcore._ext.columns.runs_write cimport write_block
from kcore._ext.wire.sink cimport Sink, put_length
from kcore._ext.columns.steps cimport FIELD, SPAN, Step, add_step, block_of

cdef enum:
    MIN_BLOCK = 32    # The value of `block_of` for the largest mixed records, those of MAX_JOINED bytes.


cdef bint can_be_mixed(Sink* s, int64_t child) noexcept nogil:
    """True if the rows of a flat node without tags differ only in lengths that `write_mixed` can write."""
    if s.mixed == NULL:
        s.mixed = <Mixed*>malloc(sizeof(Mixed))
        if s.mixed == NULL:
            return False
        s.mixed.child = -1
    if s.mixed.child != child:
        if not learn(s, s.mixed, child):
            s.mixed.cuts.vectors = 0
        s.mixed.child = child
    return s.mixed.cuts.vectors > 0


cdef int64_t write_mixed(Sink* s, int64_t row, int64_t count) noexcept nogil:
    """Write up to `count` rows of the node for which `can_be_mixed` is True; returns the number of rows written.

    Does not write the last rows of a message or of a column, since it reads and writes more bytes than a record has.
    """
    cdef Mixed* m = s.mixed
    cdef uint8_t joined[MIN_BLOCK * MAX_JOINED + OVER]
    cdef const uint8_t* values[MAX_VARYING]
    cdef const int32_t* offsets[MAX_VARYING]
    cdef int64_t spare[MAX_VARYING]
    cdef int64_t k, block, written, done = 0
    cdef uint8_t* at = s.out + s.at
    for k in range(m.cuts.vectors):
        values[k], offsets[k] = s.columns[m.op[k].column + 1], <const int32_t*>s.columns[m.op[k].column] + row
        spare[k] = s.bytes[m.op[k].column + 1] // 4 - LONGEST
    while done < count:
        block = min(count - done, block_of(&m.steps))
        write_block(s, &m.steps, joined, m.same, row + done, block)
        written = (join_by_shuffles if can_shuffle else join)(
            &m.cuts, &at, s.out + s.size, joined, block, values, offsets, spare
        )
        for k in range(m.cuts.vectors):
            offsets[k] += written
        done += written
        if written < block:
            break
    s.at = at - s.out
    return done


cdef bint learn(const Sink* s, Mixed* m, int64_t child) noexcept nogil:
    """Learn where the fields of the node's rows go, from row 0 on, and the bytes that all rows share."""
    cdef const Node* node = &s.nodes[child]
    cdef const Op* op
    cdef int64_t k
    if not begin_cuts(m, child):
        return False
    m.steps.counter[0].base = 0
    for k in range(node.op_begin, node.op_end):
        op = &s.ops[k]
        if m.steps.size + 16 > MAX_JOINED:
            return False
        if op.code <= BOOL:
            if add_step(&m.steps, FIELD, op, 0, 0) == NULL:
                return False
            m.steps.size += op.width
        elif s.is_uniform[op.column]:
            if not learn_steady(s, m, op):
                return False
        elif not may_vary(op) or s.widest[op.column] > LONGEST or not add_cut(m, op, 1 if op.prefix == VARINT else 4):
            return False
    if node.flexible and not add_same(m, &s.ops[node.op_begin], 0):
        return False
    end_cuts(m)
    fuse(&m.steps, True)
    return m.steps.size <= MAX_JOINED


cdef bint learn_steady(const Sink* s, Mixed* m, const Op* op) noexcept nogil:
    """Learn a vector that has the same length in every record."""
    cdef int64_t k, length = s.widest[op.column]
    cdef uint8_t prefix[5]
    cdef Step* step
    if op.begins >= 0:
        return False
    for k in range(put_length(prefix, op.prefix, length)):
        if not add_same(m, op, prefix[k]):
            return False
    if length == 0:
        return True
    if m.steps.size + length * op.width + 16 > MAX_JOINED:
        return False
    step = add_values(m, op, length)
    if step == NULL:
        return False
    m.steps.counter[step.items].base = 0
    return True


cdef bint add_same(Mixed* m, const Op* op, uint8_t byte) noexcept nogil:
    """Add a byte that is the same in every record; adjacent bytes are one step."""
    cdef Step* step = &m.steps.step[m.steps.count - 1] if m.steps.count else NULL
    if step == NULL or step.kind != SPAN or step.offset + step.length != m.steps.size:
        step = add_step(&m.steps, SPAN, op, 0, 0)
        if step == NULL:
            return False
        step.length = 0
    step.length += 1
    m.same[m.steps.size] = byte
    m.steps.size += 1
    return True
