"""The splitter of frames against its slow twin: every way to cut small streams, random ways to cut large ones."""

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random

import pytest

from kcore._ext.wire.framing import Splitter
from kcore.errors import FrameError
from reference import framing as reference


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big", signed=True) + body


def feed(splitter: Splitter, data: bytes) -> None:
    """As a socket would: as much as there is room for, again and again."""
    left = memoryview(data)
    while left:
        room = splitter.get_buffer()
        count = min(len(room), len(left))
        room[:count] = left[:count]
        splitter.received(count)
        left = left[count:]


def taken(splitter: Splitter) -> Iterator[bytes]:
    while (found := splitter.next_frame()) is not None:
        yield found


def frames_of(chunks: Iterable[bytes], max_frame_bytes: int) -> list[bytes | str]:
    """All frames; at the end the error if there was one."""
    splitter = Splitter(max_frame_bytes, FrameError)
    found: list[bytes | str] = []
    try:
        for chunk in chunks:
            feed(splitter, chunk)
            found += taken(splitter)
    except FrameError as error:
        found.append(str(error))
    return found


def reference_frames(stream: bytes, max_frame_bytes: int) -> list[bytes | str]:
    found: list[bytes | str] = []
    try:
        found.extend(reference.frames(stream, max_frame_bytes))
    except ValueError as error:
        found.append(f"a frame of {error} bytes; the bound is {max_frame_bytes}")
    return found


def cuts(stream: bytes, where: Iterable[bool]) -> Iterator[bytes]:
    begin = 0
    for at, cut in enumerate(where, 1):
        if cut:
            yield stream[begin:at]
            begin = at
    yield stream[begin:]


@pytest.mark.parametrize("bodies", [(b"",), (b"", b""), (b"abc",), (b"a", b"b")])
@pytest.mark.parametrize("tail", [b"", b"\x00\x00", b"\x00\x00\x00\x01"])
def test_every_way_to_cut_a_small_stream(bodies: tuple[bytes, ...], tail: bytes) -> None:
    stream = b"".join(map(frame, bodies)) + tail
    expected = reference_frames(stream, 3)
    assert expected == list(bodies)
    for where in product((False, True), repeat=len(stream) - 1):
        assert frames_of(cuts(stream, where), 3) == expected, where


@pytest.mark.parametrize("size", [-1, -(2**31), 4, 2**31 - 1, 0x15030300])
def test_a_size_out_of_bounds_is_an_error_at_once_and_keeps_the_frames_before_it(size: int) -> None:
    stream = frame(b"ab") + size.to_bytes(4, "big", signed=True)
    assert reference_frames(stream, 3) == [b"ab", f"a frame of {size} bytes; the bound is 3"]
    for where in product((False, True), repeat=len(stream) - 1):
        assert frames_of(cuts(stream, where), 3) == reference_frames(stream, 3)


def test_random_streams_cut_at_random() -> None:
    random = Random(5)
    for _ in range(60):
        sizes = random.choices([0, 1, 5, 100, 4091, 4092, 4093, 8192, 65_531, 65_532, 65_533, 200_000], k=8)
        stream = b"".join(frame(random.randbytes(size)) for size in sizes) + random.randbytes(random.randrange(4))
        largest = random.choice([300, 5000, 100_000])
        chunks, begin = [], 0
        while begin < len(stream):
            end = begin + random.randrange(1, largest * 2)
            chunks.append(stream[begin:end])
            begin = end
        assert frames_of(chunks, random.choice([200_000, 300_000])) == reference_frames(stream, 300_000)


def test_frames_may_wait_untaken() -> None:
    random = Random(6)
    for sizes in product([3, 5000, 70_000], repeat=4):
        bodies = [random.randbytes(size) for size in sizes]
        splitter = Splitter(100_000, FrameError)
        stream = b"".join(map(frame, bodies))
        first = random.randrange(len(stream))
        feed(splitter, stream[:first])
        found = [splitter.next_frame()]  # May begin a large frame, which then is completed before it is asked for.
        feed(splitter, stream[first:])
        assert [*(body for body in found if body is not None), *taken(splitter)] == bodies
        assert splitter.pending_bytes == 0


def test_room_grows_where_it_is_filled() -> None:
    stream = frame(b"quite small") * 100_000
    filled, quiet = Splitter(100, FrameError), Splitter(100, FrameError)
    rooms, at = [], 0
    while at + 200_000 < len(stream):
        room = filled.get_buffer()
        rooms.append(len(room))
        room[:] = stream[at : at + len(room)]
        filled.received(len(room))
        at += len(room)
        assert set(taken(filled)) == {b"quite small"}
        feed(quiet, frame(b"quite small"))
        assert quiet.next_frame() == b"quite small"
    assert rooms[0] == len(quiet.get_buffer()) == 4096
    assert 60_000 < max(rooms) <= 65_536


def test_the_room_of_a_burst_is_given_back() -> None:
    splitter = Splitter(100, FrameError)
    burst = frame(b"quite small") * 10_000
    feed(splitter, burst + b"\0\0")
    assert len(list(taken(splitter))) == 10_000
    splitter.trim()
    assert splitter.held_bytes > len(burst)
    feed(splitter, frame(b"abc")[2:])
    assert splitter.next_frame() == b"abc"
    splitter.trim()
    assert splitter.held_bytes == 4096
    with pytest.raises(ValueError, match="1 bytes received, but the last get_buffer has room for 0"):
        splitter.received(1)
    feed(splitter, frame(b"abc"))
    assert splitter.next_frame() == b"abc"


def test_a_frame_that_is_announced_takes_no_more_than_twice_what_came() -> None:
    splitter = Splitter(100 << 20, FrameError)
    feed(splitter, (100 << 20).to_bytes(4, "big"))
    assert splitter.next_frame() is None
    for came in (1, 1_000, 100_000, 3_000_000, 20_000_000):
        feed(splitter, bytes(4 + came - splitter.pending_bytes))
        assert splitter.next_frame() is None
        assert splitter.pending_bytes == 4 + came
        assert splitter.held_bytes <= 2 * came + (1 << 17)
    feed(splitter, bytes((100 << 20) + 4 - splitter.pending_bytes))
    assert splitter.held_bytes <= (100 << 20) + (1 << 17)
    assert splitter.next_frame() == bytes(100 << 20)
    assert splitter.held_bytes <= 1 << 17


def test_pending_bytes() -> None:
    splitter = Splitter(100_000, FrameError)
    whole = frame(bytes(50_000))
    for sent in (3, 4, 5, 4096, 4097, 50_003):
        feed(splitter, whole[splitter.pending_bytes : sent])
        assert splitter.next_frame() is None
        assert splitter.pending_bytes == sent
    feed(splitter, whole[50_003:])
    assert splitter.next_frame() == bytes(50_000)
    assert splitter.pending_bytes == 0


def test_what_was_not_received_is_refused() -> None:
    splitter = Splitter(10, FrameError)
    with pytest.raises(ValueError, match="1 bytes received, but the last get_buffer has room for 0"):
        splitter.received(1)
    room = len(splitter.get_buffer())
    for count in (-1, room + 1):
        with pytest.raises(ValueError, match=f"{count} bytes received, but the last get_buffer has room for {room}"):
            splitter.received(count)
    splitter.received(0)
    with pytest.raises(ValueError, match="max_frame_bytes is -1"):
        Splitter(-1, FrameError)


def test_a_room_that_is_kept_does_no_harm() -> None:
    """Its bytes live as long as it does, whatever the splitter did since."""
    splitter = Splitter(100_000, FrameError)
    old = [splitter.get_buffer()]
    feed(splitter, frame(bytes(90_000))[:5000])
    assert splitter.next_frame() is None
    old.append(splitter.get_buffer())
    feed(splitter, bytes(85_004))
    assert splitter.next_frame() == bytes(90_000)
    for room in old:
        room[:] = b"x" * len(room)
    feed(splitter, frame(b"abc"))
    assert splitter.next_frame() == b"abc"
