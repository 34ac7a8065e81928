"""Writes objects to bytes: reads values from the slots of instances by their offsets, checks and writes them.

A message is written to a small buffer on the stack; if that is too small, to a bytes object that grows by doubling. As
in the reader, a function that fails returns -1 with `why` set or with a Python exception, and each caller adds a crumb.
A user's `__index__` or `__eq__` may change the message during the write. Memory stays safe: this module holds
references to visited objects, and reads a list's size again for each element.
"""

from cpython.object cimport PyObject
from libc.stdint cimport UINT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kcore._ext.wire.wire_buffer cimport (
    Writer, fail, insert_varint, leave_crumb, make_room, open_writer, put_bytes, put_varint, store,
)
from kcore._ext.wire.wire_program cimport (
    ARRAY, BOOL, BYTES, INT32, INT64, MAX_STRING, RECORDS, STRING, STRUCT, UUID, Layout, Program, Step, packed_ints,
    path_text,
)
from kcore._ext.wire.wire_slots cimport MAX_LENGTH, field_of, is_sequence, item_of, put_length, size_of, slot_at

cdef extern from *:
    """
    /* Reads an int of one digit without a function call; 0 if the int has more digits. */
    static inline int compact_int(PyObject *value, int64_t *number) {
    #if PY_VERSION_HEX >= 0x030C0000
        if (!PyUnstable_Long_IsCompact((PyLongObject *)value)) return 0;
        *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
    #else
        Py_ssize_t sign = Py_SIZE(value);
        if (sign < -1 || sign > 1) return 0;
        *number = sign * (int64_t)((PyLongObject *)value)->ob_digit[0];
    #endif
        return 1;
    }
    """
    bint compact_int(PyObject *value, int64_t *number)

cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject *value)
    bint PyBool_Check(PyObject *value)
    bint PyIndex_Check(PyObject *value)
    bint PyFloat_Check(PyObject *value)
    bint PyUnicode_Check(PyObject *value)
    bint PyBytes_Check(PyObject *value)
    bint PyTuple_Check(PyObject *value)
    bint PyObject_TypeCheck(PyObject *value, void *type)
    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow)
    PyObject *PyNumber_Index(PyObject *value)
    double PyFloat_AsDouble(PyObject *value)
    PyObject *PyErr_Occurred()
    const char *PyUnicode_AsUTF8AndSize(PyObject *value, Py_ssize_t *size)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *value)
    char *PyBytes_AS_STRING(PyObject *value)
    int resize_bytes "_PyBytes_Resize" (PyObject **value, Py_ssize_t size)
    int PyObject_GetBuffer(PyObject *exporter, Py_buffer *view, int flags)
    void PyBuffer_Release(Py_buffer *view)
    int PyBUF_SIMPLE
    int PyObject_RichCompareBool(PyObject *left, PyObject *right, int operation)
    int Py_EQ
    int PyErr_ExceptionMatches(PyObject *kind)
    void PyErr_Clear()
    PyObject *PyExc_UnicodeEncodeError
    PyObject *PyExc_Exception
    PyObject *PyExc_TypeError
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_XDECREF(PyObject *value)
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False

cdef enum:
    FIRST_ROOM = 1024
    SHOWN = 60  # The most characters of a wrong value that an error shows.

cdef struct Unknown:
    PyObject *fields     # (tag, bytes) in order
    Py_ssize_t next
    int64_t previous     # the tag written last


cdef Step TAG  # An integer step with the range of an unknown field's tag.
TAG.lowest, TAG.highest = 0, UINT32_MAX
UNKNOWN_TAGGED_FIELDS = "unknown_tagged_fields"
cdef PyObject *UNKNOWN_NAME = <PyObject *>UNKNOWN_TAGGED_FIELDS


cdef object write_message(Program program, object message):
    """The bytes of the message; EncodeError or UnsupportedVersionError if it cannot be written."""
    cdef uint8_t first[FIRST_ROOM]
    cdef Writer writer
    cdef Py_ssize_t size
    open_writer(&writer, first, FIRST_ROOM, False)
    if write_struct(&writer, program.root, <PyObject *>message) < 0:
        Py_XDECREF(writer.grown)
        raise_error(&writer, program.words)
    size = writer.at - writer.start
    if writer.grown is NULL:
        return first[:size]
    if resize_bytes(&writer.grown, size) < 0:
        raise MemoryError
    written = <object>writer.grown
    Py_DECREF(writer.grown)
    return written


cdef Py_ssize_t write_message_into(Program program, object message, uint8_t *out, Py_ssize_t room) except -1:
    """Write the message to `out`; returns its size in bytes, EncodeError if it needs more than `room` bytes."""
    cdef Writer writer
    open_writer(&writer, out, room, True)
    if write_struct(&writer, program.root, <PyObject *>message) < 0:
        raise_error(&writer, program.words)
    return writer.at - writer.start


cdef int raise_error(Writer *w, object words) except -1:
    cdef Py_ssize_t count
    if w.why is NULL:
        return -1  # A Python exception is set already.
    path, why, shown = path_text(w.crumbs, w.depth), w.why.decode("ascii"), ""
    if w.culprit is not NULL:
        culprit = <object>w.culprit
        Py_DECREF(w.culprit)
        name = type(culprit).__name__ if packed_ints(<PyObject *>culprit, &count) is NULL else "list"
        is_plain = culprit is None or isinstance(culprit, (int, float, str, bytes))
        shown = f": {repr(culprit)[:SHOWN] if is_plain else name}"
    error = words.unsupported_version_error if w.unsupported else words.encode_error
    raise error(f"{path}: {why}{shown}" if path else f"{why}{shown}")


cdef inline int to_int(Writer *w, const Step *step, PyObject *value, int64_t *number) noexcept:
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        return index_of(w, step, value, number)
    if not compact_int(value, number):
        number[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number[0] < step.lowest or number[0] > step.highest:
        return fail(w, value, "out of range")
    return 0


cdef int index_of(Writer *w, const Step *step, PyObject *value, int64_t *number) noexcept:
    """Convert an object that is not exactly an int: NumPy's integers and enums are integers, a bool is not."""
    cdef PyObject *index
    cdef int result
    if PyBool_Check(value) or not PyIndex_Check(value):
        return fail(w, value, "expected an integer")
    Py_INCREF(value)
    index = PyNumber_Index(value)
    Py_DECREF(value)
    if index is NULL:
        if not PyErr_ExceptionMatches(PyExc_TypeError):
            return -1
        PyErr_Clear()  # A NumPy array that is not a single integer raises TypeError.
        return fail(w, value, "expected an integer")
    result = to_int(w, step, index, number)
    Py_DECREF(index)
    return result


cdef inline int write_value(Writer *w, const Step *step, PyObject *value) noexcept:
    return write_int(w, step, value) if step.kind <= INT64 and step.kind != BOOL else write_other(w, step, value)


cdef int write_other(Writer *w, const Step *step, PyObject *value) noexcept:
    if value is Py_None:
        return write_null(w, step)
    if step.kind == ARRAY:
        return write_array(w, step, value)
    if step.kind == STRING:
        return write_string(w, step, value)
    if step.kind == STRUCT:
        if step.nullable and put_bytes(w, "\x01", 1) < 0:
            return -1
        return write_struct(w, step.layout, value)
    if step.kind == BYTES or step.kind == RECORDS:
        return write_bytes(w, step, value)
    return write_fixed(w, step, value)


cdef inline int write_int(Writer *w, const Step *step, PyObject *value) noexcept:
    cdef int64_t number
    if to_int(w, step, value, &number) < 0 or make_room(w, step.min_size) < 0:
        return -1
    store(w.at, <uint64_t>number, step.min_size)
    w.at += step.min_size
    return 0


cdef int write_null(Writer *w, const Step *step) noexcept:
    if not step.nullable:
        return fail(w, Py_None, "not nullable")
    return put_bytes(w, "\xff", 1) if step.kind == STRUCT else put_length(w, step, -1)


cdef int write_fixed(Writer *w, const Step *step, PyObject *value) noexcept:
    """Write a bool, a float64 or a uuid."""
    cdef double real
    cdef uint64_t bits
    if make_room(w, step.min_size) < 0:
        return -1
    if step.kind == BOOL:
        if not PyBool_Check(value):
            return fail(w, value, "expected a bool")
        w.at[0] = value is Py_True
    elif step.kind == UUID:
        if not PyBytes_Check(value) or PyBytes_GET_SIZE(value) != 16:
            return fail(w, value, "expected a Uuid of 16 bytes")
        memcpy(w.at, PyBytes_AS_STRING(value), 16)
    else:
        if not PyFloat_Check(value) and not PyLong_CheckExact(value):
            return fail(w, value, "expected a float")
        real = PyFloat_AsDouble(value)
        if real == -1.0 and PyErr_Occurred():
            PyErr_Clear()
            return fail(w, value, "out of range")
        memcpy(&bits, &real, 8)
        store(w.at, bits, 8)
    w.at += step.min_size
    return 0


cdef int write_string(Writer *w, const Step *step, PyObject *value) noexcept:
    cdef Py_ssize_t size
    cdef const char *data
    if not PyUnicode_Check(value):
        return fail(w, value, "expected a str")
    data = PyUnicode_AsUTF8AndSize(value, &size)
    if data is NULL:
        if PyErr_ExceptionMatches(PyExc_UnicodeEncodeError):
            PyErr_Clear()
            return fail(w, value, "no UTF-8 for this")
        return -1
    if size > MAX_STRING:
        return fail(w, value, "longer than the 32767 bytes that Kafka allows")
    if put_length(w, step, size) < 0:
        return -1
    return put_bytes(w, data, size)


cdef int write_bytes(Writer *w, const Step *step, PyObject *value) noexcept:
    """Write a bytes-like object after its length; `step` NULL: an unknown tagged field, after its size as a varint."""
    cdef Py_buffer view
    cdef int result
    if PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0:
        PyErr_Clear()
        return fail(w, value, "expected bytes")
    if step is not NULL:
        result = put_length(w, step, view.len)
    elif view.len > MAX_LENGTH:
        result = fail(w, NULL, "longer than 2147483646 bytes or elements")
    else:
        result = put_varint(w, <uint32_t>view.len)
    if result == 0:
        result = put_bytes(w, view.buf, view.len)
    PyBuffer_Release(&view)
    return result


cdef int write_array(Writer *w, const Step *step, PyObject *values) noexcept:
    cdef int result
    cdef Py_ssize_t count
    cdef const int32_t *numbers = packed_ints(values, &count)
    if numbers is not NULL and step.element.kind == INT32:
        return write_packed(w, step, numbers, count)
    if not is_sequence(values):
        return fail(w, values, "expected a list")
    Py_INCREF(values)
    result = put_length(w, step, size_of(values))
    if result == 0:
        result = write_elements(w, step.element, values, size_of(values))
    Py_DECREF(values)
    return result


cdef int write_packed(Writer *w, const Step *step, const int32_t *numbers, Py_ssize_t count) noexcept:
    """Write a decoded array that is still packed."""
    cdef Py_ssize_t i
    if put_length(w, step, count) < 0 or make_room(w, 4 * count) < 0:
        return -1
    for i in range(count):
        store(w.at, <uint64_t>numbers[i], 4)
        w.at += 4
    return 0


cdef int write_elements(Writer *w, const Step *element, PyObject *values, Py_ssize_t count) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        if i >= size_of(values):
            return fail(w, values, "changed while it was written")
        if write_value(w, element, item_of(values, i)) < 0:
            leave_crumb(w, NULL, i)
            return -1
    return 0


cdef int write_struct(Writer *w, const Layout *layout, PyObject *instance) noexcept:
    cdef int result
    if not PyObject_TypeCheck(instance, layout.type):
        return fail(w, instance, "expected another struct")
    Py_INCREF(instance)
    result = write_fields(w, layout, instance)
    Py_DECREF(instance)
    return result


cdef int write_fields(Writer *w, const Layout *layout, PyObject *instance) noexcept:
    cdef int i
    if layout.refused_count and refuse_absent(w, layout, instance) < 0:
        return -1
    for i in range(layout.in_line_count):
        if write_value(w, &layout.in_line[i], field_of(instance, &layout.in_line[i])) < 0:
            leave_crumb(w, layout.in_line[i].name, 0)
            return -1
    return write_tagged(w, layout, instance)


cdef int refuse_absent(Writer *w, const Layout *layout, PyObject *instance) noexcept:
    """Fail if a field that the version lacks, and that is not ignorable, does not have its default."""
    cdef int i
    for i in range(layout.refused_count):
        if refuse_if_set(w, &layout.refused[i], field_of(instance, &layout.refused[i])) < 0:
            leave_crumb(w, layout.refused[i].name, 0)
            return -1
    return 0


cdef int write_one(Writer *w, const Step *step, PyObject *value) noexcept:
    """Write a value; `wire_parts` calls this."""
    return write_value(w, step, value)


cdef int refuse_if_set(Writer *w, const Step *step, PyObject *value) noexcept:
    """Fail unless the field, which the version lacks and which is not ignorable, has its default."""
    cdef int same = is_default(step, value)
    if same < 0:
        return -1
    if same:
        return 0
    w.unsupported = True
    return fail(w, value, "set, but the version lacks the field")


cdef int is_default(const Step *step, PyObject *value) noexcept:
    """1 if the value is the default, 0 if not, -1 with a Python exception. As in Kafka, null and an empty array differ.
    """
    cdef int same
    cdef Py_ssize_t count
    if value is step.default:
        return 1
    if step.kind == ARRAY:
        if packed_ints(value, &count) is not NULL:
            return step.default is not Py_None and count == 0
        return step.default is not Py_None and is_sequence(value) and size_of(value) == 0
    if step.blank is not NULL:
        return is_blank(step.blank, value)
    Py_INCREF(value)
    same = PyObject_RichCompareBool(value, step.default, Py_EQ)
    Py_DECREF(value)
    if same < 0 and PyErr_ExceptionMatches(PyExc_Exception):
        PyErr_Clear()  # A value that cannot be compared is not the default.
        return 0
    return same


cdef int is_blank(const Layout *layout, PyObject *instance) noexcept:
    """1 if all fields of the struct have their defaults, 0 if not, -1 with a Python exception."""
    cdef PyObject *unknown
    cdef int i, same = 1
    if not PyObject_TypeCheck(instance, layout.type):
        return 0
    unknown = slot_at(instance, layout.unknown_slot)
    if unknown is NULL or not is_sequence(unknown) or size_of(unknown) > 0:
        return 0
    Py_INCREF(instance)
    for i in range(layout.absent_count):
        same = is_default(&layout.absent[i], field_of(instance, &layout.absent[i]))
        if same <= 0:
            break
    Py_DECREF(instance)
    return same


cdef int write_tagged(Writer *w, const Layout *layout, PyObject *instance) noexcept:
    """Write the tagged fields: their number, then the set fields and the unknown fields, merged by ascending tag."""
    cdef Unknown unknown
    cdef int result
    unknown.fields, unknown.next, unknown.previous = slot_at(instance, layout.unknown_slot), 0, -1
    if unknown.fields is NULL or not is_sequence(unknown.fields):
        result = fail(w, unknown.fields, "expected a list of (tag, bytes)")
    elif not layout.flexible:
        if size_of(unknown.fields) == 0:
            return 0
        w.unsupported = True
        result = fail(w, unknown.fields, "set, but the version has no tagged fields")
    elif layout.tagged_count == 0 and size_of(unknown.fields) == 0:
        return put_varint(w, 0)
    else:
        Py_INCREF(unknown.fields)
        result = merge_tagged(w, layout, instance, &unknown)
        Py_DECREF(unknown.fields)
        return result
    leave_crumb(w, UNKNOWN_NAME, 0)
    return result


cdef int merge_tagged(Writer *w, const Layout *layout, PyObject *instance, Unknown *unknown) noexcept:
    cdef Py_ssize_t mark = w.at - w.start
    cdef const Step *step
    cdef int i, same
    cdef uint32_t count = 0
    for i in range(layout.tagged_count):
        step = &layout.tagged[i]
        same = is_default(step, field_of(instance, step))
        if same < 0 or write_unknown(w, layout, unknown, step.tag) < 0:
            return -1
        if same:
            continue
        if put_varint(w, step.tag) < 0 or write_sized(w, step, field_of(instance, step)) < 0:
            leave_crumb(w, step.name, 0)
            return -1
        count += 1
    if write_unknown(w, layout, unknown, <int64_t>UINT32_MAX + 1) < 0:
        return -1
    return insert_varint(w, mark, count + <uint32_t>unknown.next)


cdef int write_sized(Writer *w, const Step *step, PyObject *value) noexcept:
    cdef Py_ssize_t mark = w.at - w.start
    if write_value(w, step, value) < 0:
        return -1
    return insert_varint(w, mark, <uint32_t>(w.at - w.start - mark))


cdef int write_unknown(Writer *w, const Layout *layout, Unknown *unknown, int64_t below) noexcept:
    """Write the next unknown fields, as far as their tags are below `below`."""
    cdef PyObject *pair
    cdef int written = 1
    while written > 0 and unknown.next < size_of(unknown.fields):
        pair = item_of(unknown.fields, unknown.next)
        Py_INCREF(pair)
        written = write_pair(w, layout, unknown, below, pair)
        Py_DECREF(pair)
    if written >= 0:
        return 0
    leave_crumb(w, NULL, unknown.next)
    leave_crumb(w, UNKNOWN_NAME, 0)
    return -1


cdef int write_pair(Writer *w, const Layout *layout, Unknown *unknown, int64_t below, PyObject *pair) noexcept:
    """Write an unknown field; 1 if it was written, 0 if its tag is not below `below`."""
    cdef int64_t tag
    if not PyTuple_Check(pair) or size_of(pair) != 2:
        return fail(w, pair, "expected (tag, bytes)")
    if to_int(w, &TAG, item_of(pair, 0), &tag) < 0:
        return -1
    if is_known(layout, tag):
        return fail(w, item_of(pair, 0), "the tag of a field that is known")
    if tag <= unknown.previous:
        return fail(w, item_of(pair, 0), "tags must be in ascending order")
    if tag >= below:
        return 0
    if put_varint(w, <uint32_t>tag) < 0 or write_bytes(w, NULL, item_of(pair, 1)) < 0:
        return -1
    unknown.previous = tag
    unknown.next += 1
    return 1


cdef inline bint is_known(const Layout *layout, int64_t tag) noexcept:
    cdef int i
    for i in range(layout.tagged_count):
        if layout.tagged[i].tag == tag:
            return True
    return False
