"""Reads PartitionRecord and PartitionChangeRecord from their frames in the metadata log, and the types of frames."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kcore._ext.tables.partition_frames cimport (
    ADDING, DIRECTORIES, ELR, ISR, LAST_KNOWN_ELR, LISTS, NO_OP_RECORD, OTHER, PARTITION_CHANGE_RECORD,
    PARTITION_RECORD, REMOVING, REPLICAS, TOPIC_RECORD, PartitionFrame, load32,
)

cdef enum:
    FRAME_VERSION = 1
    FRAME_BYTES = 3      # Bytes of a frame header (frame version, type, version), if all three are below 128.
    ID_BYTES = 16
    BROKER_BYTES = 4
    HIGHEST_VERSION = 2  # The highest version of both records.

cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint failed


cdef inline uint32_t take_varint(Cursor* c) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 35, 7):
        if c.at == c.end:
            break
        byte = c.at[0]
        number |= <uint64_t>(byte & 0x7F) << shift
        c.at += 1
        if byte < 0x80:
            if number >> 32:
                break
            return <uint32_t>number
    c.failed = True
    return 0


cdef inline const uint8_t* take(Cursor* c, int64_t size) noexcept nogil:
    """Skip `size` bytes; returns their address, NULL if fewer are left."""
    cdef const uint8_t* begin = c.at
    if size > c.end - c.at or c.failed:
        c.failed = True
        return NULL
    c.at += size
    return begin


cdef inline void take_list(Cursor* c, int32_t width, bint nullable, PartitionFrame* frame, int which) noexcept nogil:
    """Read a compact array of elements of `width` bytes."""
    cdef uint32_t length = take_varint(c)
    if length == 0:
        c.failed |= not nullable
        frame.count[which] = -1
        return
    frame.list[which] = take(c, <int64_t>(length - 1) * width)
    frame.count[which] = <int32_t>(length - 1)


cdef inline int32_t take32(Cursor* c) noexcept nogil:
    cdef const uint8_t* begin = take(c, 4)
    return 0 if begin == NULL else load32(begin)


cdef inline int8_t take8(Cursor* c) noexcept nogil:
    cdef const uint8_t* begin = take(c, 1)
    return 0 if begin == NULL else <int8_t>begin[0]


cdef void take_record_tag(Cursor* c, uint32_t tag, int version, PartitionFrame* frame) noexcept nogil:
    if tag == 0:
        frame.recovery = take8(c)
    elif tag == 1 and version >= 2:
        take_list(c, BROKER_BYTES, True, frame, ELR)
    elif tag == 2 and version >= 2:
        take_list(c, BROKER_BYTES, True, frame, LAST_KNOWN_ELR)
    else:
        c.failed = True


cdef void take_change_tag(Cursor* c, uint32_t tag, int version, PartitionFrame* frame) noexcept nogil:
    if tag == 0:
        take_list(c, BROKER_BYTES, True, frame, ISR)
    elif tag == 1:
        frame.leader = take32(c)
    elif tag == 2:
        take_list(c, BROKER_BYTES, True, frame, REPLICAS)
    elif tag == 3:
        take_list(c, BROKER_BYTES, True, frame, REMOVING)
    elif tag == 4:
        take_list(c, BROKER_BYTES, True, frame, ADDING)
    elif tag == 5:
        frame.recovery = take8(c)
    elif tag == 6 and version >= 2:
        take_list(c, BROKER_BYTES, True, frame, ELR)
    elif tag == 7 and version >= 2:
        take_list(c, BROKER_BYTES, True, frame, LAST_KNOWN_ELR)
    elif tag == 8 and version >= 1:
        take_list(c, ID_BYTES, True, frame, DIRECTORIES)
    else:
        c.failed = True


cdef void take_tags(Cursor* c, bint is_change, int version, PartitionFrame* frame) noexcept nogil:
    """Read tagged fields up to the end of the record. Fails unless tags ascend and each field has its stated size."""
    cdef uint32_t left = take_varint(c), tag, size
    cdef int64_t before = -1
    cdef Cursor field
    while left > 0 and not c.failed:
        left -= 1
        tag, size = take_varint(c), take_varint(c)
        field.at, field.failed = take(c, size), tag <= before
        before = tag
        if c.failed:
            return
        field.end = field.at + size
        if is_change:
            take_change_tag(&field, tag, version, frame)
        else:
            take_record_tag(&field, tag, version, frame)
        c.failed |= field.failed | (field.at != field.end)
    c.failed |= c.at != c.end


cdef void take_record(Cursor* c, int version, PartitionFrame* frame) noexcept nogil:
    frame.partition = take32(c)
    frame.topic_id = take(c, ID_BYTES)
    frame.recovery = 0
    take_list(c, BROKER_BYTES, False, frame, REPLICAS)
    take_list(c, BROKER_BYTES, False, frame, ISR)
    take_list(c, BROKER_BYTES, False, frame, REMOVING)
    take_list(c, BROKER_BYTES, False, frame, ADDING)
    frame.leader, frame.leader_epoch, frame.partition_epoch = take32(c), take32(c), take32(c)
    if version >= 1:
        take_list(c, ID_BYTES, False, frame, DIRECTORIES)
    take_tags(c, False, version, frame)


cdef void take_change(Cursor* c, int version, PartitionFrame* frame) noexcept nogil:
    frame.partition = take32(c)
    frame.topic_id = take(c, ID_BYTES)
    frame.leader, frame.recovery = -2, -1
    take_tags(c, True, version, frame)


cdef int parse_frame(const uint8_t* at, const uint8_t* end, PartitionFrame* frame) noexcept nogil:
    """The type of the frame if this module has a constant for the type, otherwise OTHER. Reads partition records into
    `frame`.
    """
    cdef Cursor c = Cursor(at + FRAME_BYTES, end, False)
    cdef int kind, version, k
    if end - at < FRAME_BYTES or at[0] != FRAME_VERSION:
        return OTHER
    kind, version = at[1], at[2]
    if kind == TOPIC_RECORD and version == 0:
        return TOPIC_RECORD
    if kind == NO_OP_RECORD and version == 0 and end - at == FRAME_BYTES + 1 and at[FRAME_BYTES] == 0:
        return NO_OP_RECORD
    if (kind != PARTITION_RECORD and kind != PARTITION_CHANGE_RECORD) or version > HIGHEST_VERSION:
        return OTHER
    for k in range(LISTS):
        frame.count[k] = -1
    if kind == PARTITION_RECORD:
        take_record(&c, version, frame)
    else:
        take_change(&c, version, frame)
    return OTHER if c.failed else kind


def types(const uint8_t[::1] data, const int64_t[::1] begins, const int64_t[::1] ends, int8_t[::1] found) -> None:
    """Set the type of each frame data[begins[k]:ends[k]]; -1 if its header is not three bytes with frame version 1."""
    cdef Py_ssize_t k
    cdef const uint8_t* at
    with nogil:
        for k in range(found.shape[0]):
            found[k] = -1
            if 0 <= begins[k] and ends[k] <= data.shape[0] and ends[k] - begins[k] >= FRAME_BYTES:
                at = &data[begins[k]]
                if at[0] == FRAME_VERSION and (at[1] | at[2]) < 0x80:
                    found[k] = <int8_t>at[1]
