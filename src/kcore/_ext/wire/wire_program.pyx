"""Compiles a plan (`kcore.wire.plan`) into the C structs of wire_program.pxd, once for each class and version."""

import sys

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.object cimport PyObject, PyTypeObject

from libc.stdint cimport int32_t, uint8_t

from kcore._ext.wire.wire_memory cimport (
    PackedInts_Type, PyType_Ready, check_head, ints_of, make_bytes, make_instance, make_list, pack_ints, set_dealloc,
)

import sys


cdef extern from *:
    """
    #include <structmember.h>
    /* The offset of a member in a slotted instance, in bytes; -1 if the descriptor is not a slot's. */
    static Py_ssize_t slot_offset(PyObject *descriptor) {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        return member->type == T_OBJECT_EX ? member->offset : -1;
    }

    static PyObject *explain = NULL;

    /* As type.__call__, except that `explain` may replace a TypeError by a better error. */
    static PyObject *call_class(PyObject *type, PyObject *args, PyObject *keywords) {
        PyObject *made = PyType_Type.tp_call(type, args, keywords);
        if (made != NULL || !PyErr_ExceptionMatches(PyExc_TypeError)) return made;
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        PyObject *better = PyObject_CallFunctionObjArgs(explain, type, args, keywords ? keywords : Py_None, NULL);
        if (better == Py_None) {
            PyErr_Restore(kind, value, trace);
        } else {
            Py_XDECREF(kind);
            Py_XDECREF(value);
            Py_XDECREF(trace);
            if (better != NULL) PyErr_SetObject((PyObject *)Py_TYPE(better), better);
        }
        Py_XDECREF(better);
        return NULL;
    }

    static void set_call(PyTypeObject *metaclass, PyObject *function) {
        Py_INCREF(function);
        Py_XSETREF(explain, function);
        metaclass->tp_call = call_class;
    }
    """
    Py_ssize_t slot_offset(object descriptor)
    void Py_INCREF(PyObject *value)
    void set_call(PyTypeObject *metaclass, PyObject *function)


FIXED_SIZES = {BOOL: 1, INT8: 1, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8, FLOAT64: 8, UUID: 16}
RANGES = {
    INT8: (-(2**7), 2**7 - 1),
    INT16: (-(2**15), 2**15 - 1),
    UINT16: (0, 2**16 - 1),
    INT32: (-(2**31), 2**31 - 1),
    UINT32: (0, 2**32 - 1),
    INT64: (-(2**63), 2**63 - 1),
}


def explain_calls(metaclass: type, explain: object) -> None:
    """Let `explain(cls, args, keywords)` replace the TypeError of a wrong call of a class of `metaclass`.

    `explain` returns a better exception, or None to keep the TypeError. `keywords` is None if there were none. Correct
    calls take no extra time, unlike with an `__init__` for any keyword, or with a `__call__` in Python.
    """
    set_call(<PyTypeObject *>metaclass, <PyObject *>explain)


cdef class Program:
    """One compiled version of one message; the codec creates it.

    `words` holds the exceptions and the Uuid of higher layers, which kernels must not import.
    """

    def __init__(self, plan: object, words: object) -> None:
        self.words = words
        self.owned = []
        self.root = self.layout(plan)

    cdef void *block(self, Py_ssize_t count, Py_ssize_t size) except NULL:
        """Zeroed memory that lives as long as the program."""
        memory = bytearray(max(count, 1) * size)
        self.owned.append(memory)
        return <void *>PyByteArray_AS_STRING(memory)

    cdef PyObject *own(self, object value) except NULL:
        self.owned.append(value)
        return <PyObject *>value

    cdef Layout *layout(self, object plan) except NULL:
        cdef Layout *layout = <Layout *>self.block(1, sizeof(Layout))
        refused = [field for field in plan.absent if not field.options.ignorable]
        layout.type = <PyTypeObject *>self.own(plan.struct)
        layout.flexible = plan.flexible
        set_dealloc(layout.type, len(plan.struct.__fields__) + 1)
        layout.unknown_slot = slot_of(plan.struct, "unknown_tagged_fields")
        layout.in_line_count, layout.tagged_count = len(plan.in_line), len(plan.tagged)
        layout.absent_count, layout.refused_count = len(plan.absent), len(refused)
        layout.in_line = self.fields([(step.field, step) for step in plan.in_line], plan.struct)
        layout.tagged = self.fields([(step.field, step) for step in plan.tagged], plan.struct)
        layout.absent = self.fields([(field, None) for field in plan.absent], plan.struct)
        layout.refused = self.fields([(field, None) for field in refused], plan.struct)
        layout.min_size = plan.flexible + sum([layout.in_line[i].min_size for i in range(layout.in_line_count)])
        return layout

    cdef Layout *blank(self, object struct) except NULL:
        """The layout of an instance of `struct` that has only defaults."""
        cdef Layout *layout = <Layout *>self.block(1, sizeof(Layout))
        layout.type = <PyTypeObject *>self.own(struct)
        layout.unknown_slot = slot_of(struct, "unknown_tagged_fields")
        layout.absent_count = len(struct.__fields__)
        layout.absent = self.fields([(field, None) for field in struct.__fields__], struct)
        return layout

    cdef Step *fields(self, object steps, object struct) except? NULL:
        cdef Step *compiled = <Step *>self.block(len(steps), sizeof(Step))
        cdef Step *step = compiled
        for field, field_step in steps:
            step.slot = slot_of(struct, field.name)
            step.name = self.own(field.name)
            step.kind = field.type.kind
            step.default = self.own(field.default())
            fresh = step.kind in (STRUCT, ARRAY) and <object>step.default is not None
            step.initial = NULL if fresh else step.default
            if fresh and step.kind == ARRAY and field.type.element.kind == INT32:
                step.initial = NO_INTS
            if fresh and step.kind == STRUCT:
                step.blank = self.blank(field.type.struct)
            if field_step is not None:
                step.tag = -1 if field_step.tag is None else field_step.tag
                self.value(step, field_step.step)
            step += 1
        return compiled

    cdef int value(self, Step *step, object plan) except -1:
        """Compile the encoding of a value, of a struct's fields and of an array's elements."""
        step.kind, step.compact, step.nullable = plan.kind, plan.compact, plan.nullable
        step.type = <PyTypeObject *>self.words.uuid
        if plan.struct is not None:
            step.layout = self.layout(plan.struct)
        if plan.element is not None:
            step.element = <Step *>self.block(1, sizeof(Step))
            self.value(step.element, plan.element)
        if step.kind == STRUCT:
            step.min_size = 1 if step.nullable else step.layout.min_size
        elif step.kind in FIXED_SIZES:
            step.min_size = FIXED_SIZES[step.kind]
            step.lowest, step.highest = RANGES.get(step.kind, (0, 0))
        else:
            step.min_size = 1 if step.compact else 2 if step.kind == STRING else 4
        return 0


cdef Py_ssize_t slot_of(object struct, str name) except -1:
    found = getattr(struct, name)
    return slot_of_member(getattr(found, "member", found))


cdef Py_ssize_t slot_of_member(object member) except -1:
    offset = slot_offset(member)
    if offset < 0:
        raise TypeError(f"{member!r} is not a slot")
    return offset


check_head(sys.getsizeof([]) - list.__basicsize__)
PyType_Ready(&PackedInts_Type)
cdef PyObject *NO_INTS = pack_ints(NULL, 0, False)


cdef PyObject *new_instance(PyTypeObject *type, bint many) noexcept:
    """A new instance with empty slots. `many`: the message has many objects, so allocate from a slab."""
    return make_instance(type, many)


cdef PyObject *new_list(Py_ssize_t count) noexcept:
    """A new list of `count` items, all of which the caller must set."""
    return make_list(count)


cdef PyObject *new_bytes(const char *data, Py_ssize_t size) noexcept:
    return make_bytes(data, size)


cdef PyObject *new_packed(const uint8_t *at, Py_ssize_t count, bint many) noexcept:
    """The packed int32s from `count` big-endian ones, whose bytes the caller has checked; `many` as in `new_instance`.
    """
    if count == 0:
        Py_INCREF(NO_INTS)
        return NO_INTS
    return pack_ints(at, count, many)


cdef const int32_t *packed_ints(PyObject *value, Py_ssize_t *count) noexcept:
    """The packed numbers of a value, with `count` set; NULL if the value is not packed."""
    return ints_of(value, count)


cdef str path_text(const Crumb *crumbs, int count):
    """The path of an error, for example topic_states[3].isr, from the crumbs of a reader or writer, innermost first."""
    text = ""
    for i in range(count - 1, -1, -1):
        if crumbs[i].name is NULL:
            text += f"[{crumbs[i].index}]"
        else:
            text += f".{<object>crumbs[i].name}" if text else <object>crumbs[i].name
    return text
