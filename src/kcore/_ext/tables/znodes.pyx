"""Reads and writes the znodes of many partitions: their paths, and their states as JSON.

The texts of many rows are concatenated: that of row k is `text[offsets[k]:offsets[k + 1]]`. Axes: `c` change or state,
`f` field, `i` ISR member, `t` topic.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from kcore._ext.constants cimport RECOVERED, RECOVERING

cdef enum:
    LEADER
    LEADER_EPOCH
    CONTROLLER_EPOCH
    RECOVERY
    VERSION
    ISR
    FIELDS

    REQUIRED = (1 << LEADER) | (1 << LEADER_EPOCH) | (1 << CONTROLLER_EPOCH) | (1 << ISR)
    INT_DIGITS = 11
    STATE_BYTES = 144  # The longest state without its ISR.
    MEMBER_BYTES = 12  # -2147483648 and a comma

cdef const char** NAMES = [
    b"leader", b"leader_epoch", b"controller_epoch", b"leader_recovery_state", b"version", b"isr",
]
cdef int64_t* LENGTHS = [6, 12, 16, 21, 7, 3]


# Reading states as JSON. NULL means JSON in another form than Kafka writes; the caller then uses Python's json.

cdef inline const uint8_t* skip_space(const uint8_t* at, const uint8_t* end) noexcept nogil:
    while at < end and (at[0] == c" " or at[0] == c"\n" or at[0] == c"\r" or at[0] == c"\t"):
        at += 1
    return at


cdef inline const uint8_t* expect(const uint8_t* at, const uint8_t* end, uint8_t what) noexcept nogil:
    """Skip this character and the space around it; NULL if there is another character."""
    at = skip_space(at, end)
    return skip_space(at + 1, end) if at < end and at[0] == what else NULL


cdef const uint8_t* read_int(const uint8_t* at, const uint8_t* end, int32_t* value) noexcept nogil:
    cdef bint negative = at < end and at[0] == c"-"
    cdef const uint8_t* first = at + negative
    cdef int64_t number = 0
    at = first
    while at < end and at - first < INT_DIGITS and c"0" <= at[0] <= c"9":
        number = number * 10 + at[0] - c"0"
        at += 1
    if negative:
        number = -number
    if at == first or (first[0] == c"0" and at - first > 1) or number != <int32_t>number:
        return NULL
    value[0] = <int32_t>number
    return at


cdef const uint8_t* read_name(const uint8_t* at, const uint8_t* end, int* field) noexcept nogil:
    """Read a name from its opening quote on; returns the address of the value after the colon, NULL if unknown."""
    cdef int k
    if at == NULL or at == end or at[0] != c'"':
        return NULL
    at += 1
    for k in range(FIELDS):
        if end - at > LENGTHS[k] and at[LENGTHS[k]] == c'"' and memcmp(at, NAMES[k], LENGTHS[k]) == 0:
            field[0] = k
            return expect(at + LENGTHS[k] + 1, end, c":")
    return NULL


cdef const uint8_t* read_isr(
    const uint8_t* at, const uint8_t* end, int32_t[::1] isr__i, int32_t* count
) noexcept nogil:
    """Read a list of int32, append it to the `count` members of `isr__i`, and add its length to `count`."""
    at = expect(at, end, c"[")
    if at != NULL and at < end and at[0] == c"]":
        return at + 1
    while at != NULL:
        if count[0] >= isr__i.shape[0]:
            return NULL
        at = read_int(at, end, &isr__i[count[0]])
        if at == NULL:
            return NULL
        count[0] += 1
        at = skip_space(at, end)
        if at < end and at[0] == c"]":
            return at + 1
        at = expect(at, end, c",")
    return NULL


cdef bint read_state(
    const uint8_t* at, const uint8_t* end, int32_t* values, int32_t[::1] isr__i, int32_t* count
) noexcept nogil:
    """Read one JSON object; False unless its names are known and appear once, and the required ones are present."""
    cdef int seen = 0, field = 0
    at = expect(at, end, c"{")
    while at != NULL:
        at = read_name(at, end, &field)
        if at == NULL or seen >> field & 1:
            return False
        seen |= 1 << field
        at = read_isr(at, end, isr__i, count) if field == ISR else read_int(at, end, &values[field])
        if at == NULL:
            return False
        at = skip_space(at, end)
        if at < end and at[0] == c"}":
            return skip_space(at + 1, end) == end and seen & REQUIRED == REQUIRED
        at = expect(at, end, c",")
    return False


cdef void read_states(
    const uint8_t* text, const int64_t[::1] begins__c, const int64_t[::1] ends__c, int32_t[:, ::1] values__fc,
    int8_t[::1] recovery__c, int32_t[::1] offsets__c, int32_t[::1] isr__i, uint8_t[::1] is_read__c,
) noexcept nogil:
    cdef Py_ssize_t c
    cdef int32_t count = 0
    cdef int32_t[FIELDS] values
    for c in range(begins__c.shape[0]):
        offsets__c[c] = count
        values[RECOVERY] = RECOVERED
        is_read__c[c] = read_state(text + begins__c[c], text + ends__c[c], values, isr__i, &count) and (
            values[RECOVERY] == RECOVERED or values[RECOVERY] == RECOVERING
        )
        if not is_read__c[c]:
            count = offsets__c[c]
            continue
        values__fc[0, c] = values[LEADER]
        values__fc[1, c] = values[LEADER_EPOCH]
        values__fc[2, c] = values[CONTROLLER_EPOCH]
        recovery__c[c] = <int8_t>values[RECOVERY]
    offsets__c[begins__c.shape[0]] = count


def parse_states(
    const uint8_t[::1] text, const int64_t[::1] begins__c, const int64_t[::1] ends__c, int32_t[:, ::1] values__fc,
    int8_t[::1] recovery__c, int32_t[::1] offsets__c, int32_t[::1] isr__i, uint8_t[::1] is_read__c,
) -> None:
    """Read the states; state c is `text[begins__c[c]:ends__c[c]]`."""
    cdef Py_ssize_t c, count = begins__c.shape[0]
    if not (ends__c.shape[0] == values__fc.shape[1] == recovery__c.shape[0] == is_read__c.shape[0] == count):
        raise ValueError("columns of different lengths")
    if values__fc.shape[0] != 3 or offsets__c.shape[0] != count + 1:
        raise ValueError("columns of wrong shapes")
    for c in range(count):
        if not 0 <= begins__c[c] <= ends__c[c] <= text.shape[0]:
            raise ValueError(f"state {c} is not within the text")
    with nogil:
        read_states(
            &text[0] if text.shape[0] else NULL, begins__c, ends__c, values__fc, recovery__c, offsets__c, isr__i,
            is_read__c,
        )


# Writing states as JSON.

cdef inline uint8_t* put_text(uint8_t* out, const char* text, int64_t length) noexcept nogil:
    memcpy(out, text, length)
    return out + length


cdef inline uint8_t* put_int(uint8_t* out, int32_t value) noexcept nogil:
    cdef uint8_t[INT_DIGITS] digits
    cdef int at = INT_DIGITS
    cdef uint32_t rest = <uint32_t>value
    if value < 0:
        out[0] = c"-"
        out += 1
        rest = -rest
    while True:
        at -= 1
        digits[at] = c"0" + rest % 10
        rest //= 10
        if rest == 0:
            break
    memcpy(out, digits + at, INT_DIGITS - at)
    return out + INT_DIGITS - at


cdef int64_t put_states(
    const int32_t[::1] leaders__c, const int32_t[::1] leader_epochs__c, const int32_t[::1] isr_offsets__c,
    const int32_t[::1] isr__i, const int8_t[::1] recovery__c, int32_t controller_epoch, uint8_t* first,
    int64_t[::1] offsets__c,
) noexcept nogil:
    """Write states with the field order of Kafka 3.9.1 (TopicPartitionStateZNode); leaves out the state RECOVERED."""
    cdef Py_ssize_t c, i
    cdef uint8_t* out = first
    for c in range(leaders__c.shape[0]):
        offsets__c[c] = out - first
        out = put_int(put_text(out, b'{"controller_epoch":', 20), controller_epoch)
        out = put_int(put_text(out, b',"leader":', 10), leaders__c[c])
        out = put_text(out, b',"version":1', 12)
        if recovery__c[c] != RECOVERED:
            out = put_int(put_text(out, b',"leader_recovery_state":', 25), recovery__c[c])
        out = put_int(put_text(out, b',"leader_epoch":', 16), leader_epochs__c[c])
        out = put_text(out, b',"isr":[', 8)
        for i in range(isr_offsets__c[c], isr_offsets__c[c + 1]):
            out = put_int(out, isr__i[i])
            out[0] = c","
            out += 1
        out = put_text(out - (isr_offsets__c[c] < isr_offsets__c[c + 1]), b"]}", 2)
    return out - first


def state_bytes(Py_ssize_t states, Py_ssize_t members) -> int:
    """The most bytes of the JSON of `states` states with `members` ISR members in total."""
    return states * STATE_BYTES + members * MEMBER_BYTES


def write_states(
    const int32_t[::1] leaders__c, const int32_t[::1] leader_epochs__c, const int32_t[::1] isr_offsets__c,
    const int32_t[::1] isr__i, const int8_t[::1] recovery__c, int32_t controller_epoch, uint8_t[::1] out,
    int64_t[::1] offsets__c,
) -> None:
    """Write the states. `out` has at least `state_bytes` bytes; columns of offsets have one more row than others."""
    cdef Py_ssize_t count = leaders__c.shape[0]
    if not (leader_epochs__c.shape[0] == recovery__c.shape[0] == count):
        raise ValueError("columns of different lengths")
    if isr_offsets__c.shape[0] != count + 1 or offsets__c.shape[0] != count + 1:
        raise ValueError("a column of offsets must have one more row than there are states")
    check_offsets_32(isr_offsets__c, isr__i.shape[0])
    if out.shape[0] < state_bytes(count, isr__i.shape[0]):
        raise ValueError("not enough room")
    offsets__c[count] = 0
    if count:
        with nogil:
            offsets__c[count] = put_states(
                leaders__c, leader_epochs__c, isr_offsets__c, isr__i, recovery__c, controller_epoch, &out[0], offsets__c
            )


cdef check_offsets_32(const int32_t[::1] offsets, Py_ssize_t size):
    cdef Py_ssize_t k
    if offsets[0] != 0 or offsets[offsets.shape[0] - 1] != size:
        raise ValueError("offsets must begin at 0 and end at the number of values")
    for k in range(offsets.shape[0] - 1):
        if offsets[k] > offsets[k + 1]:
            raise ValueError("offsets must rise")


cdef check_offsets(const int64_t[::1] offsets, Py_ssize_t rows, Py_ssize_t size):
    cdef Py_ssize_t k
    if offsets.shape[0] != rows + 1 or offsets[0] < 0 or offsets[rows] > size:
        raise ValueError("there must be one more offset than rows, within the text")
    for k in range(rows):
        if offsets[k] > offsets[k + 1]:
            raise ValueError("offsets must rise")


# Paths.

cdef int64_t put_paths(
    const uint8_t* names, const int64_t[::1] names_offsets__t, const int32_t[::1] topics__c,
    const int32_t[::1] partitions__c, const uint8_t[::1] prefix, const uint8_t[::1] suffix, uint8_t* first,
    int64_t[::1] offsets__c,
) noexcept nogil:
    cdef Py_ssize_t c
    cdef int64_t begin
    cdef uint8_t* out = first
    for c in range(topics__c.shape[0]):
        offsets__c[c] = out - first
        begin = names_offsets__t[topics__c[c]]
        out = put_text(out, <const char*>&prefix[0], prefix.shape[0])
        out = put_text(out, <const char*>names + begin, names_offsets__t[topics__c[c] + 1] - begin)
        out = put_int(put_text(out, b"/partitions/", 12), partitions__c[c])
        if suffix.shape[0]:
            out = put_text(out, <const char*>&suffix[0], suffix.shape[0])
    return out - first


def write_paths(
    const uint8_t[::1] names, const int64_t[::1] names_offsets__t, const int32_t[::1] topics__c,
    const int32_t[::1] partitions__c, const uint8_t[::1] prefix, const uint8_t[::1] suffix, uint8_t[::1] out,
    int64_t[::1] offsets__c,
) -> None:
    """Write paths: prefix, the topic's name, /partitions/ and the number, suffix."""
    cdef Py_ssize_t c, count = topics__c.shape[0]
    cdef int64_t needed = 0
    if partitions__c.shape[0] != count or offsets__c.shape[0] != count + 1:
        raise ValueError("columns of different lengths")
    if not prefix.shape[0]:
        raise ValueError("no prefix")
    check_offsets(names_offsets__t, names_offsets__t.shape[0] - 1, names.shape[0])
    for c in range(count):
        if not 0 <= topics__c[c] < names_offsets__t.shape[0] - 1:
            raise ValueError(f"row {c} has the topic {topics__c[c]}, which has no name")
        needed += names_offsets__t[topics__c[c] + 1] - names_offsets__t[topics__c[c]]
    needed += count * (prefix.shape[0] + suffix.shape[0] + 12 + INT_DIGITS)
    if out.shape[0] < needed:
        raise ValueError("not enough room")
    offsets__c[count] = 0
    if count:
        with nogil:
            offsets__c[count] = put_paths(
                &names[0] if names.shape[0] else NULL, names_offsets__t, topics__c, partitions__c, prefix, suffix,
                &out[0], offsets__c,
            )
