"""Requests that are handled without a task each: the promises of `test_server.py` hold for them, too."""

import asyncio
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import NetworkError
from kcore.net import requests
from kcore.net.limits.connection_limits import Limits
from kcore.net.requests import Answer
from kcore.net.server import RequestContext, Server, ServerParts, serve
from kcore.types import METADATA_TOPIC_ID
from kcore.wire.codec import decode_from, encode
from net.loops import HEARTBEAT, QUICK, fenced, heartbeat_answer, read_frame, request_frame, story, until
from net.test_server import raw_client, rest, still_serves

APIS = {"BrokerHeartbeat": (0, 1), "Fetch": (12, 18)}
FETCH = s.FetchRequest(topics=[], forgotten_topics_data=[], max_wait_ms=1, min_bytes=1)
LARGE = bytes(range(256)) * (1 << 14)  # 4 MiB


class Later:
    """It answers when the test says so."""

    def __init__(self) -> None:
        self.received: list[tuple[Any, Answer]] = []
        self.takes_requests = True

    def takes(self, api_key: int) -> bool:
        return self.takes_requests

    def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
        self.received.append((request, answer))


async def serving(direct: Any, limits: Limits | None = None) -> Server:
    return await serve("127.0.0.1", 0, fenced, APIS, limits=limits, parts=ServerParts(direct=direct))


def ask(correlation_id: int) -> bytes:
    return request_frame(HEARTBEAT, 1, correlation_id)


def answered(correlation_id: int) -> bytes:
    return heartbeat_answer(correlation_id, is_fenced=True, throttle_time_ms=1)


def fetched(records: bytes) -> s.FetchResponse:
    data = s.fetch.PartitionData(high_watermark=1, records=records, aborted_transactions=None)
    topic = s.fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    return s.FetchResponse(responses=[topic], node_endpoints=[])


@story
async def test_one_request_at_a_time_and_answers_in_order() -> None:
    direct = Later()
    async with await serving(direct) as server, raw_client(server) as (reader, writer):
        writer.write(ask(1) + ask(2) + ask(3))
        await until(lambda: direct.received)
        writer.write(ask(4))
        await asyncio.sleep(0.01)
        assert len(direct.received) == 1 and server.metrics.requests == 1
        direct.received.pop()[1](s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=1))
        for correlation_id in range(1, 5):
            if correlation_id == 4 and direct.received:
                direct.received.pop()[1](s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=1))
            assert await reader.readexactly(len(answered(1))) == answered(correlation_id)


@pytest.mark.parametrize("wrong", [None, s.MetadataResponse()])
@story
async def test_no_answer_or_a_wrong_one_costs_its_connection_only(wrong: Any) -> None:
    direct = Later()
    async with await serving(direct) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            await until(lambda: direct.received)
            direct.received.pop()[1](wrong)
            assert await rest(reader) == b""
        direct.takes_requests = False
        await still_serves(server)


@pytest.mark.parametrize("error", [NetworkError("no sense"), KeyError("our own")])
@story
async def test_a_handler_that_fails_costs_its_connection_only(error: Exception) -> None:
    class Failing(Later):
        def begin(self, context: RequestContext, request: Any, answer: Answer) -> None:
            raise error

    direct = Failing()
    async with await serving(direct) as server:
        async with raw_client(server) as (reader, writer):
            writer.write(ask(1))
            assert await rest(reader) == b""
        assert server.metrics.errors == {type(error).__name__: 1}
        direct.takes_requests = False
        await still_serves(server)


@pytest.mark.parametrize("sent", [b"\0\0\0\4\0\x3f\0\1", b"\0\0\0\3\0\x3f\0", b"\xff\xff\xff\xff"])
@story
async def test_what_cannot_be_read_is_refused(sent: bytes) -> None:
    direct = Later()
    async with await serving(direct) as server, raw_client(server) as (reader, writer):
        writer.write(sent)
        assert await rest(reader) == b""
        assert not direct.received and server.metrics.errors.total() == 1


@story
async def test_a_large_answer_waits_for_its_client_and_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    encode = requests.encode

    def counting(message: Any, version: int) -> bytes:
        encoded.append(message)
        return encode(message, version)

    monkeypatch.setattr(requests, "encode", counting)
    direct, response = Later(), fetched(LARGE)
    async with await serving(direct) as server, raw_client(server) as one, raw_client(server) as other:
        for _, writer in (one, other):
            writer.write(request_frame(FETCH, 18, 7))
        await until(lambda: len(direct.received) == 2)
        for _, answer in direct.received:
            answer(response)
        assert server.connections.unsent.total < 2 * len(LARGE)
        for reader, _ in (one, other):
            frame = await read_frame(reader)
            found, end = decode_from(s.FetchResponse, 18, frame, 5)
            assert (bytes(found.responses[0].partitions[0].records), end) == (LARGE, len(frame))
        assert encoded.count(response) == 1
        direct.received.clear()
        one[1].write(request_frame(FETCH, 18, 8))
        await until(lambda: direct.received)
        direct.received.pop()[1](fetched(b""))
        found, _ = decode_from(s.FetchResponse, 18, await read_frame(one[0]), 5)
        assert not found.responses[0].partitions[0].records, "another response has other bytes"


@story
async def test_closing_lets_what_runs_end() -> None:
    direct = Later()
    server = await serving(direct)
    async with raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await until(lambda: direct.received)
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        direct.received.pop()[1](s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=1))
        assert await rest(reader) == answered(1)
        await closing


@story
async def test_closing_does_not_wait_for_ever() -> None:
    direct = Later()
    server = await serving(direct, QUICK)
    async with raw_client(server) as (reader, writer):
        writer.write(ask(1))
        await until(lambda: direct.received)
        await server.close()
        assert await rest(reader) == b""
        direct.received.pop()[1](s.BrokerHeartbeatResponse())


@story
async def test_an_answer_for_a_client_that_is_gone() -> None:
    direct = Later()
    async with await serving(direct) as server:
        async with raw_client(server) as (_, writer):
            writer.write(ask(1))
            await until(lambda: direct.received)
        await until(lambda: not server.connections.served)
        direct.received.pop()[1](s.BrokerHeartbeatResponse())
        direct.takes_requests = False
        await still_serves(server)


def test_a_response_that_is_encoded_once_is_encoded_for_each_version() -> None:
    response, shared = fetched(b""), requests.SharedBody()
    for version in (17, 12, 12, 17):
        assert shared.body(response, version) == encode(response, version)
