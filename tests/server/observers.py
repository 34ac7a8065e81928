"""Observers of a quorum's log, byte by byte: frames of fetches and heartbeats, and what comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from kcore import schema as s
from kcore.errors import KcoreError
from kcore.types import METADATA_TOPIC_ID, Uuid
from kcore.wire.codec import decode_from
from net.loops import read_frame, request_frame
from server.quorum_nodes import CLUSTER_ID

LONG_MS: Final = 3_000  # No test waits until it is over.
NO_HIGH_WATERMARK: Final = s.fetch.FetchPartition().high_watermark


class Observer:
    """One client, which sends frames and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replica_id: int = 100) -> None:
        self.reader, self.writer, self.replica_id = reader, writer, replica_id
        self.correlation_id = 0
        self.offset = self.high_watermark = 0
        self.last_epoch = self.epoch = 0
        self.records = b""

    def fetch_frame(self, version: int = 18, **changes: Any) -> bytes:
        self.correlation_id += 1
        partition = s.fetch.FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=self.last_epoch,
            high_watermark=self.high_watermark if version >= 18 else NO_HIGH_WATERMARK,
            replica_directory_id=Uuid(bytes([self.replica_id % 251]) * 16),
        )
        request = s.FetchRequest(
            cluster_id=changes.pop("cluster_id", CLUSTER_ID),
            replica_id=self.replica_id if version < 15 else -1,
            replica_state=s.fetch.ReplicaState(replica_id=-1 if version < 15 else self.replica_id),
            max_wait_ms=changes.pop("max_wait_ms", LONG_MS),
            max_bytes=changes.pop("max_bytes", 1 << 20),
            topics=[s.fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
            forgotten_topics_data=[],
        )
        for name, value in changes.items():
            setattr(partition, name, value)
        return request_frame(request, version, self.correlation_id)

    def learn(self, frames: list[bytes], version: int) -> None:
        """From these answers in that version; of others nothing."""
        for frame in frames:
            with suppress(KcoreError, IndexError):
                self.take(decode_from(s.FetchResponse, version, frame, 5)[0].responses[0].partitions[0])

    async def answer(self, version: int = 18) -> Any:
        """The partition in the next answer, whose records the observer has from then on."""
        frame = await read_frame(self.reader)
        assert int.from_bytes(frame[:4], "big") <= self.correlation_id
        response, end = decode_from(s.FetchResponse, version, frame, 5)
        assert end == len(frame)
        self.take(response.responses[0].partitions[0])
        return response.responses[0].partitions[0]

    def take(self, data: Any) -> None:
        if data.error_code:
            return
        self.high_watermark = data.high_watermark
        records = bytes(data.records or b"")
        self.records += records
        at = 0
        while at < len(records):
            base, length, epoch = (int.from_bytes(records[at + a : at + b]) for a, b in ((0, 8), (8, 12), (12, 16)))
            self.offset = base + int.from_bytes(records[at + 23 : at + 27]) + 1
            self.last_epoch = epoch
            at += 12 + length

    async def fetch(self, version: int = 18, **changes: Any) -> Any:
        self.writer.write(self.fetch_frame(version, **changes))
        return await self.answer(version)


@asynccontextmanager
async def observer(port: int, replica_id: int = 100, epoch: int = 0) -> AsyncIterator[Observer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    made = Observer(reader, writer, replica_id)
    made.epoch = epoch
    try:
        yield made
    finally:
        writer.transport.abort()
