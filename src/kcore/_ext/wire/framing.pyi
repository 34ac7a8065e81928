from collections.abc import Callable

class Splitter:
    """Cuts what a peer sends into frames, for an asyncio.BufferedProtocol.

    The owner receives into `get_buffer()`, tells how much by `received`, and takes frames until there is none.
    It allocates at most twice the bytes that lie there untaken, or 64 KiB: a size that is announced allocates nothing.
    A large frame gets 128 KiB at a time, so that others have their turn, and is copied once more when it is whole.
    """

    max_frame_bytes: int  # May be set: then it bounds what comes behind the frames that were begun.

    def __init__(self, max_frame_bytes: int, frame_error: Callable[[str], Exception]) -> None: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes received that no frame has been taken of: not 0 at the end of a stream means half a frame."""
    @property
    def held_bytes(self) -> int:
        """Bytes allocated: for what is received and not taken, and for what comes next."""
    def get_buffer(self) -> memoryview:
        """Where the next bytes go: writable, never empty, good until `received`."""
    def trim(self) -> None:
        """Gives back the room that a burst has made, if nothing of it lies there; the last `get_buffer` is void."""
    def received(self, count: int) -> None:
        """That many bytes stand at the front of what `get_buffer` gave; ValueError if they cannot."""
    def next_frame(self) -> bytes | None:
        """The next whole frame without its size, or None; `frame_error` with the size if that is out of bounds."""
