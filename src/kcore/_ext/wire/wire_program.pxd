"""The C structs of a plan, which the reader and the writers follow. `Program` owns the memory of all structs."""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint8_t

cpdef enum Kind:
    """The numbers of `kcore.schema.kinds.Kind`; a test compares them."""
    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    STRUCT = 12
    ARRAY = 13

cdef enum:
    MAX_DEPTH = 32      # The most crumbs of a path, two for each level of nesting. Kafka's deepest message needs ten.
    MAX_STRING = 32767  # The most bytes of a string in Kafka, of a compact string too.

cdef struct Step:
    Kind kind
    bint compact
    bint nullable
    int32_t tag             # tag of a tagged field
    Py_ssize_t slot         # offset of the field in the instance, in bytes
    Py_ssize_t min_size     # the fewest bytes that a value takes
    int64_t lowest          # lowest value of an integer
    int64_t highest
    PyObject *name
    PyObject *initial       # the default that instances share (PackedInts for int32s); NULL: each needs a new object
    PyObject *default       # the default, to compare values with it
    Layout *blank           # layout of the default of a STRUCT that is not null by default: all fields are `absent`
    Step *element           # element of an ARRAY
    Layout *layout          # layout of a STRUCT
    PyTypeObject *type      # type of a UUID

cdef struct Layout:
    PyTypeObject *type
    bint flexible
    Py_ssize_t min_size
    Py_ssize_t unknown_slot  # offset of `unknown_tagged_fields`
    int in_line_count
    int tagged_count
    int absent_count
    int refused_count
    Step *in_line
    Step *tagged            # ascending tags
    Step *absent            # the fields that this version lacks: the reader sets their defaults
    Step *refused           # the fields of `absent` that are not ignorable: writing fails unless they have defaults

cdef struct Crumb:
    PyObject *name          # name of a field, or NULL
    Py_ssize_t index        # index in an array

cdef class Program:
    cdef readonly object words
    cdef Layout *root
    cdef list owned

    cdef void *block(self, Py_ssize_t count, Py_ssize_t size) except NULL
    cdef PyObject *own(self, object value) except NULL
    cdef Layout *layout(self, object plan) except NULL
    cdef Layout *blank(self, object struct) except NULL
    cdef Step *fields(self, object steps, object struct) except? NULL
    cdef int value(self, Step *step, object plan) except -1

cdef PyObject *new_instance(PyTypeObject *type, bint many) noexcept
cdef PyObject *new_list(Py_ssize_t count) noexcept
cdef PyObject *new_bytes(const char *data, Py_ssize_t size) noexcept
cdef PyObject *new_packed(const uint8_t *at, Py_ssize_t count, bint many) noexcept
cdef const int32_t *packed_ints(PyObject *value, Py_ssize_t *count) noexcept
cdef Py_ssize_t slot_of_member(object member) except -1
cdef str path_text(const Crumb *crumbs, int count)
