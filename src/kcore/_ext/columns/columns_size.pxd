"""The bytes that columns take in a message, and the tagged fields that rows omit."""

from libc.stdint cimport int64_t

from kcore._ext.columns.program cimport Op
from kcore._ext.wire.sink cimport Sink

cdef bint has_tags(const Sink* s, int64_t child) noexcept nogil
cdef void find_absent(Sink* s, int64_t k, int64_t rows) noexcept nogil
cdef int64_t size_op(const Sink* s, const Op* op, int64_t begin, int64_t end) noexcept nogil
cdef int64_t size_rows(const Sink* s, int64_t child, int64_t begin, int64_t end) noexcept nogil
cdef int64_t first_tag(const Sink* s, int64_t child, int64_t row) noexcept nogil
