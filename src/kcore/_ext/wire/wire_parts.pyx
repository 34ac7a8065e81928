"""Writes a message to bytes in parts: as `wire_writer`, but with an explicit stack for arrays of structs.

A part ends after the element with which it reaches PART_BYTES. If a user changes the message between two parts, the
bytes may be invalid. Memory stays safe: this module holds references to visited objects, and reads a list's size again
for each element.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from kcore._ext.wire.wire_buffer cimport Writer, fail, leave_crumb, open_writer
from kcore._ext.wire.wire_program cimport ARRAY, STRUCT, Layout, Program, Step
from kcore._ext.wire.wire_slots cimport field_of, is_sequence, item_of, put_length, size_of
from kcore._ext.wire.wire_writer cimport raise_error, refuse_absent, write_one, write_tagged

cdef extern from "Python.h":
    bint PyObject_TypeCheck(PyObject *value, void *type)
    int resize_bytes "_PyBytes_Resize" (PyObject **value, Py_ssize_t size)
    void Py_INCREF(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_XDECREF(PyObject *value)
    PyObject *Py_None

cdef enum:
    FIRST_ROOM = 1024
    PART_BYTES = 1 << 16  # The size from which a part ends; writing it takes a fraction of a millisecond.
    MAX_LEVELS = 8        # Levels of nested structs on the stack; a deeper struct is written as a whole.

cdef struct Level:
    const Layout *layout
    PyObject *instance   # a held reference
    int field            # the next field to write
    PyObject *values     # the array of the field `field` while its elements are written, a held reference
    const Step *element
    Py_ssize_t count, next
    bint is_deep         # The array's elements have arrays of structs too.


cdef object parts_of(Program program, object message):
    """An iterator over the message's bytes in parts. It raises the errors of `write_message`, possibly after parts."""
    parts = Parts()
    parts.begin(program, message)
    return parts


cdef class Parts:
    """An iterator over the bytes of a message in parts; the last part may be small."""

    cdef Program program
    cdef Writer writer
    cdef uint8_t first[FIRST_ROOM]
    cdef Level levels[MAX_LEVELS]
    cdef int depth

    cdef int begin(self, Program program, object message) except -1:
        self.program = program
        open_writer(&self.writer, self.first, FIRST_ROOM, False)
        if self.enter(program.root, <PyObject *>message) < 0:
            raise_error(&self.writer, program.words)
        return 0

    def __dealloc__(self) -> None:
        while self.depth:
            self.leave()
        Py_XDECREF(self.writer.grown)

    def __iter__(self) -> "Parts":
        return self

    def __next__(self) -> bytes:
        if self.depth == 0:
            raise StopIteration
        open_writer(&self.writer, self.first, FIRST_ROOM, False)
        if self.fill() < 0:
            self.leave_crumbs()
            Py_XDECREF(self.writer.grown)
            self.writer.grown = NULL
            raise_error(&self.writer, self.program.words)
        return self.taken()

    cdef object taken(self):
        cdef Py_ssize_t size = self.writer.at - self.writer.start
        if self.writer.grown is NULL:
            return self.first[:size]
        if resize_bytes(&self.writer.grown, size) < 0:
            raise MemoryError
        part = <object>self.writer.grown
        Py_DECREF(self.writer.grown)
        self.writer.grown = NULL
        return part

    cdef int fill(self) noexcept:
        """Write the next part to the buffer."""
        cdef Writer *w = &self.writer
        cdef Level *level
        cdef PyObject *item
        while self.depth:
            level = &self.levels[self.depth - 1]
            if level.values is NULL:
                if self.next_field(level) < 0:
                    return -1
                continue
            if level.next == level.count:
                Py_DECREF(level.values)
                level.values = NULL
                level.field += 1
                continue
            if level.next >= size_of(level.values):
                return fail(w, level.values, "changed while it was written")
            item = item_of(level.values, level.next)
            level.next += 1
            if level.is_deep and item is not Py_None:
                if self.enter(level.element.layout, item) < 0:
                    return -1
            elif write_one(w, level.element, item) < 0:
                return -1
            if w.at - w.start >= PART_BYTES:
                return 0
        return 0

    cdef int next_field(self, Level *level) noexcept:
        """Write a field, or begin an array of structs. After the last field, write tagged fields and end the struct."""
        cdef Writer *w = &self.writer
        cdef const Step *step
        cdef PyObject *value
        if level.field == level.layout.in_line_count:
            if write_tagged(w, level.layout, level.instance) < 0:
                return -1
            self.leave()
            return 0
        step = &level.layout.in_line[level.field]
        value = field_of(level.instance, step)
        if not is_of_structs(step) or not is_sequence(value):
            if write_one(w, step, value) < 0:
                return -1
            level.field += 1
            return 0
        level.element, level.count, level.next = step.element, size_of(value), 0
        level.is_deep = self.depth < MAX_LEVELS and not step.element.nullable and has_arrays(step.element.layout)
        if put_length(w, step, level.count) < 0:
            return -1
        Py_INCREF(value)
        level.values = value
        return 0

    cdef int enter(self, const Layout *layout, PyObject *instance) noexcept:
        cdef Level *level = &self.levels[self.depth]
        if not PyObject_TypeCheck(instance, layout.type):
            return fail(&self.writer, instance, "expected another struct")
        if layout.refused_count and refuse_absent(&self.writer, layout, instance) < 0:
            return -1
        Py_INCREF(instance)
        level.layout, level.instance, level.field, level.values = layout, instance, 0, NULL
        self.depth += 1
        return 0

    cdef void leave(self) noexcept:
        self.depth -= 1
        Py_XDECREF(self.levels[self.depth].values)
        Py_DECREF(self.levels[self.depth].instance)

    cdef void leave_crumbs(self) noexcept:
        """Add the path of the error to the writer's crumbs, the innermost first, and end the iteration."""
        cdef Level *level
        while self.depth:
            level = &self.levels[self.depth - 1]
            if level.values is not NULL:
                leave_crumb(&self.writer, NULL, level.next - 1 if level.next else 0)
            if level.field < level.layout.in_line_count:
                leave_crumb(&self.writer, level.layout.in_line[level.field].name, 0)
            self.leave()


cdef inline bint is_of_structs(const Step *step) noexcept:
    return step.kind == ARRAY and step.element.kind == STRUCT


cdef bint has_arrays(const Layout *layout) noexcept:
    cdef int i
    for i in range(layout.in_line_count):
        if is_of_structs(&layout.in_line[i]):
            return True
    return False
