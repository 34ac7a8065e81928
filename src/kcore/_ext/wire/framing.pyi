from collections.abc import Callable

class Splitter:
    """Splits the bytes that a peer sends into frames, for an asyncio.BufferedProtocol.

    The owner receives bytes into `get_buffer()`, reports their number to `received`, and calls `next_frame` until it
    returns None. The Splitter allocates at most twice the pending bytes, or 64 KiB: the size in a frame's header
    allocates nothing. A large frame is received in steps of at most 128 KiB, so that other connections are served
    between them. It is copied once more when it is whole.
    """

    max_frame_bytes: int  # The owner may set it. A frame larger than the buffer that has begun keeps the earlier limit.

    def __init__(self, max_frame_bytes: int, frame_error: Callable[[str], Exception]) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Received bytes that `next_frame` has not returned; above 0 at a stream's end if its last frame is cut."""
    @property
    def held_bytes(self) -> int:
        """Allocated bytes: for pending bytes, and for the bytes to come."""
    def get_buffer(self) -> memoryview:
        """The room for the next bytes: writable, never empty, valid until `received`."""
    def trim(self) -> None:
        """Shrink the buffer to its first size if it has no pending bytes. The last `get_buffer` becomes invalid."""
    def received(self, count: int) -> None:
        """Report `count` new bytes at the start of the last `get_buffer`; ValueError if they exceed its size."""
    def next_frame(self) -> bytes | None:
        """The next whole frame without its size, or None. Raises `frame_error` for a size out of bounds."""
