"""A stream of bytes cut into frames: each an int32 size, then as many bytes (org.apache.kafka.common.network).

Small frames share a buffer and are copied out of it. A frame that is larger than the buffer is received into bytes of
its own, which grow as it arrives: a size that is only announced costs nothing.
"""

from cython cimport final
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memmove

cdef enum:
    SIZE_BYTES = 4
    FIRST_CAPACITY = 4096  # Thousands of quiet connections should cost little.
    LARGEST_CAPACITY = 65536


cdef inline int32_t load_size(const char *at) noexcept nogil:
    cdef const uint8_t *byte = <const uint8_t *>at
    return <int32_t>(<uint32_t>byte[0] << 24 | <uint32_t>byte[1] << 16 | <uint32_t>byte[2] << 8 | byte[3])


@final
cdef class Window:
    """The rest of a large frame, writable while it is received: whoever writes keeps the frame alive."""

    cdef bytes frame
    cdef Py_ssize_t begin

    def __getbuffer__(self, Py_buffer *view, int flags) -> None:
        cdef char *start = PyBytes_AS_STRING(self.frame) + self.begin
        PyBuffer_FillInfo(view, self, start, PyBytes_GET_SIZE(self.frame) - self.begin, False, flags)


@final
cdef class Splitter:
    """See the .pyi."""

    cdef public Py_ssize_t max_frame_bytes
    cdef object frame_error
    cdef bytearray buffer
    cdef Py_ssize_t begin, end  # What is received and not yet taken, in the buffer.
    cdef Py_ssize_t writable  # What the last get_buffer gave.
    cdef bytes large  # The beginning of a frame that has its own bytes; all in the buffer comes after that frame.
    cdef Py_ssize_t large_size  # Of the whole frame: `large` grows to it.
    cdef Py_ssize_t large_end  # How many of its bytes are here.
    cdef bint into_large  # Where the last get_buffer pointed.

    def __init__(self, max_frame_bytes: int, frame_error: object) -> None:
        if max_frame_bytes < 0:
            raise ValueError(f"max_frame_bytes is {max_frame_bytes}")
        self.max_frame_bytes = max_frame_bytes
        self.frame_error = frame_error
        self.buffer = bytearray(FIRST_CAPACITY)
        self.begin = self.end = self.writable = self.large_end = self.large_size = 0
        self.into_large = False
        self.large = None

    @property
    def pending_bytes(self) -> int:
        return self.end - self.begin + (0 if self.large is None else SIZE_BYTES + self.large_end)

    @property
    def held_bytes(self) -> int:
        return len(self.buffer) + (0 if self.large is None else PyBytes_GET_SIZE(self.large))

    def get_buffer(self) -> memoryview:
        cdef Window window
        self.into_large = self.large is not None and self.large_end < self.large_size
        if self.into_large:
            if self.large_end == PyBytes_GET_SIZE(self.large):
                self.grow_large(2 * self.large_end)
            window = Window.__new__(Window)
            window.frame, window.begin = self.large, self.large_end
            self.writable = PyBytes_GET_SIZE(self.large) - self.large_end
            return memoryview(window)
        self.make_room()
        self.writable = len(self.buffer) - self.end
        return memoryview(self.buffer)[self.end:]

    cdef void move_to(self, char *start) noexcept:
        memmove(start, PyByteArray_AS_STRING(self.buffer) + self.begin, self.end - self.begin)
        self.end -= self.begin
        self.begin = 0

    cdef int make_room(self) except -1:
        """Moves what is pending to the front; a buffer that was filled to its end is replaced by one twice as large."""
        cdef Py_ssize_t capacity = len(self.buffer)
        cdef bytearray larger
        if self.end == capacity and (self.begin == 0 or capacity < LARGEST_CAPACITY):
            larger = bytearray(2 * capacity)
            self.move_to(PyByteArray_AS_STRING(larger))
            self.buffer = larger
        elif self.begin:
            self.move_to(PyByteArray_AS_STRING(self.buffer))
        return 0

    def trim(self) -> None:
        if self.end == self.begin and len(self.buffer) > FIRST_CAPACITY:
            self.buffer = bytearray(FIRST_CAPACITY)
            self.begin = self.end = self.writable = 0

    cdef int grow_large(self, Py_ssize_t capacity) except -1:
        """Puts what is here of the large frame into new bytes: somebody may still write into a window of the old."""
        cdef bytes larger = PyBytes_FromStringAndSize(NULL, min(self.large_size, capacity))
        memcpy(PyBytes_AS_STRING(larger), PyBytes_AS_STRING(self.large), self.large_end)
        self.large = larger
        return 0

    def received(self, count: int) -> None:
        if not 0 <= count <= self.writable:
            raise ValueError(f"{count} bytes received, of at most {self.writable}")
        self.writable = 0
        if self.into_large:
            self.large_end += count
        else:
            self.end += count

    def next_frame(self) -> bytes | None:
        cdef const char *at
        cdef Py_ssize_t size, here = self.end - self.begin - SIZE_BYTES
        if self.large is not None:
            return self.take_large()
        if here < 0:
            return None
        at = PyByteArray_AS_STRING(self.buffer) + self.begin
        size = load_size(at)
        if not 0 <= size <= self.max_frame_bytes:
            raise self.frame_error(f"a frame of {size} bytes; the bound is {self.max_frame_bytes}")
        if here >= size:
            self.begin += SIZE_BYTES + size
            return PyBytes_FromStringAndSize(at + SIZE_BYTES, size)
        if SIZE_BYTES + size > len(self.buffer):
            self.large = PyBytes_FromStringAndSize(NULL, min(size, max(LARGEST_CAPACITY, 2 * here)))
            memcpy(PyBytes_AS_STRING(self.large), at + SIZE_BYTES, here)
            self.large_size, self.large_end, self.begin, self.end = size, here, 0, 0
        return None

    cdef bytes take_large(self):
        cdef bytes frame = self.large
        if self.large_end < self.large_size:
            return None
        self.large = None
        return frame
