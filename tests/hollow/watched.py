"""A loop that runs and tells, and the bytes that peers say to it."""

import asyncio
import struct
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kcore import schema as s
from kcore._ext import hollow as kernel
from kcore.measure.hollow.frames import fetch_frame, heartbeat_frame
from kcore.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcore.schema.structure import Message
from kcore.wire.codec import encode
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from net.loops import Talk, read_correlation_id, until

HEARTBEAT_VERSION, FETCH_VERSION = 1, 17
MINUTE = 60_000_000_000
BOTH = (kernel.HEARTBEATS, kernel.FETCHES)
Notice = tuple[int, int, str, bytes]


class Watched:
    """A running loop, and all its notices."""

    def __init__(
        self, *, timeout_ns: int = MINUTE, frame_bytes: int = 1 << 20, loop: kernel.Loop | None = None
    ) -> None:
        self.loop = loop or kernel.Loop(frame_bytes=frame_bytes, timeout_ns=timeout_ns)
        self.notices: list[Notice] = []
        self.times: list[int] = []  # The times of the notices, in nanoseconds.
        self.bytes, self.batches, self.arrivals = b"", b"", b""

    def add(self, interval_ns: int = MINUTE) -> int:
        beat, fetch = heartbeat_frame("me", HEARTBEAT_VERSION, 7), fetch_frame("me", FETCH_VERSION, 7, "c", 1 << 20)
        return self.loop.add(beat, fetch, interval_ns)

    def beat(self, row: int, epoch: int = 5, interval_ns: int = MINUTE, **options: bool) -> None:
        self.loop.beat(row, epoch, time.monotonic_ns(), interval_ns, **options)

    def drain(self) -> None:
        notices, *rest = self.loop.drain()
        self.notices += [(row, which, kind, detail) for row, which, kind, _, detail in notices]
        self.times += [when_ns for _, _, _, when_ns, _ in notices]
        self.bytes, self.batches, self.arrivals = (
            before + more for before, more in zip((self.bytes, self.batches, self.arrivals), rest, strict=True)
        )

    def details(self, kind: str) -> list[bytes]:
        return [detail for _, _, found, detail in self.notices if found == kind]

    async def first(self, kind: str) -> str:
        await until(lambda: self.details(kind))
        return self.details(kind)[0].decode()


@asynccontextmanager
async def watching(
    port: int, links: Sequence[int] = BOTH, *, watched: Watched | None = None, **options: int
) -> AsyncIterator[Watched]:
    """A loop with one broker, whose connections have begun."""
    watched = watched or Watched(**options)
    thread = threading.Thread(target=watched.loop.run)
    thread.start()
    asyncio.get_running_loop().add_reader(watched.loop.fileno(), watched.drain)
    watched.add()
    for which in links:
        watched.loop.connect(0, which, f"127.0.0.1:{port}")
    try:
        yield watched
    finally:
        asyncio.get_running_loop().remove_reader(watched.loop.fileno())
        watched.loop.stop()
        await asyncio.to_thread(thread.join)


def answered(correlation_id: int, response: Message, version: int) -> bytes:
    body = struct.pack(">ib", correlation_id, 0) + encode(response, version)
    return struct.pack(">i", len(body)) + body


def beaten(correlation_id: int = 1, **fields: Any) -> bytes:
    return answered(correlation_id, s.BrokerHeartbeatResponse(**fields), HEARTBEAT_VERSION)


def fetched(records: bytes | None, high_watermark: int, **fields: Any) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=high_watermark, records=records, **fields)
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


def batch(offset: int, count: int, epoch: int = 3) -> bytes:
    rows = [Record(offset + at, 1_000 + at, None, b"value", ()) for at in range(count)]
    return encode_records(rows, partition_leader_epoch=epoch)


def says(*pieces: bytes, then_closes: bool = False) -> Talk:
    """Reads one request, says that, piece by piece."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_correlation_id(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)
        if not then_closes:
            await reader.read()

    return talk
