# cython: embedsignature=True, embedsignature.format=clinic
"""The object codec: decodes and encodes messages by the program of their class and version.

Methods have `binding(False)`: calls of plain C methods are faster, which saves a tenth of a small message's time.
"""

from cython cimport binding, final
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_Check
from cpython.memoryview cimport PyMemoryView_Check
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint8_t
from libc.string cimport strchr, strlen

from kcore._ext.wire.wire_parts cimport parts_of
from kcore._ext.wire.wire_program cimport Program
from kcore._ext.wire.wire_reader cimport read_message
from kcore._ext.wire.wire_writer cimport write_message, write_message_into

cdef const uint8_t *NOTHING = b""  # An empty buffer may have no address.
cdef const char *BYTES_OR_INTEGERS = b"cbB?hHiIlLqQnNs"  # The last letter of a struct module's format.

cdef enum:
    RECENT_MASK = 63

cdef struct Recent:
    PyObject *message
    PyObject *version
    PyObject *program


cdef inline bint is_immutable(object data):
    """True if `data` is a bytes object or a memoryview of one, whose bytes never change."""
    return PyBytes_CheckExact(data) or PyMemoryView_Check(data) and PyBytes_CheckExact(data.obj)


cdef int get(object data, Py_buffer *view, int flags, object words) except -1:
    """Set `view` to a contiguous buffer of bytes or integers; `words.not_bytes_error` for other objects."""
    cdef size_t length
    try:
        PyObject_GetBuffer(data, view, flags | PyBUF_ND | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError) as error:
        raise words.not_bytes_error(f"expected bytes, not {type(data).__name__}: {error}") from None
    length = 0 if view.format is NULL else strlen(view.format)
    if length and strchr(BYTES_OR_INTEGERS, view.format[length - 1]) is NULL:
        found = view.format.decode()
        PyBuffer_Release(view)
        raise words.not_bytes_error(f"expected bytes, not {type(data).__name__} of items of the format {found}")
    return 0


cdef bytes copy_of(object data, object words):
    """A copy of a buffer's bytes."""
    cdef Py_buffer view
    get(data, &view, PyBUF_SIMPLE, words)
    try:
        return PyBytes_FromStringAndSize(<char *>view.buf if view.len else NULL, view.len)
    finally:
        PyBuffer_Release(&view)


@final
cdef class Codec:
    """Decodes and encodes messages. `plan_of` makes the plan for a message's class or name, and a version.

    `codec_of` returns the codec of another dialect.
    """

    cdef object plan_of
    cdef object words
    cdef object codec_of
    cdef dict programs  # class or name -> a list of programs by version; None for a version not used yet
    cdef Recent recent[RECENT_MASK + 1]  # Recently used programs, by the addresses of message and version objects.

    def __init__(self, plan_of: object, words: object, codec_of: object) -> None:
        self.plan_of = plan_of
        self.words = words
        self.codec_of = codec_of
        self.programs = {}

    def __dealloc__(self) -> None:
        for i in range(RECENT_MASK + 1):
            Py_XDECREF(self.recent[i].message)
            Py_XDECREF(self.recent[i].version)
            Py_XDECREF(self.recent[i].program)

    cdef inline Program find(self, object message, object version, object dialect):
        cdef Recent *recent = &self.recent[(<size_t><void *>message >> 4 ^ <size_t><void *>version >> 5) & RECENT_MASK]
        if recent.message == <PyObject *>message and recent.version == <PyObject *>version and dialect is None:
            return <Program>recent.program
        return self.look_up(recent, message, version, dialect)

    cdef Program look_up(self, Recent *recent, object message, object version, object dialect):
        cdef Program program
        cdef Recent old
        if dialect is not None:
            return (<Codec?>self.codec_of(dialect)).find(message, version, None)
        program = self.program_of(message, version)
        old = recent[0]
        recent.message, recent.version, recent.program = <PyObject *>message, <PyObject *>version, <PyObject *>program
        Py_INCREF(message)
        Py_INCREF(version)
        Py_INCREF(program)
        Py_XDECREF(old.message)
        Py_XDECREF(old.version)
        Py_XDECREF(old.program)
        return program

    cdef Program program_of(self, object message, object version):
        cdef PyObject *found
        cdef int overflow = 0
        cdef long number
        try:
            found = PyDict_GetItemWithError(self.programs, message)
        except TypeError:  # An unhashable `message` is neither a class nor a name, so `plan_of` raises.
            found = NULL
        if found is not NULL and PyLong_Check(version):
            number = PyLong_AsLongAndOverflow(version, &overflow)
            if not overflow and 0 <= number < len(<list>found):
                program = (<list>found)[number]
                if program is not None:
                    return <Program>program
        return self.compile(message, version)

    cdef Program compile(self, object message, object version):
        plan = self.plan_of(message, version)
        programs = self.programs.setdefault(plan.struct, [])
        programs.extend([None] * (plan.version + 1 - len(programs)))
        if programs[plan.version] is None:
            programs[plan.version] = Program(plan, self.words)
        self.programs[message] = programs
        return programs[plan.version]

    @binding(False)
    def decode(self, message: object, version: object, data: object, dialect: object = None) -> object:
        """Decode a message without its header from all of `data`, a bytes-like object; bytes left over are an error.

        `message` is a name, for example "LeaderAndIsrRequest", or its class. Arrays are lists. Records are views that
        keep `data` alive. Unknown tags are kept in `unknown_tagged_fields`. `bytes` and memoryviews of them are read in
        place; any other buffer is copied first, since another thread may change it. `dialect="kip590"` reads the
        versions and the header of KIP-590 instead of those that Kafka shipped. Raises DecodeError with the offset of
        the wrong bytes, UnknownMessageError, UnsupportedVersionError, or NotBytesError for `data` that are not bytes.
        """
        cdef Program program = self.find(message, version, dialect)
        cdef Py_buffer view
        if PyBytes_CheckExact(data):
            return read_message(program, <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), NULL, data)
        if not is_immutable(data):
            data = copy_of(data, self.words)
        get(data, &view, PyBUF_SIMPLE, self.words)
        try:
            return read_message(program, <const uint8_t *>view.buf if view.len else NOTHING, view.len, NULL, data)
        finally:
            PyBuffer_Release(&view)

    @binding(False)
    def decode_from(
        self,
        message: object,
        version: object,
        data: object,
        offset: object = 0,
        dialect: object = None,
        most_values: object = 0x7FFFFFFFFFFFFFFF,
        gives_way: object = False,
    ) -> tuple[object, int]:
        """As `decode`, for the message that begins at byte `offset`; returns the message and its end.

        Raises DecodeError if the message's arrays and unknown tags have more than `most_values` elements in total: an
        object may take a hundred times the memory of its bytes. `gives_way` releases the GIL from time to time, for a
        large message beside an event loop. A frame has a header, `header, at = decode_from("RequestHeader", 2, frame)`,
        then a body, which begins at `at`.
        """
        cdef Program program = self.find(message, version, dialect)
        cdef Py_ssize_t end
        cdef Py_buffer view
        try:
            end = offset
        except (TypeError, OverflowError):
            raise self.words.argument_error(f"an offset is a number of bytes, not {offset!r}") from None
        if not is_immutable(data):
            data = copy_of(data, self.words)
        get(data, &view, PyBUF_SIMPLE, self.words)
        try:
            if not 0 <= end <= view.len:
                raise program.words.decode_error(f"there are only {view.len} bytes", end)
            found = read_message(
                program, <const uint8_t *>view.buf if view.len else NOTHING, view.len, &end, data, most_values,
                bool(gives_way),
            )
            return found, end
        finally:
            PyBuffer_Release(&view)

    @binding(False)
    def encode(self, message: object, version: object, out: object = None, dialect: object = None) -> object:
        """The message as bytes. With a writable buffer `out`, writes to its start and returns the number of bytes.

        Raises EncodeError, which names the field that cannot be written, or says that `out` has no room (the contents
        of `out` are then undefined). UnsupportedVersionError: the version does not exist, or it lacks a field that is
        set and not ignorable. NotBytesError: `out` is not a writable buffer of bytes.
        """
        cdef Program program = self.find(type(message), version, dialect)
        cdef Py_buffer view
        if out is None:
            return write_message(program, message)
        get(out, &view, PyBUF_WRITABLE, self.words)
        try:
            return write_message_into(program, message, <uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    @binding(False)
    def encode_parts(self, message: object, version: object) -> object:
        """Iterate over the bytes of `encode` in parts of about 64 KiB; the last part may be smaller.

        Raises the errors of `encode`, possibly after some parts. The message must not change during the iteration.
        """
        return parts_of(self.find(type(message), version, None), message)
