"""The slow twin of `kcore._ext.wire.framing`."""

from collections.abc import Iterator


def frames(stream: bytes, max_frame_bytes: int) -> Iterator[bytes]:
    """A stream is frames, each an int32 size and that many bytes; ValueError at a size that is out of bounds."""
    while len(stream) >= 4:
        size = int.from_bytes(stream[:4], "big", signed=True)
        if not 0 <= size <= max_frame_bytes:
            raise ValueError(size)
        frame, stream = stream[4 : 4 + size], stream[4 + size :]
        if len(frame) < size:
            return
        yield frame
