"""Whatever a server says, the caller gets an error that tells, within its time."""

import asyncio
from random import Random

import pytest

from kcore import schema as s
from kcore.errors import DisconnectedError, FrameError, NetworkError, RequestTimeoutError
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.schema.api_versions import ApiVersion
from kcore.wire.codec import encode
from net.loops import HEARTBEAT, Talk, framed, heartbeat_answer, raw_server, read_correlation_id, read_frame, story

GOOD = heartbeat_answer(0)


def says(answer: bytes, *, then_closes: bool = False) -> Talk:
    """Reads one request, says that."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_correlation_id(reader)
        writer.write(answer)
        await writer.drain()
        if not then_closes:
            await reader.read()

    return talk


async def error_of(talk: Talk, *, ask_versions: bool = False, timeout_s: float = 60.0) -> NetworkError:
    """The error that all three callers get; it also closes the connection."""
    async with raw_server(talk) as port:
        limits = Limits(frame_bytes=10_000, connect_s=60)
        connection = await connect("127.0.0.1", port, limits=limits, ask_versions=ask_versions)
        calls = [connection.send(HEARTBEAT, 1, timeout_s=timeout_s) for _ in range(3)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        await connection.wait_gone()
        assert connection.metrics.connections_closed == 1
        assert connection.metrics.errors.total() == 1
        for error in errors:
            assert isinstance(error, NetworkError)
            assert f"BrokerHeartbeat 1 to 127.0.0.1:{port}: " in str(error)
        return errors[0]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (heartbeat_answer(1), "the answer has correlation id 1, not 0"),
        (framed(b"\xff\xff\xff\xff" + GOOD[8:]), "the answer has correlation id -1, not 0"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes; the bound is 10000"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes; the bound is 10000"),
        (b"\x80\0\0\0", "a frame of -2147483648 bytes"),
        (b"\0\0\x27\x11", "a frame of 10001 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1213486160 bytes"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "a frame of 352518912 bytes"),  # A TLS alert.
        (framed(b""), "the bytes end inside a value"),
        (framed(b"\0\0\0\0"), "the bytes end inside a varint"),
        (framed(GOOD[4:-1]), "the bytes end"),
    ],
)
@story
async def test_what_is_no_answer(answer: bytes, text: str) -> None:
    error = await error_of(says(answer))
    assert isinstance(error, FrameError)
    assert text in str(error)


@pytest.mark.parametrize("sent", range(len(GOOD)))
@story
async def test_half_an_answer_and_the_end(sent: int) -> None:
    error = await error_of(says(GOOD[:sent], then_closes=True))
    assert isinstance(error, DisconnectedError)
    half = f" inside a frame, of which {sent} bytes came" if sent else ""
    assert str(error).endswith((f"the peer closed the connection{half}", "Connection reset by peer"))


@pytest.mark.parametrize("answer", [b"", GOOD[:3], GOOD[:-1], b"\0\0\x27\x10half of a large frame"])
@story
async def test_nothing_or_half_an_answer_and_silence(answer: bytes) -> None:
    error = await error_of(says(answer), timeout_s=0.1)
    assert isinstance(error, RequestTimeoutError)


@story
async def test_one_byte_at_a_time_is_no_error() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            for byte in heartbeat_answer(await read_correlation_id(reader)):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)

    async with raw_server(talk) as port, await connect("127.0.0.1", port, ask_versions=False) as connection:
        await asyncio.gather(*(connection.send(HEARTBEAT, 1) for _ in range(20)))


@story
async def test_an_answer_that_nobody_asked_for() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GOOD)
        await reader.read()

    async with raw_server(talk) as port:
        connection = await connect("127.0.0.1", port, ask_versions=False)
        await connection.wait_gone()
        with pytest.raises(DisconnectedError, match=f"a frame of {len(GOOD) - 4} bytes came, and nothing was asked"):
            connection.send(HEARTBEAT, 1)
        assert connection.metrics.errors == {"FrameError": 1}


@story
async def test_the_answer_of_a_cancelled_call_must_be_its_own() -> None:
    async with raw_server(says(heartbeat_answer(5))) as port:
        connection = await connect("127.0.0.1", port, ask_versions=False)
        connection.send(HEARTBEAT, 1).cancel()
        with pytest.raises(FrameError, match="correlation id 5, not 0"):
            await connection.send(HEARTBEAT, 1)
        await connection.wait_gone()


@story
async def test_good_answers_before_the_garbage_arrive() -> None:
    async with raw_server(says(GOOD + heartbeat_answer(1) + b"\xff" * 9)) as port:
        connection = await connect("127.0.0.1", port, ask_versions=False)
        answers = await asyncio.gather(*(connection.send(HEARTBEAT, 1) for _ in range(3)), return_exceptions=True)
        assert [type(answer).__name__ for answer in answers] == [*["BrokerHeartbeatResponse"] * 2, "FrameError"]
        await connection.wait_gone()


@story
async def test_random_garbage() -> None:
    random = Random(11)
    for _ in range(60):
        garbage = bytearray(GOOD * 3)
        for _ in range(random.randrange(1, 6)):
            garbage[random.randrange(len(garbage))] = random.randrange(256)
        async with raw_server(says(bytes(garbage), then_closes=True)) as port:
            connection = await connect("127.0.0.1", port, ask_versions=False)
            answers = await asyncio.gather(*(connection.send(HEARTBEAT, 1) for _ in range(5)), return_exceptions=True)
            assert isinstance(answers[-1], NetworkError)
            assert all(isinstance(answer, s.BrokerHeartbeatResponse | NetworkError) for answer in answers)
            await connection.wait_gone()


# While it connects: ApiVersions is the first that a peer can answer wrongly.


def versions_frame(correlation_id: int, answer: s.ApiVersionsResponse, version: int) -> bytes:
    return framed(correlation_id.to_bytes(4, "big") + encode(answer, version))


@pytest.mark.parametrize(
    ("talk", "kind", "text"),
    [
        (says(b"\xff\xff\xff\xff"), FrameError, "a frame of -1 bytes"),
        (says(b"", then_closes=True), DisconnectedError, ""),
        (says(b""), RequestTimeoutError, "is not ready within 0.2 s"),
        (says(framed(bytes(4) + b"\0\0\xff")), FrameError, "api_keys: the bytes end"),
        (says(framed(bytes(4))), FrameError, "error_code: the bytes end"),
        (says(versions_frame(0, s.ApiVersionsResponse(error_code=42), 4)), NetworkError, "INVALID_REQUEST"),
        (says(versions_frame(0, s.ApiVersionsResponse(error_code=9999), 4)), NetworkError, "error 9999"),
    ],
)
@story
async def test_no_connection_comes_of_a_wrong_start(talk: Talk, kind: type[NetworkError], text: str) -> None:
    async with raw_server(talk) as port:
        with pytest.raises(NetworkError, match=f"127.0.0.1:{port}.*{text}") as caught:
            await connect("127.0.0.1", port, limits=Limits(connect_s=0.2 if kind is RequestTimeoutError else 60))
        assert type(caught.value) is kind


@story
async def test_a_client_begins_with_the_newest_version_of_4_3() -> None:
    """Every older peer would refuse ApiVersions 5, and each connection would take one more request."""
    asked: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(int.from_bytes((await read_frame(reader))[2:4], "big"))

    async with raw_server(talk) as port:
        with pytest.raises(DisconnectedError):
            await connect("127.0.0.1", port)
    assert asked == [4]


@pytest.mark.parametrize("offered", [None, 4, 9, 2])
@story
async def test_a_peer_that_refuses_every_version(offered: int | None) -> None:
    rows = [] if offered is None else [ApiVersion(api_key=18, max_version=offered)]
    asked: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked.append(await read_correlation_id(reader))
            writer.write(versions_frame(asked[-1], s.ApiVersionsResponse(error_code=35, api_keys=rows), 0))

    async with raw_server(talk) as port:
        with pytest.raises(NetworkError, match=r"ApiVersions 0 to .*UNSUPPORTED_VERSION"):
            await connect("127.0.0.1", port)
    assert len(asked) <= 5
