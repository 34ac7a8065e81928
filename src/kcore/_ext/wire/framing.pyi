from collections.abc import Callable

class Splitter:
    """Cuts the bytes that a peer sends into frames, for an asyncio.BufferedProtocol.

    The owner receives into `get_buffer()`, reports the number of bytes by `received`, and takes frames until there is
    none. It allocates at most twice the received bytes that are in no taken frame, or 64 KiB: an announced size
    allocates nothing. A large frame gets 128 KiB at a time, so that other connections are served meanwhile, and is
    copied once more when it is whole.
    """

    max_frame_bytes: int  # Writable: a new value bounds the frames after those that were begun.

    def __init__(self, max_frame_bytes: int, frame_error: Callable[[str], Exception]) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Received bytes that are in no taken frame: not 0 at the end of a stream means half a frame."""
    @property
    def held_bytes(self) -> int:
        """Allocated bytes: for pending bytes, and for the next ones."""
    def get_buffer(self) -> memoryview:
        """The room for the next bytes: writable, never empty, valid until `received`."""
    def trim(self) -> None:
        """Free the room that a burst has allocated, if it is empty; the last `get_buffer` becomes invalid."""
    def received(self, count: int) -> None:
        """Report that many bytes at the front of the last `get_buffer`; ValueError if it was smaller."""
    def next_frame(self) -> bytes | None:
        """The next whole frame without its size, or None; raises `frame_error` with a size out of bounds."""
