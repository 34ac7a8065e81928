"""The layouts of records, read."""

from libc.stdint cimport int64_t, uint8_t

from kcore._ext.walk cimport Layout, Walk

cdef bint learn(Walk* w, int64_t child, Layout* layout, int64_t begin) noexcept nogil
cdef bint is_alike(const uint8_t* record, const Layout* layout) noexcept nogil
cdef int64_t count_alike(const uint8_t* record, int64_t limit, const Layout* layout) noexcept nogil
