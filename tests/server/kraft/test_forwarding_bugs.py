"""Bugs of Kafka's nodes that forward requests (KIP-590), each as a scenario over sockets."""

import asyncio
import time
from typing import Any

import pytest

from broker.test_lifecycle import made as life_of_a_broker
from kcore.broker.lifecycle.machine import Started
from kcore.errors import DisconnectedError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession
from kcore.net.server import RequestContext, serve
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kcore.server.broker import broker_connections, forwarding
from kcore.server.broker import broker_connections as peers
from kcore.server.broker.broker_connections import ControllerClient
from kcore.server.broker.forwarding import ControllerForwarding
from kcore.server.clock import now_ms
from kcore.server.kraft_broker.lifecycle_tasks import LifecycleTasks
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.zk_node.relay import Address, BrokerRelay
from kcore.wire.codec import decode_from, encode
from net.loops import GENEROUS_S, context_in, raw_server, story, until
from server.broker.test_broker_process import brokers_in
from server.kraft.test_kraft_server import enveloped, registration, served

RATE = "controller_mutation_rate"


def creation(name: str, *, partitions: int = 1, replication_factor: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5_000)


def frame_of(request: Any, version: int) -> bytes:
    head = RequestHeader(request_api_key=request.api_key, request_api_version=version, correlation_id=5, client_id="c")
    return bytes(encode(head, request.header_version(version)) + encode(request, version))


def at(port: int) -> Endpoint:
    return Endpoint(port, "127.0.0.1", "PLAINTEXT", 0)


# Under a KRaft controller.


@pytest.mark.covers("KRaft D2")
@story
async def test_a_forwarded_request_that_no_controller_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-10667: a broker looked for a controller on behalf of a client for ever."""
    monkeypatch.setattr(forwarding, "WITHIN_S", 0.05)
    monkeypatch.setattr(broker_connections, "RETRY_S", 0.005)
    looks = 0

    def nowhere() -> None:
        nonlocal looks
        looks += 1

    relay = ControllerForwarding(ControllerClient("broker-1-forwarding", nowhere))
    async with asyncio.timeout(5):
        with pytest.raises(DisconnectedError, match="no controller has answered CreateTopicsRequest"):
            await relay.ask(context_in(frame_of(creation("t"), 7)))
    assert looks > 1
    seen = looks
    await asyncio.sleep(0.03)
    assert looks == seen, "nobody waits, and it is not looked for any more"


@story
async def test_a_request_that_breaks_its_connection_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An envelope that a controller takes for too large, or an answer that is too large here."""
    monkeypatch.setattr(broker_connections, "RETRY_S", 0.001)
    caplog.set_level("INFO", broker_connections.__name__)

    def lines() -> int:
        return len([each for each in caplog.messages if each.startswith("the controller does not answer")])

    async def broken(context: RequestContext, request: Any) -> Any:
        if isinstance(request, AllocateProducerIdsRequest):
            raise DisconnectedError("not this one")
        return EnvelopeResponse(response_data=b"answered")

    async with await serve("127.0.0.1", 0, broken, {"AllocateProducerIds": (0, 0), "Envelope": (0, 0)}) as server:
        client = ControllerClient("broker-1-forwarding", lambda: at(server.port))
        stuck = asyncio.create_task(client.ask(lambda choose: (AllocateProducerIdsRequest(), 0)))
        await until(lambda: server.metrics.errors["DisconnectedError"] > 3)
        assert lines() == 1, "once for each reason"
        answer = await asyncio.wait_for(
            client.ask(lambda choose: (EnvelopeRequest(request_principal=b""), 0)), GENEROUS_S
        )
        assert answer.response_data == b"answered" and not stuck.done()
        await until(lambda: lines() == 2)  # It had answered since.
        stuck.cancel()
        client.close()


@story
async def test_a_request_that_fits_in_no_envelope_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MOST_BYTES", 50)

    def nowhere() -> None:
        raise AssertionError("no controller is looked for")

    relay = ControllerForwarding(ControllerClient("broker-1-forwarding", nowhere))
    with pytest.raises(DisconnectedError, match="does not fit in an envelope"):
        await relay.ask(context_in(frame_of(creation("t" * 50), 5)))


@story
async def test_the_largest_request_that_fits_in_an_envelope_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frame_of(creation("t"), 5)
    monkeypatch.setattr(forwarding, "MOST_BYTES", len(frame))

    async def answered(context: RequestContext, request: Any) -> Any:
        return EnvelopeResponse(response_data=request.request_data)

    async with await serve("127.0.0.1", 0, answered, {"Envelope": (0, 0)}) as server:
        client = ControllerClient("broker-1-forwarding", lambda: at(server.port))
        assert await ControllerForwarding(client).ask(context_in(frame)) == frame
        client.close()


def test_the_envelope_of_the_largest_request_is_a_frame() -> None:
    """With the longest principal that Kafka's protocol can carry, an IPv6 address and the longest client id."""
    session = ClientSession("BROKER", "::1")
    session.authenticated(KafkaPrincipal("n" * 32_767, "n" * 32_767))
    head = RequestHeader(request_api_key=EnvelopeRequest.api_key, client_id="n" * 32_767)
    beside = len(encode(head, EnvelopeRequest.header_version(0))) + len(encode(forwarding.enveloped(b"", session), 0))
    assert beside + 4 + forwarding.MOST_BYTES <= Limits().frame_bytes


@pytest.mark.covers("KRaft D3", "KRaft D4")
def test_a_forwarded_request_counts_for_its_clients_quota() -> None:
    """KAFKA-14215: forwarded requests escaped every quota. KAFKA-14032: they had been dequeued at no time."""

    async def create(connection: Connection, name: str) -> Errors:
        response = await connection.send(enveloped(creation(name, partitions=5), 7))
        assert response.error_code == Errors.NONE
        _, at_ = decode_from(ResponseHeader, 1, response.response_data)
        inner, _ = decode_from(CreateTopicsResponse, 7, response.response_data, at_)
        return Errors(inner.topics[0].error_code)

    async def story(server: KraftServer, connection: Connection) -> None:
        epoch = (await connection.send(registration())).broker_epoch
        beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
        assert not (await connection.send(beat)).is_fenced
        limit = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name="alice")], ops=[OpData(key=RATE, value=0.01)]
        )
        [altered] = (await connection.send(AlterClientQuotasRequest(entries=[limit]))).entries
        assert altered.error_code == Errors.NONE
        begin_s = time.monotonic()
        assert await create(connection, "first") is Errors.NONE, "a full bucket may be overdrawn"
        assert await create(connection, "second") is Errors.THROTTLING_QUOTA_EXCEEDED
        [own] = (await connection.send(creation("third", partitions=5), 7)).topics
        assert own.error_code == Errors.NONE, "the broker that hands on is another user"
        counted = server.network.apis[EnvelopeRequest.api_key]
        assert counted.count == 2
        assert 0 < counted.total_s < time.monotonic() - begin_s, "from when they came to their answers"

    served(story, free_ports(1)[0])


@pytest.mark.covers("KRaft D5")
@story
async def test_the_controller_alone_checks_the_replication_factor_of_a_forwarded_request() -> None:
    """KAFKA-12381: a broker that knew of fewer brokers refused what the controller would have done."""
    frame = frame_of(creation("t", replication_factor=3), 7)
    seen: list[EnvelopeRequest] = []

    async def controller(context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
        seen.append(request)
        return EnvelopeResponse(response_data=b"as the controller says")

    async with await serve("127.0.0.1", 0, controller, {"Envelope": (0, 0)}) as server:
        client = ControllerClient("broker-1-forwarding", lambda: at(server.port))
        assert await ControllerForwarding(client).ask(context_in(frame)) == b"as the controller says"
        client.close()
    assert [each.request_data for each in seen] == [frame], "byte for byte"


@pytest.mark.covers("KRaft D7")
@story
async def test_one_lost_answer_costs_a_broker_one_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-14392: a broker waited for a heartbeat's answer as long as for any, and its session ended meanwhile."""
    monkeypatch.setattr(peers, "LIMITS", Limits(connect_s=10.0, request_s=GENEROUS_S, in_flight=1))
    beats: list[BrokerHeartbeatRequest] = []
    never = asyncio.Event()

    async def controller(context: RequestContext, request: Any) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=5)
        beats.append(request)
        if len(beats) == 1:
            await context.while_here(never.wait())
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)

    apis = {"BrokerRegistration": (0, 4), "BrokerHeartbeat": (0, 2)}
    async with await serve("127.0.0.1", 0, controller, apis) as server, asyncio.timeout(GENEROUS_S / 2):
        machine = life_of_a_broker(heartbeat_interval_ms=50)
        channel = ControllerClient("broker-1-heartbeat", lambda: at(server.port))
        tasks = LifecycleTasks(machine, channel, now_ms, lambda effect: None)
        tasks.take(Started())
        await until(lambda: len(beats) > 2)
        await tasks.requests.close()


# In ZooKeeper mode.


@pytest.mark.covers("ZooKeeper D1")
@story
async def test_a_controller_that_answered_not_controller_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-12677: NOT_CONTROLLER passed for an answer, and the controller of before was asked until the time-out."""
    monkeypatch.setattr(broker_connections, "RETRY_S", 0.001)
    asked: list[str] = []

    async def old(context: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        asked.append("old")
        return AllocateProducerIdsResponse(error_code=Errors.NOT_CONTROLLER)

    async def new(context: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        asked.append("new")
        return AllocateProducerIdsResponse(producer_id_start=7)

    apis = {"AllocateProducerIds": (0, 0)}
    async with await serve("127.0.0.1", 0, old, apis) as before, await serve("127.0.0.1", 0, new, apis) as after:
        client = ControllerClient("broker-1", lambda: at(after.port if asked else before.port))
        response = await client.ask(lambda choose: (AllocateProducerIdsRequest(), choose(AllocateProducerIdsRequest)))
        client.close()
    assert (asked, response.error_code, response.producer_id_start) == (["old", "new"], Errors.NONE, 7)


@pytest.mark.covers("ZooKeeper D2")
@story
async def test_each_broker_is_asked_once_in_a_controllers_place() -> None:
    """KAFKA-10667: what is handed on was tried without end."""
    came: list[int] = []

    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("sockname")[1])

    async with raw_server(hangs_up) as one, raw_server(hangs_up) as other:

        async def live() -> list[Address]:
            return [Address("127.0.0.1", one), Address("127.0.0.1", other)]

        relay = BrokerRelay(live, lambda: (), lambda: None)
        assert await relay.forward(DescribeClusterRequest(), 0) is None
    assert came == [one, other]


@pytest.mark.covers("ZooKeeper D6")
@story
async def test_a_broker_without_a_quorum_advertises_no_describe_quorum(tmp_path: Any) -> None:
    """KAFKA-12967: brokers advertised DescribeQuorum, and nobody answered it. Here there is no quorum."""
    async with brokers_in(tmp_path) as brokers, brokers.connected(1) as connection:
        assert connection.versions is not None
        assert DescribeClusterRequest.api_key in connection.versions.by_key
        assert DescribeQuorumRequest.api_key not in connection.versions.by_key


@story
async def test_requests_that_are_forwarded_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MOST_WAITING", 2)
    asked = 0

    class Silent(ControllerClient):
        async def ask(self, make: Any) -> Any:
            nonlocal asked
            asked += 1
            await asyncio.Event().wait()

    relay = ControllerForwarding(Silent("broker-1-forwarding", lambda: None))
    tasks = [asyncio.create_task(relay.ask(context_in(frame_of(creation("t"), 7)))) for _ in range(4)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert asked == 2
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", b"\x0a\0\0\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
        ("a host", b"\x7f\0\0\1"),
    ],
)
def test_the_address_of_a_client_is_its_bytes_without_the_zone(address: str, expected: bytes) -> None:
    assert forwarding.address_bytes(address) == expected
