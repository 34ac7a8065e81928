"""Learns the layouts of records that are read."""

from libc.stdint cimport int64_t, uint8_t

from kcore._ext.columns.walk cimport Layout, Walk

cdef bint learn(Walk* w, int64_t child, Layout* layout, int64_t begin) noexcept nogil
cdef bint find_run(Walk* w, int64_t child, int64_t count) noexcept nogil
cdef void learn_all(Walk* w, int64_t child, int64_t begin) noexcept nogil
cdef bint is_alike(const uint8_t* record, const Layout* layout) noexcept nogil
