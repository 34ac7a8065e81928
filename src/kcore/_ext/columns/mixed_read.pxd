"""Reads records that differ in the lengths of a few vectors."""

from libc.stdint cimport int64_t, uint64_t

from kcore._ext.columns.program cimport Node
from kcore._ext.columns.walk cimport Places, Walk

cdef uint64_t find_varying(const Walk* w, const Node* node, int64_t count, const Places* places) noexcept nogil
cdef bint learn_mixed(Walk* w, int64_t child, uint64_t varying, int64_t begin) noexcept nogil
cdef int64_t count_mixed(Walk* w, int64_t child, int64_t count) noexcept nogil
cdef void take_mixed(Walk* w, int64_t count) noexcept nogil
cdef void copy_mixed(Walk* w, int64_t child, uint64_t varying, int64_t count) noexcept nogil
