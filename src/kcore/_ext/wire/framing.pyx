"""Splits a stream of bytes into frames: an int32 size, then that many bytes (org.apache.kafka.common.network).

Small frames share a buffer and are copied out of it. A frame larger than the buffer is received into separate pieces,
which are allocated while it arrives and joined when it is complete. So the size in a header allocates no memory, and
the received bytes of a large frame are not copied each time the frame grows.
"""

from cython cimport final
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memmove

cdef enum:
    SIZE_BYTES = 4
    FIRST_CAPACITY = 4096  # The buffer's first bytes; few, because there may be thousands of idle connections.
    LARGEST_CAPACITY = 65536
    LARGEST_PIECE = 1 << 20
    LARGEST_ROOM = 1 << 17  # The most bytes of a large frame that one `get_buffer` has room for.


cdef inline int32_t load_size(const char *at) noexcept nogil:
    cdef const uint8_t *byte = <const uint8_t *>at
    return <int32_t>(<uint32_t>byte[0] << 24 | <uint32_t>byte[1] << 16 | <uint32_t>byte[2] << 8 | byte[3])


@final
cdef class Window:
    """The writable room in a piece of a large frame. It keeps the piece alive as long as the receiver uses the room."""

    cdef bytes piece
    cdef Py_ssize_t begin, size

    def __getbuffer__(self, Py_buffer *view, int flags) -> None:
        PyBuffer_FillInfo(view, self, PyBytes_AS_STRING(self.piece) + self.begin, self.size, False, flags)


@final
cdef class Splitter:
    """See framing.pyi."""

    cdef public Py_ssize_t max_frame_bytes
    cdef object frame_error
    cdef bytearray buffer
    cdef Py_ssize_t begin, end  # The range of the buffer's received bytes that `next_frame` has not returned.
    cdef Py_ssize_t writable  # Size of the room that the last get_buffer returned.
    cdef list pieces  # The full pieces of a large frame. Bytes in the buffer come after that frame.
    cdef bytes piece  # The large frame's piece that is being filled; None if there is no large frame.
    cdef Py_ssize_t piece_end  # Bytes received into `piece`.
    cdef Py_ssize_t large_size  # Size of the whole large frame.
    cdef Py_ssize_t large_end  # Bytes received of the large frame.
    cdef bint into_large  # True if the last get_buffer returned room in `piece`.

    def __init__(self, max_frame_bytes: int, frame_error: object) -> None:
        if max_frame_bytes < 0:
            raise ValueError(f"max_frame_bytes is {max_frame_bytes}")
        self.max_frame_bytes = max_frame_bytes
        self.frame_error = frame_error
        self.buffer = bytearray(FIRST_CAPACITY)
        self.begin = self.end = self.writable = self.piece_end = self.large_end = self.large_size = 0
        self.into_large = False
        self.pieces, self.piece = [], None

    @property
    def pending_bytes(self) -> int:
        return self.end - self.begin + (0 if self.piece is None else SIZE_BYTES + self.large_end)

    @property
    def held_bytes(self) -> int:
        if self.piece is None:
            return len(self.buffer)
        return len(self.buffer) + self.large_end - self.piece_end + PyBytes_GET_SIZE(self.piece)

    def get_buffer(self) -> memoryview:
        cdef Window window
        cdef bytes fresh
        self.into_large = self.piece is not None and self.large_end < self.large_size
        if self.into_large:
            if self.piece_end == PyBytes_GET_SIZE(self.piece):
                fresh = self.new_piece(min(self.large_end, LARGEST_PIECE))
                self.pieces.append(self.piece)
                self.piece, self.piece_end = fresh, 0
            self.writable = min(PyBytes_GET_SIZE(self.piece) - self.piece_end, LARGEST_ROOM)
            window = Window.__new__(Window)
            window.piece, window.begin, window.size = self.piece, self.piece_end, self.writable
            return memoryview(window)
        self.make_room()
        self.writable = len(self.buffer) - self.end
        return memoryview(self.buffer)[self.end:]

    cdef void move_to(self, char *start) noexcept:
        memmove(start, PyByteArray_AS_STRING(self.buffer) + self.begin, self.end - self.begin)
        self.end -= self.begin
        self.begin = 0

    cdef int make_room(self) except -1:
        """Move the pending bytes to the buffer's start. If the buffer is full, first replace it by one twice as large.
        """
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

    cdef bytes new_piece(self, Py_ssize_t capacity):
        return PyBytes_FromStringAndSize(NULL, min(self.large_size - self.large_end, capacity))

    def received(self, count: int) -> None:
        if not 0 <= count <= self.writable:
            raise ValueError(f"{count} bytes received, but the last get_buffer has room for {self.writable}")
        self.writable = 0
        if self.into_large:
            self.piece_end += count
            self.large_end += count
        else:
            self.end += count

    def next_frame(self) -> bytes | None:
        cdef const char *at
        cdef Py_ssize_t size, here = self.end - self.begin - SIZE_BYTES
        if self.piece is not None:
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
            self.large_size, self.large_end = size, 0
            self.piece = self.new_piece(max(LARGEST_CAPACITY, 2 * here))
            memcpy(PyBytes_AS_STRING(self.piece), at + SIZE_BYTES, here)
            self.piece_end, self.large_end, self.begin, self.end = here, here, 0, 0
        return None

    cdef bytes take_large(self):
        cdef bytes frame = self.piece
        if self.large_end < self.large_size:
            return None
        if self.pieces:
            self.pieces.append(frame)
            frame = b"".join(self.pieces)
            self.pieces = []
        self.piece = None
        return frame
