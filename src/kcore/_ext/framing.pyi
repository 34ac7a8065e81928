from collections.abc import Callable

class Splitter:
    """Cuts what a peer sends into frames, for an asyncio.BufferedProtocol.

    The owner receives into `get_buffer()`, tells how much by `received`, and takes frames until there is none.
    It allocates for a frame's size only once that size is known to be within `max_frame_bytes`; twice the bytes that
    lie there untaken otherwise.
    """

    def __init__(self, max_frame_bytes: int, frame_error: Callable[[str], Exception]) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes received that no frame has been taken of: not 0 at the end of a stream means half a frame."""
    def get_buffer(self) -> memoryview:
        """Where the next bytes go: writable, never empty, good until `received`."""
    def received(self, count: int) -> None:
        """That many bytes stand at the front of what `get_buffer` gave; ValueError if they cannot."""
    def next_frame(self) -> bytes | None:
        """The next whole frame without its size, or None; `frame_error` with the size if that is out of bounds."""
