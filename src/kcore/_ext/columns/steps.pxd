"""Describes the layout of a record, with its tags and all nested structs, as steps, which copy bytes to columns.

A record is one struct of an array. Records are alike if they have the same lengths, counts, null fields and sent tags.
The steps of one record are then the steps of all, at other positions in the message and in the columns.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kcore._ext.columns.program cimport BLOCK_BYTES, Op

cdef enum StepLimits:
    MAX_STEPS = 112     # The most steps of a record; records with more are copied one by one.
    MAX_COUNTERS = 32
    MAX_NESTED = 8      # The most structs of one array within a record.
    MAX_BACKOFF = 5     # At most 2 to this power records are copied one by one before the next layout is learned.

cdef enum Kind:
    FIELD = 0    # a FIXED or BOOL field
    QUAD = 1     # four FIELDs of four bytes: this one and the three after it (`fused.pxd`)
    TRIO = 2     # three FIELDs, of four, four and eight bytes in any order
    PAIR = 3     # two FIELDs of eight bytes
    DUO = 4      # two FIELDs of four bytes
    VALUES = 5   # the elements of a VECTOR
    ENDS = 6     # where a row's elements or children end
    VALID = 7    # the flag of a row: 1 unless the row is null
    DEFAULT = 8  # the default of a FIXED or BOOL field whose tag is absent
    SPAN = 9     # bytes that are the same in each record
    BEGINS = 10   # where rows begin whose bytes stay in the message

cdef struct Step:
    const Op* op
    int32_t kind
    int32_t offset  # offset of the bytes in the record
    int32_t rows    # index of the counter of the node's rows
    int32_t row     # index of the row among the record's rows of the node
    int32_t items   # VALUES, ENDS: index of the counter of elements or children
    int32_t item    # VALUES: elements of the record before these; ENDS: the record's elements or children up to the end
    int32_t length  # VALUES: elements; VALID: 0 or 1; SPAN: bytes; QUAD, TRIO, PAIR, DUO: the first byte's offset
    uint8_t mask[16]  # QUAD, TRIO, PAIR: the mask of the shuffle

cdef struct Counter:
    int64_t key      # a node, or `elements_key` of a column
    int64_t base     # count before the record
    int64_t each     # count in each record

cdef struct Steps:
    int64_t size     # size of the record in bytes; 0 while unknown
    int64_t count
    int64_t counters
    Step step[MAX_STEPS]
    Counter counter[MAX_COUNTERS]


cdef inline int64_t block_of(const Steps* steps) noexcept nogil:
    """The number of records in a block, which is copied step by step: a power of two from 32 to 256."""
    cdef int64_t block = 32
    while block < 256 and 2 * block * steps.size <= BLOCK_BYTES:
        block *= 2
    return block


cdef inline int64_t elements_key(int64_t column) noexcept nogil:
    return -1 - column


cdef inline int64_t find_counter(Steps* steps, int64_t key) noexcept nogil:
    """The index of the key's counter, which is added if it is new; -1 if there is no room for another counter."""
    cdef int64_t k
    for k in range(steps.counters):
        if steps.counter[k].key == key:
            return k
    if steps.counters == MAX_COUNTERS:
        return -1
    steps.counter[steps.counters] = Counter(key, 0, 0)
    steps.counters += 1
    return steps.counters - 1


cdef inline Step* add_step(Steps* steps, Kind kind, const Op* op, int64_t rows, int64_t row) noexcept nogil:
    """Add a step at offset `steps.size` of the record; NULL if there is no room for another step."""
    cdef Step* step = &steps.step[steps.count]
    if steps.count == MAX_STEPS:
        return NULL
    steps.count += 1
    step.op, step.kind, step.offset = op, kind, <int32_t>steps.size
    step.rows, step.row = <int32_t>rows, <int32_t>row
    return step
