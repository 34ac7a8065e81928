from libc.stdint cimport int64_t

from kcore._ext.columns.program cimport Extent, Node, Op


cdef class Tables:
    cdef const int64_t[:, ::1] held_nodes  # These three arrays keep the memory of the pointers below alive.
    cdef const int64_t[:, ::1] held_ops
    cdef const int64_t[:, ::1] held_extents
    cdef const Node* nodes
    cdef const Op* ops
    cdef const Extent* extents
    cdef Py_ssize_t node_count
    cdef Py_ssize_t op_count
    cdef Py_ssize_t column_count
