"""Compiles a plan (`kcore.wire.plan`) into the C structs of wire_program.pxd, once a class and version."""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.object cimport PyObject, PyTypeObject


cdef extern from *:
    """
    #include <structmember.h>
    /* Where a slotted instance keeps that member. */
    static Py_ssize_t slot_offset(PyObject *descriptor) {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        return member->type == T_OBJECT_EX ? member->offset : -1;
    }

    /* Memory of instances that are gone, by size in pointers: empty slots, the first links to the next. */
    enum { SPARE_SIZES = 64, MOST_SPARES = 64 };
    static struct { PyObject *first; int count; } spares[SPARE_SIZES];

    static Py_ssize_t size_class(PyTypeObject *type) {
        Py_ssize_t size = type->tp_basicsize / sizeof(PyObject *);
        return size < SPARE_SIZES ? size : 0;  // No instance is so small: the list of size 0 stays empty.
    }

    /* With empty slots, and unknown to the collector: a message is a tree, so it would visit it for nothing. */
    static PyObject *make_instance(PyTypeObject *type) {
        Py_ssize_t size = size_class(type);
        PyObject *instance = spares[size].first;
        if (instance != NULL) {
            spares[size].first = *(PyObject **)(instance + 1);
            spares[size].count--;
            *(PyObject **)(instance + 1) = NULL;
    #if defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
            return PyObject_Init(instance, type);
    #else
            Py_SET_TYPE(instance, type);  /* What PyObject_Init does, without its two calls. */
            Py_INCREF(type);
            Py_SET_REFCNT(instance, 1);
            return instance;
    #endif
        }
        if ((instance = _PyObject_GC_New(type)) == NULL) return NULL;
        memset(instance + 1, 0, type->tp_basicsize - sizeof(PyObject));
        return instance;
    }

    static void free_slots(PyObject *self);

    static void free_now(PyObject *self) {
        PyTypeObject *type = Py_TYPE(self), *own = type;
        Py_ssize_t size = size_class(type);
        while (own->tp_dealloc != free_slots) own = own->tp_base;
        for (PyObject **slot = (PyObject **)(self + 1); (char *)slot < (char *)self + own->tp_basicsize; slot++) {
            PyObject *value = *slot;
            *slot = NULL;
            Py_XDECREF(value);
        }
        if (own == type && size > 0 && spares[size].count < MOST_SPARES) {
            *(PyObject **)(self + 1) = spares[size].first;
            spares[size].first = self;
            spares[size].count++;
        } else {
            type->tp_free(self);
        }
        Py_DECREF(type);
    }

    /* Frees an instance that is nothing but slots: the general way costs as much as all the rest of a small message.
       A subclass of a user's own frees what it added, then comes here. No message nests deep, so the
       interpreter's guard against deep nesting, which takes time, waits until one does. */
    static void free_slots(PyObject *self) {
        static int depth = 0;
        PyObject_GC_UnTrack(self);
        if (depth < 50) {
            depth++;
            free_now(self);
            depth--;
            return;
        }
        Py_TRASHCAN_BEGIN(self, free_slots)
        free_now(self);
        Py_TRASHCAN_END
    }

    static void set_dealloc(PyTypeObject *type, Py_ssize_t slots) {
        if (type->tp_basicsize == (Py_ssize_t)(sizeof(PyObject) + slots * sizeof(PyObject *)) && !type->tp_finalize)
            type->tp_dealloc = free_slots;
    }

    static PyObject *explain = NULL;

    /* As type.__call__, but for a TypeError that `explain` has a better error for. */
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
    PyObject *make_instance(PyTypeObject *type)
    void set_dealloc(PyTypeObject *type, Py_ssize_t slots)
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
    """Has `explain(cls, args, keywords)` look at calls of the metaclass' classes that raised a TypeError.

    It returns a better exception or None. `keywords` is None where there were none. Calls that are right pay nothing,
    as they would for an `__init__` that takes any keyword, or for a `__call__` in Python.
    """
    set_call(<PyTypeObject *>metaclass, <PyObject *>explain)


cdef class Program:
    """One version of one message, compiled. Made by the codec, of no use alone.

    `words` is what the package above knows and kernels do not: its exceptions and its Uuid.
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
        """An instance with nothing but defaults, whatever the version."""
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
            if fresh and step.kind == STRUCT:
                step.blank = self.blank(field.type.struct)
            if field_step is not None:
                step.tag = -1 if field_step.tag is None else field_step.tag
                self.value(step, field_step.step)
            step += 1
        return compiled

    cdef int value(self, Step *step, object plan) except -1:
        """How a value is written, and of an array its elements."""
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
    offset = slot_offset(getattr(struct, name))
    if offset < 0:
        raise TypeError(f"{struct.__name__}.{name} is not a slot")
    return offset


cdef PyObject *new_instance(PyTypeObject *type) noexcept:
    return make_instance(type)


cdef str path_text(const Crumb *crumbs, int count):
    """Such as topic_states[3].isr, from the crumbs that an unwinding reader or writer left: innermost first."""
    text = ""
    for i in range(count - 1, -1, -1):
        if crumbs[i].name is NULL:
            text += f"[{crumbs[i].index}]"
        else:
            text += f".{<object>crumbs[i].name}" if text else <object>crumbs[i].name
    return text
