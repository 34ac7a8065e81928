"""request_percentage at a KRaft controller, over real sockets: clients above their quota are throttled and muted.

The clocks are the test's: each step of a request takes 20 ms, and no time passes between requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.rules.mutation_quotas import RATE
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.throttled_channel import ThrottledChannel
from kcore.node.rate_quotas import REQUEST_PERCENTAGE
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import EndpointType
from kcore.schema.headers import RequestHeader
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.security.request_throttle import RequestThrottle
from kcore.wire.codec import decode_from, encode
from net.limits.test_muting import muted as muted_at
from net.loops import read_frame, request_frame, story, until
from server.compiled_cluster import active, adopted, broker
from server.quorum.test_answer_loop_heartbeats import DENY

pytestmark = pytest.mark.usefixtures("either_answer_loop")

STEP_NS = 20_000_000
DESCRIBE = s.DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
GREEDY: dict[str, str | None] = {"client-id": "greedy"}
EVERYBODY: dict[str, str | None] = {"user": None}


class Steps:
    """A clock that is read at the begin and the end of each step."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        return self.reads * STEP_NS


def stop_the_clocks(throttle: RequestThrottle) -> Steps:
    """The steps that are measured from now on."""
    steps = throttle.clock_ns = Steps()
    throttle.now_ms = lambda: 1_000_000
    return steps


@asynccontextmanager
async def limited(folder: Path, entity: dict[str, str | None], **settings: Any) -> AsyncIterator[KraftServer]:
    """A controller at which the entity has 1 %: 100 ms of ten seconds."""
    async with active(folder, **settings) as server:
        stop_the_clocks(server.handlers.pipeline.throttle)
        async with await connect("127.0.0.1", server.port, client_id="admin") as admin:
            await limit(admin, entity, 1.0)
        yield server


async def limit(
    admin: Connection, entity: dict[str, str | None], value: float | None, key: str = REQUEST_PERCENTAGE
) -> None:
    """None removes the quota."""
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = AlterClientQuotasRequestEntryData(entity=parts, ops=[op])
    answer = await admin.send(AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]


async def asked_until_throttled(connection: Connection, request: Message = DESCRIBE) -> Any:
    """The first answer that says so; a connection is muted only behind it."""
    for _ in range(10):
        answer = await connection.send(request)
        if answer.throttle_time_ms:
            return answer
    raise AssertionError("never throttled")


def muted(server: KraftServer) -> list[ThrottledChannel]:
    served = server.handlers._server
    assert served is not None
    return muted_at(served)


@story
async def test_who_asks_without_end_is_held_to_the_quota_and_nobody_else(tmp_path: Path) -> None:
    async with (
        limited(tmp_path, GREEDY) as server,
        await connect("127.0.0.1", server.port, client_id="greedy") as greedy,
        await connect("127.0.0.1", server.port, client_id="modest") as modest,
    ):
        answer = await asked_until_throttled(greedy)
        assert 0 < answer.throttle_time_ms <= 1000 and answer.error_code == 0
        assert (await modest.send(DESCRIBE)).throttle_time_ms == 0
        [channel] = muted(server)
        waits = asyncio.ensure_future(greedy.send(DESCRIBE))
        for _ in range(20):
            assert (await modest.send(DESCRIBE)).throttle_time_ms == 0
        channel.end()
        assert (await waits).throttle_time_ms == 1000, "all that was used, and no more than a window"
        async with await connect("127.0.0.1", server.port, client_id="greedy", ask_versions=False) as another:
            assert (await another.send(DESCRIBE, 1)).throttle_time_ms == 1000, "the quota is not a connection's"
        await limit(modest, GREEDY, 50.0)
        assert (await greedy.send(DESCRIBE)).throttle_time_ms == 0, "a larger quota counts at once"
        await limit(modest, GREEDY, 1.0)
        assert (await greedy.send(DESCRIBE)).throttle_time_ms == 1000
        await limit(modest, GREEDY, None)
        assert (await greedy.send(DESCRIBE)).throttle_time_ms == 0
        assert server.handlers.pipeline.throttle.is_on is False


@story
async def test_a_user_s_quota_is_that_of_all_its_clients(tmp_path: Path) -> None:
    async with limited(tmp_path, EVERYBODY) as server:
        async with await connect("127.0.0.1", server.port, client_id="one") as one:
            await asked_until_throttled(one)
        async with await connect("127.0.0.1", server.port, client_id="two", ask_versions=False) as two:
            assert (await two.send(DESCRIBE, 1)).throttle_time_ms == 1000


@story
async def test_what_nodes_of_the_cluster_send_is_exempt(tmp_path: Path) -> None:
    """Also where the compiled loop does not answer it; a request that is not theirs is not exempt."""
    async with limited(tmp_path, EVERYBODY) as server, broker(server) as made:
        is_compiled = server.handlers._compiled is not None
        assert adopted(server) == is_compiled
        for number in range(20):
            made.offset += number
            response = await made.beat(want_fence=False)
            assert (response.error_code, response.throttle_time_ms) == (0, 0)
        assert adopted(server) == is_compiled
        alter = s.AlterPartitionRequest(broker_id=1, broker_epoch=made.epoch, topics=[])
        for request in (s.DescribeQuorumRequest(topics=[]), alter, s.FetchSnapshotRequest(topics=[])):
            for _ in range(10):
                await made.admin.send(request)
        assert not muted(server)
        await asked_until_throttled(made.admin)


@pytest.mark.parametrize("is_direct", [False, True])
@story
async def test_who_lacks_the_right_is_not_exempt(tmp_path: Path, *, is_direct: bool) -> None:
    """A heartbeat and a fetch have no task of their own; a vote has one."""
    rights = {"has_authorizer": True, "allow_everyone_if_no_acl_found": True}
    refused = Errors.CLUSTER_AUTHORIZATION_FAILED
    async with limited(tmp_path, EVERYBODY, **rights) as server:
        async with await connect("127.0.0.1", server.port, client_id="stranger") as stranger:
            assert [
                each.error_code for each in (await stranger.send(s.CreateAclsRequest(creations=[DENY]))).results
            ] == [0]
            if not is_direct:
                answer = await stranger.send(s.VoteRequest())  # CreateAcls may have muted the client.
                while not muted(server):
                    answer = await stranger.send(s.VoteRequest())
                    await asyncio.sleep(0)
                assert answer.error_code == refused
                return
        for request in (
            s.BrokerHeartbeatRequest(broker_id=1, broker_epoch=2),
            s.FetchRequest(topics=[], forgotten_topics_data=[]),
        ):
            async with await connect("127.0.0.1", server.port, client_id="stranger", ask_versions=False) as stranger:
                version = 17 if isinstance(request, s.FetchRequest) else 1
                answer = await stranger.send(request, version)
                while not answer.throttle_time_ms:
                    answer = await stranger.send(request, version)
                assert answer.error_code == refused
                await until(lambda: muted(server))
            await until(lambda: not muted(server))


@story
async def test_a_forwarded_request_throttles_its_client(tmp_path: Path) -> None:
    """The broker's connection is not muted: the broker mutes the client."""
    async with limited(tmp_path, {"user": "alice"}) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            for name, expected in (("alice", 1000), ("bob", 0)):
                for _ in range(10):
                    writer.write(request_frame(forwarded(name), 0, 1))
                    answer, _ = decode_from(s.EnvelopeResponse, 0, await read_frame(reader), 5)
                    listed, _ = decode_from(s.ListPartitionReassignmentsResponse, 0, answer.response_data, 5)
                assert listed.throttle_time_ms == expected
            assert not muted(server)
        finally:
            writer.transport.abort()


@story
async def test_an_envelope_that_cannot_be_read_counts_for_no_client(tmp_path: Path) -> None:
    """The next request of the same connection pays for itself alone (sendErrorResponseExemptThrottle)."""
    unreadable = s.EnvelopeRequest(request_data=b"", request_principal=None, client_host_address=b"")
    async with (
        limited(tmp_path, {"client-id": "broker"}) as server,
        await connect("127.0.0.1", server.port, client_id="broker") as sender,
    ):
        for _ in range(20):
            answer = await sender.send(unreadable)
            assert answer.error_code == Errors.PRINCIPAL_DESERIALIZATION_FAILURE
        assert not muted(server) and (await sender.send(DESCRIBE)).throttle_time_ms == 0


@story
async def test_an_envelope_of_a_client_without_the_right_throttles_its_sender(tmp_path: Path) -> None:
    """An EnvelopeResponse has no throttle time, but the controller mutes the connection."""
    rights = {"has_authorizer": True, "allow_everyone_if_no_acl_found": True}
    async with (
        limited(tmp_path, EVERYBODY, **rights) as server,
        await connect("127.0.0.1", server.port, client_id="stranger") as stranger,
    ):
        created = await stranger.send(s.CreateAclsRequest(creations=[DENY]))
        assert [each.error_code for each in created.results] == [0]
        for _ in range(10):
            answer = await stranger.send(forwarded("alice"))
            assert answer.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED
            await asyncio.sleep(0)
            if muted(server):
                return
        raise AssertionError("never muted")


def forwarded(name: str) -> s.EnvelopeRequest:
    request = s.ListPartitionReassignmentsRequest(topics=None)
    header = RequestHeader(request_api_key=request.api_key, request_api_version=0, client_id="c")
    return s.EnvelopeRequest(
        request_data=bytes(encode(header, 2)) + bytes(encode(request, 0)),
        request_principal=b"\0\0" + bytes(encode(DefaultPrincipalData(type="User", name=name), 0)),
        client_host_address=b"\x0a\0\0\1",
    )


@story
async def test_a_quota_on_mutations_mutes_as_well(tmp_path: Path) -> None:
    """Nothing is measured for it."""
    async with active(tmp_path) as server, broker(server) as made:
        steps = stop_the_clocks(server.handlers.pipeline.throttle)
        await limit(made.admin, {"client-id": "kcore"}, 0.001, RATE)
        for name in ("a", "b"):
            topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            answer = await made.admin.send(s.CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == Errors.THROTTLING_QUOTA_EXCEEDED and answer.throttle_time_ms > 100_000
        await made.beat()
        assert len(muted(server)) == 1 and steps.reads == 0
