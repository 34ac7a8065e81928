"""The object codec's front: finds the program of a message and version, and runs it."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_Check
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from kcore._ext.wire_program cimport Program
from kcore._ext.wire_reader cimport read_message
from kcore._ext.wire_writer cimport write_message, write_message_into

cdef const uint8_t *NOTHING = b""  # An empty buffer may have no address.


cdef class Codec:
    """The object codec over a function that makes the plan of a class or name and a version.

    `codec_of` gives the codec of another dialect.
    """

    cdef object plan_of
    cdef object words
    cdef object codec_of
    cdef dict programs  # class or name -> programs by version, None where none was asked for yet

    def __init__(self, plan_of: object, words: object, codec_of: object) -> None:
        self.plan_of = plan_of
        self.words = words
        self.codec_of = codec_of
        self.programs = {}

    cdef Program find(self, object message, object version, object dialect):
        cdef PyObject *found = PyDict_GetItemWithError(self.programs, message)
        cdef int overflow = 0
        cdef long number
        if dialect is not None:
            return (<Codec?>self.codec_of(dialect)).find(message, version, None)
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

    def decode(self, message: object, version: int, data: object, dialect: object = None) -> object:
        """The message in all of `data`, any bytes-like object; no header inside, no bytes left over.

        `message` is a name, such as "LeaderAndIsrRequest", or its class. Arrays are lists, records are views that keep
        `data` alive, tags that the schema does not know are kept in `unknown_tagged_fields`.
        `dialect="kip590"` reads the versions and the header of that document instead of those that Kafka shipped.
        DecodeError has the offset of what is wrong; UnknownMessageError, UnsupportedVersionError.
        """
        cdef Program program = self.find(message, version, dialect)
        cdef Py_buffer view
        if PyBytes_CheckExact(data):
            return read_message(program, <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return read_message(program, <const uint8_t *>view.buf if view.len else NOTHING, view.len, data)
        finally:
            PyBuffer_Release(&view)

    def encode(self, message: object, version: int, out: object = None, dialect: object = None) -> object:
        """The message as bytes; with `out`, a writable buffer, fills it from its start and says how many bytes it took.

        EncodeError names the field that cannot be written, or says that `out` has no room (what it then holds is
        not defined); UnsupportedVersionError: no such version, or it lacks a field that is set and not ignorable.
        """
        cdef Program program = self.find(type(message), version, dialect)
        cdef Py_buffer view
        if out is None:
            return write_message(program, message)
        PyObject_GetBuffer(out, &view, PyBUF_WRITABLE)
        try:
            return write_message_into(program, message, <uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
