"""Writes the bodies of ZooKeeper's `multi` and `multiRead` in Jute, its serialization, and reads their answers.

Numbers are big-endian; strings and buffers follow their int32 length. The texts of many rows are concatenated: that of
row k is `text[offsets[k]:offsets[k + 1]]`. Axes: `o` operation, `e` begin and end, `k` kind of number.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # ZooDefs.OpCode
    ERROR = -1
    CREATE = 1
    DELETE = 2
    GET_DATA = 4
    SET_DATA = 5
    CHECK = 13

    HEADER_BYTES = 9  # Bytes of an operation's header; a header also ends the list of operations.
    STAT_BYTES = 68
    STAT_VERSION = 32  # This and the next: positions in a Stat, in bytes.
    STAT_OWNER = 44


# Requests.

cdef inline uint8_t* put_int32(uint8_t* out, int32_t value) noexcept nogil:
    cdef uint32_t bits = <uint32_t>value
    out[0], out[1], out[2], out[3] = bits >> 24, bits >> 16 & 255, bits >> 8 & 255, bits & 255
    return out + 4


cdef inline uint8_t* put_buffer(
    uint8_t* out, const uint8_t* text, const int64_t[::1] offsets, Py_ssize_t row
) noexcept nogil:
    cdef int64_t length = offsets[row + 1] - offsets[row]
    out = put_int32(out, <int32_t>length)
    if length:
        memcpy(out, text + offsets[row], length)
    return out + length


cdef inline int64_t operation_bytes(int kind, int64_t path, int64_t data, int64_t acl) noexcept nogil:
    """Bytes of an operation with its header."""
    cdef int64_t size = HEADER_BYTES + 4 + path
    if kind == GET_DATA:
        return size + 1
    if kind == SET_DATA:
        return size + 4 + data + 4
    if kind == CREATE:
        return size + 4 + data + acl + 4
    return size + 4


cdef void put_operations(
    const uint8_t[::1] kinds__o, const uint8_t* paths, const int64_t[::1] path_offsets__o, const uint8_t* data,
    const int64_t[::1] data_offsets__o, const int32_t[::1] versions__o, const uint8_t[::1] acl,
    const int64_t[::1] rows, uint8_t* out,
) noexcept nogil:
    cdef Py_ssize_t k, o
    cdef int kind
    for k in range(rows.shape[0]):
        o = rows[k]
        kind = kinds__o[o]
        out = put_int32(out, kind)
        out[0] = 0
        out = put_buffer(put_int32(out + 1, -1), paths, path_offsets__o, o)
        if kind == GET_DATA:
            out[0] = 0
            out += 1
            continue
        if kind == CREATE and data_offsets__o[o] == data_offsets__o[o + 1]:
            out = put_int32(out, -1)  # Kafka sends the data of an empty znode as null.
        elif kind == CREATE or kind == SET_DATA:
            out = put_buffer(out, data, data_offsets__o, o)
        if kind == CREATE:
            memcpy(out, &acl[0], acl.shape[0])
            out += acl.shape[0]
        out = put_int32(out, versions__o[o])
    out = put_int32(out, -1)
    out[0] = 1
    put_int32(out + 1, -1)


def request_bytes(
    const uint8_t[::1] kinds__o, const int64_t[::1] path_offsets__o, const int64_t[::1] data_offsets__o,
    Py_ssize_t acl_bytes, const int64_t[::1] rows, int64_t[::1] sizes,
) -> None:
    """Set `sizes` to the bytes of each operation in `rows`; a request has HEADER_BYTES more at its end."""
    cdef Py_ssize_t k, o, count = kinds__o.shape[0]
    if not (path_offsets__o.shape[0] == data_offsets__o.shape[0] == count + 1) or sizes.shape[0] != rows.shape[0]:
        raise ValueError("columns of different lengths")
    for k in range(rows.shape[0]):
        o = rows[k]
        if not 0 <= o < count:
            raise ValueError(f"no operation {o}")
        sizes[k] = operation_bytes(
            kinds__o[o], path_offsets__o[o + 1] - path_offsets__o[o], data_offsets__o[o + 1] - data_offsets__o[o],
            acl_bytes,
        )


def write_request(
    const uint8_t[::1] kinds__o, const uint8_t[::1] paths, const int64_t[::1] path_offsets__o,
    const uint8_t[::1] data, const int64_t[::1] data_offsets__o, const int32_t[::1] versions__o,
    const uint8_t[::1] acl, const int64_t[::1] rows, uint8_t[::1] out,
) -> None:
    """Write the operations in `rows`, in that order, and the header that ends them; `out` has exactly their size.

    Kinds are ZooKeeper's opcodes; the version of a create is its flags (1: ephemeral).
    """
    cdef Py_ssize_t k, o, count = kinds__o.shape[0]
    cdef int64_t needed = HEADER_BYTES
    if not (path_offsets__o.shape[0] == data_offsets__o.shape[0] == count + 1) or versions__o.shape[0] != count:
        raise ValueError("columns of different lengths")
    if not acl.shape[0]:
        raise ValueError("no acl")
    for k in range(rows.shape[0]):
        o = rows[k]
        if not 0 <= o < count or kinds__o[o] not in (CREATE, DELETE, GET_DATA, SET_DATA, CHECK):
            raise ValueError(f"no operation {o}")
        if not 0 <= path_offsets__o[o] <= path_offsets__o[o + 1] <= paths.shape[0]:
            raise ValueError(f"the path of operation {o} is not within the paths")
        if not 0 <= data_offsets__o[o] <= data_offsets__o[o + 1] <= data.shape[0]:
            raise ValueError(f"the data of operation {o} is not within the data")
        needed += operation_bytes(
            kinds__o[o], path_offsets__o[o + 1] - path_offsets__o[o], data_offsets__o[o + 1] - data_offsets__o[o],
            acl.shape[0],
        )
    if out.shape[0] != needed:
        raise ValueError(f"out must have {needed} bytes, and has {out.shape[0]}")
    with nogil:
        put_operations(
            kinds__o, &paths[0] if paths.shape[0] else NULL, path_offsets__o, &data[0] if data.shape[0] else NULL,
            data_offsets__o, versions__o, acl, rows, &out[0],
        )


# Answers.

cdef inline int32_t load_int32(const uint8_t* at) noexcept nogil:
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])


cdef inline int64_t load_int64(const uint8_t* at) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>load_int32(at) << 32 | <uint32_t>load_int32(at + 4))


cdef inline void take_stat(
    const uint8_t* at, Py_ssize_t o, int32_t[::1] versions__o, int64_t[:, ::1] zxids__ko
) noexcept nogil:
    versions__o[o] = load_int32(at + STAT_VERSION)
    zxids__ko[0, o] = load_int64(at)
    zxids__ko[1, o] = load_int64(at + STAT_OWNER)


cdef Py_ssize_t read_results(
    const uint8_t[::1] answer, int64_t at, int32_t[::1] errors__o, int64_t[:, ::1] data__eo, int32_t[::1] versions__o,
    int64_t[:, ::1] zxids__ko,
) noexcept nogil:
    """Read the results from `at` on; returns their number, -1 if the answer is invalid or has more than the columns."""
    cdef Py_ssize_t o = 0
    cdef int64_t size = answer.shape[0], length
    cdef int32_t kind
    while True:
        if size - at < HEADER_BYTES:
            return -1
        kind = load_int32(&answer[at])
        if answer[at + 4]:
            return o
        at += HEADER_BYTES
        if o == errors__o.shape[0]:
            return -1
        errors__o[o] = 0
        data__eo[0, o] = data__eo[1, o] = at
        if kind == ERROR or kind == CREATE or kind == GET_DATA:
            if size - at < 4:
                return -1
            length = load_int32(&answer[at])
            at += 4
            if kind == ERROR:
                errors__o[o] = <int32_t>length
            elif length > 0:
                if size - at < length:
                    return -1
                data__eo[0, o] = at
                at += length
                data__eo[1, o] = at
        elif kind != DELETE and kind != SET_DATA and kind != CHECK:
            return -1
        if kind == GET_DATA or kind == SET_DATA:
            if size - at < STAT_BYTES:
                return -1
            take_stat(&answer[at], o, versions__o, zxids__ko)
            at += STAT_BYTES
        o += 1


def parse_results(
    const uint8_t[::1] answer, int64_t begin, int32_t[::1] errors__o, int64_t[:, ::1] data__eo,
    int32_t[::1] versions__o, int64_t[:, ::1] zxids__ko,
) -> int:
    """Read the results from `begin` on; returns their number, -1 for an invalid answer, or more results than rows."""
    cdef Py_ssize_t found, count = errors__o.shape[0]
    if not (data__eo.shape[1] == versions__o.shape[0] == zxids__ko.shape[1] == count):
        raise ValueError("columns of different lengths")
    if data__eo.shape[0] != 2 or zxids__ko.shape[0] != 2 or begin < 0:
        raise ValueError("columns of wrong shapes")
    with nogil:
        found = read_results(answer, begin, errors__o, data__eo, versions__o, zxids__ko)
    return found
