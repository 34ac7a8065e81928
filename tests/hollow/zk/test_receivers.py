"""The compiled receivers of control requests: they answer as their slow twin does, and no peer can harm them."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import numpy as np
import pytest

import kcore
from kcore._ext import hollow as kernel
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.measure.hollow.zk.layouts import constants, layouts
from kcore.measure.hollow.zk.receivers import Receiver, Receivers
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.headers import RequestHeader
from kcore.wire.codec import encode
from net.loops import story, until
from reference.hollow_zk_broker import HollowBroker

EPOCH = 7
CONTROL_EPOCHS = (1, 2, 3)
PROTOCOLS = ("2.8", "3.3", "3.9")  # Each with other versions of the three requests.


def requests_of(controller_epoch: int, protocol: str) -> list[ControlRequest]:
    """The requests of a controlled shutdown: one of each of the three kinds."""
    table = kcore.generate(partitions=60, brokers=5, replication_factor=3, topics=7, seed=1)
    controller = kcore.zk.ZkController(0, controller_epoch, table, inter_broker_protocol=protocol)
    decision = controller.on_controlled_shutdown(kcore.zk.ControlledShutdown(3, -1))
    controller.replay(decision)
    return [*{each.message: each for each in controller.requests(decision)}.values()]


@pytest.fixture(scope="module")
def requests() -> list[ControlRequest]:
    return [each for epoch in CONTROL_EPOCHS for protocol in PROTOCOLS for each in requests_of(epoch, protocol)]


def frame(request: ControlRequest, epoch: int, correlation_id: int, client_id: str | None = "0") -> bytes:
    """Without its size."""
    fanout = request.fanout()
    key, version = fanout.message.api_key, fanout.version
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return encode(header, fanout.message.header_version(version)) + b"".join(map(bytes, fanout.buffers(epoch)))


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Peer:
    """Sends frames, and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, port: int) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def asked(self, body: bytes) -> bytes | None:
        """None where the connection ends in place of an answer."""
        self.writer.write(sized(body))
        return await self.answer()

    async def answer(self) -> bytes | None:
        async with asyncio.timeout(20):
            try:
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                return await self.reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None


@asynccontextmanager
async def receiving(count: int = 1) -> AsyncIterator[tuple[Receivers, list[Receiver]]]:
    made = Receivers(range(count))
    try:
        yield made, [*made.open().values()]
    finally:
        await made.close()


@asynccontextmanager
async def both() -> AsyncIterator[tuple[Receivers, Receiver, HollowBroker]]:
    slow = HollowBroker(0)
    await slow.open()
    try:
        async with receiving() as (fleet, [quick]):
            for each in (slow, quick):
                each.registered(EPOCH)
            yield fleet, quick, slow
    finally:
        await slow.close()


@story
async def test_it_answers_as_its_slow_twin_does(requests: list[ControlRequest]) -> None:
    """With brokers' epochs that are stale, right, unknown and to come, and controllers' that rise and fall."""
    random = Random(1)
    async with both() as (fleet, quick, slow):
        peers = [await Peer.of(each.port) for each in (quick, slow)]
        codes, answered = set(), 0
        for nth in range(400):
            if nth in (150, 300):
                for each in (quick, slow):
                    each.registered(EPOCH + nth)  # A new life, which knows no controller's epoch.
            request, epoch = random.choice(requests[: 9 * (1 + nth % 150 // 40)]), random.choice((-1, 3, EPOCH, 999))
            body = frame(request, epoch, nth, random.choice((None, "", "30001")))
            ours, theirs = [await peer.asked(body) for peer in peers]
            assert ours is not None and ours == theirs
            code = struct.unpack_from(">h", ours, 5)[0]
            codes.add(code)
            answered += code == Errors.NONE
        assert codes == {Errors.NONE, Errors.STALE_BROKER_EPOCH, Errors.STALE_CONTROLLER_EPOCH}
        arrived = fleet.arrivals()
        assert len(arrived) == answered
        assert [each[1:] for _, each in arrived] == [each[1:] for each in slow.arrivals]
        assert sorted(each.at_ns for _, each in arrived) == [each.at_ns for _, each in arrived]
        for message in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest):
            named = sum(each.partitions for each in slow.arrivals if each.message is message)
            assert fleet.partitions_sent(quick, message) == named > 0
        fleet.forget()
        assert not fleet.arrivals() and not fleet.last_ns and not fleet.partitions_sent(quick, LeaderAndIsrRequest)


@story
async def test_frames_come_in_any_pieces(requests: list[ControlRequest]) -> None:
    async with receiving() as (fleet, [broker]):
        peer = await Peer.of(broker.port)
        frames = b"".join(sized(frame(each, -1, nth)) for nth, each in enumerate(requests[:3]))
        for pieces in ([frames], [frames[at : at + 1] for at in range(len(frames))]):
            for piece in pieces:
                peer.writer.write(piece)
                await peer.writer.drain()
                await asyncio.sleep(0)
            for nth in range(3):
                answer = await peer.answer()
                assert answer is not None and struct.unpack_from(">i", answer)[0] == nth
        assert len(fleet.arrivals()) == 6


@story
async def test_what_is_cut_off_ends_the_connection_and_no_other(requests: list[ControlRequest]) -> None:
    async with receiving() as (fleet, [broker]):
        other = await Peer.of(broker.port)
        for request in requests[:3]:
            whole = frame(request, -1, 5)
            for end in [*range(40), *range(40, len(whole), 97), len(whole) - 1]:
                assert await (await Peer.of(broker.port)).asked(whole[:end]) is None, end
        assert not fleet.arrivals()
        answer = await other.asked(frame(requests[0], -1, 5))
        assert answer is not None and len(fleet.arrivals()) == 1


@story
async def test_changed_bytes_get_what_the_twin_says(requests: list[ControlRequest]) -> None:
    """The same answer, or the end of the connection from both."""
    random = Random(2)
    ends = 0
    async with both() as (_, quick, slow):
        for nth in range(300):
            body = bytearray(frame(requests[nth % 9], -1, nth))
            for _ in range(random.choice((1, 1, 1, 4))):
                body[random.randrange(8, len(body))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            ours, theirs = [await (await Peer.of(each.port)).asked(bytes(body)) for each in (quick, slow)]
            assert ours == theirs, bytes(body)
            ends += ours is None
    assert 30 < ends < 270


@story
async def test_what_is_no_control_request(requests: list[ControlRequest]) -> None:
    async with receiving() as (fleet, [broker]):
        async with await connect("127.0.0.1", broker.port, client_id="test") as connection:
            assert connection.versions is not None and len(connection.versions.answer.api_keys) == 1
        whole = frame(requests[0], -1, 5)
        for raw in (
            sized(struct.pack(">hhi", 3, 9, 1) + whole[8:]),  # Metadata
            sized(whole[:2] + struct.pack(">h", 99) + whole[4:]),
            sized(b""),
            b"\xff\xff\xff\xff",
            b"\x7f\xff\xff\xff",
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            peer = await Peer.of(broker.port)
            peer.writer.write(raw)
            assert await peer.answer() is None
        assert not fleet.arrivals()


@story
async def test_one_broker_has_so_many_connections_and_others_are_not_harmed(requests: list[ControlRequest]) -> None:
    async with receiving(2) as (_, [first, second]):
        peers = [await Peer.of(first.port) for _ in range(17)]
        assert await peers[-1].answer() is None
        for peer in (peers[0], peers[15], await Peer.of(second.port)):
            assert await peer.asked(frame(requests[0], -1, 1)) is not None
        peers[3].writer.transport.abort()

        async def is_served() -> bool:
            return await (await Peer.of(first.port)).asked(frame(requests[0], -1, 1)) is not None

        async with asyncio.timeout(20):
            while not await is_served():
                await asyncio.sleep(0.01)


@pytest.mark.long
@story
async def test_a_peer_that_reads_no_answers_is_let_go(requests: list[ControlRequest]) -> None:
    async with receiving() as (_, [broker]):
        peer = await Peer.of(broker.port)
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        frames = sized(frame(requests[0], -1, 1)) * 2_000
        with pytest.raises((ConnectionError, TimeoutError)):
            async with asyncio.timeout(60):
                while not peer.writer.is_closing():
                    peer.writer.write(frames)
                    await peer.writer.drain()
                raise ConnectionResetError
        assert await (await Peer.of(broker.port)).asked(frame(requests[0], -1, 1)) is not None


@story
async def test_bodies_are_kept_where_they_are_wanted(requests: list[ControlRequest]) -> None:
    async with receiving(2) as (fleet, [first, second]):
        accepted: list[Any] = []
        first.keeps_updates = True
        first.on_accepted = lambda broker, columns: accepted.append((broker, columns))
        peers = [await Peer.of(each.port) for each in (first, second)]
        for request in requests[:3]:
            for peer in peers:
                await peer.asked(frame(request, -1, 1))
        await until(lambda: bool(accepted))
        fleet.drain()
        wanted = {each.message: each for each in requests[:3]}
        [(broker, columns)], [update] = accepted, first.updates()
        assert broker is first and columns.message is LeaderAndIsrRequest and update.message is UpdateMetadataRequest
        for found in (columns, update):
            states = [each.topic_states.partition_states for each in (found, wanted[found.message].columns)]
            assert np.array_equal(states[0].partition_index, states[1].partition_index) and len(states[0])
        assert not first.updates() and not second.updates()
        first.keeps_updates, first.on_accepted = False, None
        for request in requests[:3]:
            await peers[0].asked(frame(request, -1, 1))
        fleet.drain()
        assert not first.updates() and len(accepted) == 1


@story
async def test_a_new_life_is_of_one_broker(requests: list[ControlRequest]) -> None:
    async with receiving(2) as (_, brokers):
        for each in brokers:
            each.registered(EPOCH)
        brokers[1].registered(EPOCH + 1)
        answers = [await (await Peer.of(each.port)).asked(frame(requests[0], EPOCH, 1)) for each in brokers]
        codes = [struct.unpack_from(">h", answer, 5)[0] for answer in answers if answer]
        assert codes == [Errors.NONE, Errors.STALE_BROKER_EPOCH]


@pytest.mark.parametrize(
    "program", [[("rows", 0)], [("end", 0)], [("rows", 0), ("end", 0)], [("skip", 0)], [("text", 2)], [("what", 0)]]
)
def test_a_program_that_is_none_is_refused(program: list[tuple[str, int]]) -> None:
    with pytest.raises(ValueError, match="a layout has unknown lists or steps"):
        kernel.Receivers(frame_bytes=100, layouts=[(4, 7, True, "topics", program)], constants=[])


def test_api_versions_is_answered_up_to_the_version_of_3_9() -> None:
    assert [version for _, version, _ in constants()] == [0, 1, 2, 3, 4]


def test_a_row_that_is_none_is_refused() -> None:
    made = kernel.Receivers(frame_bytes=100, layouts=layouts(), constants=constants())
    with pytest.raises(IndexError):
        made.live(0, 1)
    with pytest.raises(IndexError):
        made.keep(0, [6])
