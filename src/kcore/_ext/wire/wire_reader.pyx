"""Reads bytes to objects: sets the slots of new instances directly, without Python code.

Every access is checked against the bytes left, and an array's count before its list is allocated. A function that fails
returns NULL or -1 with `why` set, or with a Python exception if memory ran out. Each caller then adds a crumb, its part
of the path to the wrong field. So an error names its field, and valid messages do not pay for that.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kcore._ext.big_endian cimport load16, load32, load64
from kcore._ext.wire.recent_ints cimport int_object
from kcore._ext.wire.wire_program cimport (
    ARRAY, BOOL, BYTES, INT8, INT16, INT32, INT64, MAX_DEPTH, MAX_STRING, STRING, STRUCT, UINT16, UINT32, UUID, Crumb,
    Layout, Program, Step, new_bytes, new_instance, new_list, new_packed, path_text,
)
from kcore._ext.wire.wire_values cimport new_uuid, new_view


cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int microseconds)

cdef extern from "Python.h":
    PyObject *new_text "PyUnicode_DecodeUTF8" (const char *data, Py_ssize_t size, const char *errors)
    PyObject *new_float "PyFloat_FromDouble" (double value)
    void set_item "PyList_SET_ITEM" (PyObject *values, Py_ssize_t i, PyObject *value)
    PyObject *build "Py_BuildValue" (const char *form, ...)
    PyObject *list_as_tuple "PyList_AsTuple" (PyObject *values)
    int append "PyList_Append" (PyObject *values, PyObject *value)
    void Py_XDECREF(PyObject *value)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    PyObject *PyExc_UnicodeDecodeError
    int PyErr_ExceptionMatches(PyObject *kind)
    void PyErr_Clear()
    int PyGC_Enable()
    int PyGC_Disable()

cdef struct Reader:
    PyObject *source  # the object that owns the bytes
    PyObject *view  # the last view of records made; the message owns it
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    const char *why
    bint many  # The message is big, so its objects are allocated from slabs.
    int64_t room  # The number of further elements that arrays and unknown tags may have.
    int until  # The number of elements to read before other threads may run; negative: other threads do not run.
    int depth
    Crumb crumbs[MAX_DEPTH]

cdef enum:
    NULL_LENGTH = -1
    BAD_LENGTH = -2
    BAD_VARINT = -1

cdef enum:
    SMALL = 1024  # Bytes: a message up to this size makes too few objects for the garbage collector to run.
    BIG = 256 * 1024  # Bytes: a message from this size on has enough instances for slabs of 2 MiB.
    A_TURN = 2048  # Elements read between two pauses; reading them takes a fraction of a millisecond.
    A_PAUSE = 50  # Microseconds of a pause, in which a thread that waits for the GIL can wake up.

NO_UNKNOWN_FIELDS = ()
cdef PyObject *NOTHING_UNKNOWN = <PyObject *>NO_UNKNOWN_FIELDS


cdef object read_message(
    Program program,
    const uint8_t *data,
    Py_ssize_t size,
    Py_ssize_t *end,
    object source,
    int64_t room=0x7FFFFFFFFFFFFFFF,
    bint gives_way=False,
):
    """Read the message that begins at byte `end` of `data`, the bytes of `source`; DecodeError if it is invalid.

    Sets `end` to the end of the message; without `end`, the message begins at 0 and must take all of `data`. `room`
    bounds the number of elements, since an object is far larger than the one or two bytes that it may have in `data`.
    `gives_way`: release the GIL from time to time.
    """
    cdef Reader reader
    cdef Reader *r = &reader
    cdef PyObject *message
    cdef int collecting
    r.source = <PyObject *>source
    r.start, r.at, r.end = data, data + (end[0] if end else 0), data + size
    r.why, r.depth, r.view, r.room, r.many = NULL, 0, NULL, room, size >= BIG
    r.until = A_TURN if gives_way else -1
    # A decoded tree has no cycle, so the collector finds nothing in it.
    collecting = PyGC_Disable() if size > SMALL else 0
    message = read_struct(r, program.root)
    if collecting:
        PyGC_Enable()
    if end:
        end[0] = r.at - data
    elif message is not NULL and r.at < r.end:
        Py_DECREF(message)
        message = NULL
        r.why = "bytes are left over after the message"
    if message is NULL:
        raise_error(r, program.words.decode_error)
    result = <object>message
    Py_DECREF(message)
    return result


cdef int raise_error(Reader *r, object decode_error) except -1:
    if r.why is NULL:
        return -1  # A Python exception is set already.
    path = path_text(r.crumbs, r.depth)
    why = r.why.decode("ascii")
    raise decode_error(f"{path}: {why}" if path else why, r.at - r.start)


cdef inline PyObject *fail(Reader *r, const char *why) noexcept:
    r.why = why
    return NULL


cdef inline void leave_crumb(Reader *r, PyObject *name, Py_ssize_t index) noexcept:
    if r.depth < MAX_DEPTH:
        r.crumbs[r.depth].name, r.crumbs[r.depth].index = name, index
        r.depth += 1


cdef inline PyObject **slot_at(PyObject *instance, Py_ssize_t slot) noexcept:
    return <PyObject **>(<char *>instance + slot)


cdef inline int64_t read_varint(Reader *r) noexcept:
    """Read an unsigned varint of at most five bytes and 32 bits; for an error, set `why` and return BAD_VARINT."""
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 35, 7):
        if r.at >= r.end:
            r.why = "the bytes end inside a varint"
            return BAD_VARINT
        byte = r.at[0]
        r.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if not byte & 0x80:
            if value >> 32:
                break
            return <int64_t>value
    r.why = "a varint is longer than 32 bits"
    return BAD_VARINT


cdef inline int64_t read_length(Reader *r, const Step *step) noexcept:
    """Read the length before a value. NULL_LENGTH for a null that is allowed; BAD_LENGTH with `why` set for an error.
    """
    cdef int64_t length
    if step.compact:
        length = read_varint(r)
        if length < 0:
            return BAD_LENGTH
        length -= 1
    elif r.end - r.at < step.min_size:
        r.why = "the bytes end inside a length"
        return BAD_LENGTH
    elif step.kind == STRING:
        length = <int16_t>load16(r.at)
        r.at += 2
    else:
        length = <int32_t>load32(r.at)
        r.at += 4
    if length >= 0:
        return length
    if step.nullable:
        return NULL_LENGTH
    r.why = "null, but not nullable"
    return BAD_LENGTH


cdef inline PyObject *shared(PyObject *value) noexcept:
    Py_INCREF(value)
    return value


cdef inline PyObject *read_value(Reader *r, const Step *step) noexcept:
    return read_fixed(r, step) if step.kind < STRING else read_counted(r, step)


cdef PyObject *read_counted(Reader *r, const Step *step) noexcept:
    if step.kind == ARRAY:
        return read_array(r, step)
    if step.kind == STRUCT:
        return read_nullable_struct(r, step) if step.nullable else read_struct(r, step.layout)
    return read_bytes(r, step)


cdef inline PyObject *read_fixed(Reader *r, const Step *step) noexcept:
    """Read a value whose kind determines its size."""
    cdef const uint8_t *at = r.at
    if step.min_size > r.end - at:
        return fail(r, "the bytes end inside a value")
    r.at = at + step.min_size
    if step.kind == INT32:
        return int_object(<int32_t>load32(at))
    elif step.kind == BOOL:
        return shared(Py_True if at[0] else Py_False)
    elif step.kind == INT8:
        return int_object(<int8_t>at[0])
    elif step.kind == INT16:
        return int_object(<int16_t>load16(at))
    elif step.kind == UINT16:
        return int_object(load16(at))
    elif step.kind == UINT32:
        return int_object(load32(at))
    elif step.kind == INT64:
        return int_object(<int64_t>load64(at))
    elif step.kind == UUID:
        return new_uuid(step.type, at)
    return read_float(at)


cdef PyObject *read_float(const uint8_t *at) noexcept:
    cdef uint64_t bits = load64(at)
    cdef double real
    memcpy(&real, &bits, 8)
    return new_float(real)


cdef PyObject *read_bytes(Reader *r, const Step *step) noexcept:
    """Read a string, bytes or records."""
    cdef const uint8_t *before = r.at
    cdef const uint8_t *at
    cdef PyObject *value
    cdef int64_t length = read_length(r, step)
    if length < 0:
        return shared(Py_None) if length == NULL_LENGTH else NULL
    if length > r.end - r.at or step.kind == STRING and length > MAX_STRING:
        r.at = before
        return fail(r, "a length is greater than the bytes left or than Kafka allows")
    at = r.at
    if step.kind != STRING:
        r.at += length
        if step.kind == BYTES:
            return new_bytes(<const char *>at, length)
        r.view = new_view(r.source, r.view, at, length)
        return r.view
    value = new_text(<const char *>at, length, NULL)
    if value is NULL:
        if PyErr_ExceptionMatches(PyExc_UnicodeDecodeError):
            PyErr_Clear()
            r.why = "a string is not UTF-8"
        return NULL
    r.at += length
    return value


cdef PyObject *read_array(Reader *r, const Step *step) noexcept:
    cdef const uint8_t *before = r.at
    cdef const Step *element = step.element
    cdef Py_ssize_t i
    cdef PyObject *values
    cdef PyObject *value
    cdef int64_t count = read_length(r, step)
    if count < 0:
        return shared(Py_None) if count == NULL_LENGTH else NULL
    # Each element counts as at least one byte: otherwise the bytes would not bound a count of empty elements.
    if count > (r.end - r.at) // max(element.min_size, 1):
        r.at = before
        return fail(r, "an array's count is greater than the bytes left can hold")
    if count > r.room:
        r.at = before
        return fail(r, "the message has more values than it may")
    r.room -= count
    if element.kind == INT32:
        values = new_packed(r.at, count, r.many)  # The check of the count ensures that the bytes exist.
        r.at += 4 * count
        return values
    values = new_list(count)
    if values is NULL:
        return NULL
    for i in range(count):
        value = read_value(r, element)
        if value is NULL:
            leave_crumb(r, NULL, i)
            Py_DECREF(values)
            return NULL
        set_item(values, i, value)
        if r.until >= 0:
            give_way(r)
    return values


cdef void give_way(Reader *r) noexcept:
    """After A_TURN elements, let other threads run. They cannot see the unfinished message or change its bytes."""
    r.until -= 1
    if r.until <= 0:
        r.until = A_TURN
        with nogil:
            usleep(A_PAUSE)


cdef PyObject *read_nullable_struct(Reader *r, const Step *step) noexcept:
    """Read a nullable struct: a marker byte, negative for null; otherwise the struct follows (KIP-893)."""
    cdef bint is_null
    if r.at >= r.end:
        return fail(r, "the bytes end before a struct")
    is_null = <int8_t>r.at[0] < 0
    r.at += 1
    return shared(Py_None) if is_null else read_struct(r, step.layout)


cdef PyObject *read_struct(Reader *r, const Layout *layout) noexcept:
    """Read a struct: a new instance with every slot set.

    The collector does not track the instance and its lists, since a message is a tree without cycles.
    """
    cdef const Step *step
    cdef PyObject *value
    cdef int i
    cdef PyObject *instance = new_instance(layout.type, r.many)
    if instance is NULL:
        return NULL
    for i in range(layout.in_line_count):
        step = &layout.in_line[i]
        value = read_value(r, step)
        if value is NULL:
            leave_crumb(r, step.name, 0)
            Py_DECREF(instance)
            return NULL
        slot_at(instance, step.slot)[0] = value
    slot_at(instance, layout.unknown_slot)[0] = shared(NOTHING_UNKNOWN)
    if layout.flexible and not passes_no_tags(r) and read_tagged(r, layout, instance) < 0:
        Py_DECREF(instance)
        return NULL
    if layout.absent_count + layout.tagged_count and set_defaults(layout, instance) < 0:
        Py_DECREF(instance)
        return NULL
    return instance


cdef inline bint passes_no_tags(Reader *r) noexcept:
    """Skip the number of tagged fields if it is 0, as nearly always; True if it was."""
    if r.at == r.end or r.at[0]:
        return False
    r.at += 1
    return True


cdef int set_defaults(const Layout *layout, PyObject *instance) noexcept:
    """Set the defaults of fields that the version lacks, and of tagged fields that the sender omitted."""
    cdef int i
    for i in range(layout.absent_count):
        if set_default(&layout.absent[i], instance) < 0:
            return -1
    for i in range(layout.tagged_count):
        if slot_at(instance, layout.tagged[i].slot)[0] is NULL and set_default(&layout.tagged[i], instance) < 0:
            return -1
    return 0


cdef int set_default(const Step *step, PyObject *instance) noexcept:
    cdef PyObject *value
    if step.initial is not NULL:
        value = shared(step.initial)
    elif step.kind == ARRAY:
        value = new_list(0)
    else:
        value = new_blank(step.blank)
    if value is NULL:
        return -1
    slot_at(instance, step.slot)[0] = value
    return 0


cdef PyObject *new_blank(const Layout *layout) noexcept:
    cdef PyObject *instance = new_instance(layout.type, False)
    if instance is NULL:
        return NULL
    slot_at(instance, layout.unknown_slot)[0] = shared(NOTHING_UNKNOWN)
    if set_defaults(layout, instance) < 0:
        Py_DECREF(instance)
        return NULL
    return instance


cdef int read_tagged(Reader *r, const Layout *layout, PyObject *instance) noexcept:
    cdef int64_t tag, size, previous = -1
    cdef int known = 0
    cdef int64_t left = read_varint(r)
    if left < 0:
        return -1
    while left > 0:
        left -= 1
        tag = read_varint(r)
        if tag < 0:
            return -1
        if tag <= previous:
            r.why = "tags are not in ascending order"
            return -1
        previous = tag
        size = read_varint(r)
        if size < 0:
            return -1
        if size > r.end - r.at:
            r.why = "a tagged field is longer than the bytes left"
            return -1
        while known < layout.tagged_count and layout.tagged[known].tag < tag:
            known += 1
        if known < layout.tagged_count and layout.tagged[known].tag == tag:
            if read_known(r, &layout.tagged[known], instance, size) < 0:
                leave_crumb(r, layout.tagged[known].name, 0)
                return -1
        elif keep_unknown(r, slot_at(instance, layout.unknown_slot), tag, size) < 0:
            return -1
    return close_unknown(slot_at(instance, layout.unknown_slot))


cdef int read_known(Reader *r, const Step *step, PyObject *instance, int64_t size) noexcept:
    """Read a tagged field of the schema. The field must have exactly the size before it."""
    cdef const uint8_t *end = r.end
    r.end = r.at + size
    cdef PyObject *value = read_value(r, step)
    if value is NULL:
        return -1
    slot_at(instance, step.slot)[0] = value
    if r.at != r.end:
        r.why = "a tagged field is shorter than its size"
        return -1
    r.end = end
    return 0


cdef int keep_unknown(Reader *r, PyObject **slot, int64_t tag, int64_t size) noexcept:
    """Append (tag, bytes) to the unknown tags, which a newer peer may send; a list until `close_unknown`."""
    cdef PyObject *pair
    cdef PyObject *kept
    cdef int failed
    if r.room <= 0:
        r.why = "the message has more values than it may"
        return -1
    r.room -= 1
    pair = build("(Ly#)", tag, r.at, <Py_ssize_t>size)
    kept = slot[0] if slot[0] is not NOTHING_UNKNOWN else new_list(0)
    if slot[0] is NOTHING_UNKNOWN and kept is not NULL:
        slot[0] = kept
        Py_DECREF(NOTHING_UNKNOWN)
    failed = pair is NULL or kept is NULL or append(kept, pair) < 0
    Py_XDECREF(pair)
    r.at += size
    return -failed


cdef int close_unknown(PyObject **slot) noexcept:
    cdef PyObject *kept = slot[0]
    if kept is NOTHING_UNKNOWN:
        return 0
    slot[0] = list_as_tuple(kept)
    Py_DECREF(kept)
    return -(slot[0] is NULL)
