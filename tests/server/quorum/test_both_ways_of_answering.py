"""The answer loop and the asyncio server answer with the same bytes."""

import gzip
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.server.quorum_node.quorum_server import QuorumServer
from kcore.storage.log.segmented_log import Settings
from kcore.wire.codec import encode
from net.loops import framed, read_frame, story, until
from server.compiled_leader import adopted, counters, leader
from server.observers import NO_HIGH_WATERMARK, Observer, observer
from server.quorum_nodes import append

GOLDEN = Path(__file__).parents[2] / "data" / "wire" / "golden-44-public.jsonl.gz"
VERSIONS = (13, 15, 17, 18)


def recorded() -> Iterator[bytes]:
    """Fetch and BrokerHeartbeat requests that Kafka's own code has written."""
    with gzip.open(GOLDEN, "rt") as lines:
        for each in map(json.loads, lines):
            if each["type"] == "request" and each["api"] in ("Fetch", "BrokerHeartbeat"):
                kind = getattr(s, f"{each['api']}Request")
                version = int(each["version"])
                header = s.RequestHeader(
                    request_api_key=kind.api_key, request_api_version=version, correlation_id=7, client_id="recorded"
                )
                yield framed(encode(header, kind.header_version(version)) + bytes.fromhex(each["hex"]))


class Pair:
    """Two connections of one client that send the same; the loop may have the first one."""

    def __init__(self, server: QuorumServer, random: Random) -> None:
        self.server, self.random = server, random
        self.stack = AsyncExitStack()
        self.ends: list[Observer] = []

    async def open(self) -> None:
        await self.stack.aclose()
        epoch = self.server.node.epoch
        self.ends = [await self.stack.enter_async_context(observer(self.server.port, 100, epoch)) for _ in range(2)]

    async def say(self, frames: list[bytes]) -> list[list[bytes]]:
        """The answers of each connection to these frames, in pieces of any size; all bytes until its end."""
        compiled = self.server.handlers._compiled
        assert compiled is not None
        feeds, answers = compiled._feeds, list[list[bytes]]()
        for end, planning in zip(self.ends, (feeds, []), strict=True):
            compiled._feeds = planning  # Without feeds the loop takes no connection.
            data, found = b"".join(frames), list[bytes]()
            while data:
                size = self.random.choice((1, 7, 40, 200, 1 << 20))
                end.writer.write(data[:size])
                await end.writer.drain()
                data = data[size:]
            for _ in frames:
                try:
                    found.append(await read_frame(end.reader))
                except (EOFError, ConnectionError):
                    break
            answers.append(found)
        compiled._feeds = feeds
        return answers


def _fetch(end: Observer, random: Random, server: QuorumServer, version: int) -> bytes:
    """Mostly the next one of an observer; sometimes an odd one."""
    changes: dict[str, Any] = {}
    if random.random() < 0.15:
        changes = random.choice(
            [
                {"fetch_offset": random.randrange(server.node.log.end_offset + 3)},
                {"last_fetched_epoch": random.randrange(-1, end.epoch + 2)},
                {"current_leader_epoch": random.randrange(end.epoch + 2)},
                {"max_bytes": random.choice((0, 1, 100, 5_000))},
                {"max_wait_ms": random.choice((0, -1))},
                {"high_watermark": random.choice((-1, 0, NO_HIGH_WATERMARK if version < 18 else 1))},
                {"log_start_offset": 1},
                {"cluster_id": random.choice((None, "another"))},
            ]
        )
    return end.fetch_frame(version, **{"max_wait_ms": 1} | changes)


@pytest.mark.parametrize("seed", range(4))
@story
async def test_the_same_bytes_for_the_same_requests(tmp_path: Path, seed: int) -> None:
    random, version = Random(seed), 18
    odd = [*recorded()]
    async with leader(tmp_path, segments=Settings(segment_bytes=3_000)) as server:
        pair = Pair(server, random)
        await pair.open()
        for _ in range(120):
            version = random.choice(VERSIONS) if random.random() < 0.1 else version
            for _ in range(random.choice((0, 0, 1, 3))):
                append(server, [bytes(random.randrange(1, 900))])
            await until(lambda: server.node.high_watermark == server.node.log.end_offset)
            first, _ = pair.ends
            frames = [_fetch(first, random, server, version) for _ in range(random.choice((1, 1, 1, 2, 4)))]
            if random.random() < 0.1:
                frames.insert(random.randrange(len(frames) + 1), random.choice(odd))
            answers = await pair.say(frames)
            assert answers[0] == answers[1], (version, frames)
            if len(answers[0]) < len(frames):
                await pair.open()
            else:
                first.learn(answers[0], version)
        await pair.stack.aclose()
        assert counters(server)["fetches"] > 30, "the loop has answered many of them"
        await until(lambda: not adopted(server))
