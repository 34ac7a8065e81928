"""Runs of flat records, read."""

from libc.stdint cimport int64_t, uint8_t

from kcore._ext.program cimport Node
from kcore._ext.walk cimport Layout, Places, Walk

cdef bint learn(Walk* w, const Node* node, Layout* layout, int64_t begin) noexcept nogil
cdef bint is_alike(const uint8_t* record, const Layout* layout) noexcept nogil
cdef int64_t count_alike(const uint8_t* record, int64_t limit, const Layout* layout) noexcept nogil
cdef int64_t chain(Walk* w, const Node* node, int64_t count, Places* places) noexcept nogil
cdef bint count_others(Walk* w, const Node* node, int64_t count, const Places* places) noexcept nogil
cdef void copy_others(Walk* w, const Node* node, int64_t row, int64_t count, const Places* places) noexcept nogil
cdef bint check_texts(Walk* w, const Node* node, const Layout* layout, int64_t count) noexcept nogil
cdef void copy_block(Walk* w, const Node* node, const Layout* layout, int64_t row, int64_t count) noexcept nogil
