"""Requests that the server of a quorum node answers itself, and requests that it passes to raft."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import DisconnectedError
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.raft.effects import SendResponse
from kcore.raft.membership.replicas import Address
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.structure import Message
from kcore.server.quorum_node.quorum_request_handlers import QuorumRequestHandlers, described
from net.loops import story, until

# The requests of real controllers and brokers of that release to a controller's listener, with their versions.
NEEDED = {
    "4.3": {"Fetch": 18, "Vote": 2, "BeginQuorumEpoch": 1, "EndQuorumEpoch": 1, "FetchSnapshot": 1, "DescribeQuorum": 2,
            "AddRaftVoter": 1, "RemoveRaftVoter": 0, "UpdateRaftVoter": 0, "ControllerRegistration": 0,
            "BrokerRegistration": 4, "BrokerHeartbeat": 2, "Envelope": 0, "DescribeCluster": 2, "ApiVersions": 4,
            "UpdateFeatures": 2},
    "3.9": {"Fetch": 17, "Vote": 1, "DescribeCluster": 1, "DescribeQuorum": 2, "FetchSnapshot": 1},
}  # fmt: skip


class Raft:
    """A node that keeps the requests that it receives."""

    def __init__(self) -> None:
        self.requests: list[tuple[Message, int, Hashable]] = []

    @property
    def fetches(self) -> list[Any]:
        return [request for request, *_ in self.requests]

    def take(self, request: Message, version: int, reply_to: Hashable) -> None:
        self.requests.append((request, version, reply_to))


@asynccontextmanager
async def handlers(level: str = "4.3") -> AsyncIterator[tuple[QuorumRequestHandlers, Raft, Connection]]:
    raft = Raft()
    voters = {2: {"CONTROLLER": Address("there", 9093)}, 1: {"CONTROLLER": Address("here", 9093)}, 3: {}}
    made = QuorumRequestHandlers(level, raft.take, lambda: described("us", 2, voters, "CONTROLLER"))
    port = await made.open("127.0.0.1", 0)
    try:
        async with await connect("127.0.0.1", port) as connection:
            yield made, raft, connection
    finally:
        await made.close()


@pytest.mark.parametrize("level", NEEDED)
@story
async def test_it_advertises_what_real_nodes_need(level: str) -> None:
    async with handlers(level) as (_, _, connection):
        assert connection.versions is not None
        by_key = connection.versions.by_key
        for name, newest in NEEDED[level].items():
            assert by_key[s.index.message_class(f"{name}Request").api_key].highest == newest, name


@story
async def test_it_can_do_kraft_version_1() -> None:
    """A leader asks for that before it makes the node a voter; clients of ApiVersions 3 fail at a level 0."""
    async with handlers() as (_, _, connection):
        assert connection.versions is not None
        features = connection.versions.answer.supported_features
        assert [(each.name, each.min_version, each.max_version) for each in features] == [("kraft.version", 0, 1)]
        old = await connection.send(s.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert old.supported_features == []
        assert old.api_keys == connection.versions.answer.api_keys


@story
async def test_a_raft_request_is_answered_when_the_node_says_so() -> None:
    async with handlers() as (made, raft, connection):
        answer = connection.send(VoteRequest(voter_id=7), 1)
        while not raft.requests:
            await asyncio.sleep(0.001)
        request, version, reply_to = raft.requests[0]
        assert (request, version) == (VoteRequest(voter_id=7), 1)
        assert not answer.done()
        made.answer(SendResponse(reply_to, VoteResponse(error_code=Errors.INVALID_REQUEST.value)))
        assert (await answer).error_code == Errors.INVALID_REQUEST
        made.answer(SendResponse(reply_to, VoteResponse()))  # Nobody waits for that any more.


@story
async def test_a_fetch_of_an_observer_waits_for_its_turn_and_others_do_not() -> None:
    """Thousands of observers must not delay the voters' fetches, which commit records."""
    raft, answered = Raft(), list[Message | None]()
    made = QuorumRequestHandlers(
        "4.3", raft.take, s.DescribeClusterResponse, is_of_observer=lambda request: request.replica_id > 3
    )
    context = RequestContext("peer", 1, s.RequestHeader(), ClientSession("CONTROLLER", "127.0.0.1", "SSL"))

    def begin(replica_id: int) -> None:
        made.begin(context, s.FetchRequest(replica_id=replica_id), answered.append)

    for replica_id in (9, 2, 8):
        begin(replica_id)
    assert [request.replica_id for request in raft.fetches] == [2]
    await until(lambda: len(raft.requests) == 3)
    assert [request.replica_id for request in raft.fetches] == [2, 9, 8]
    begin(7)
    await made.close()
    assert answered == [None] * 4, "a request that waits when the server closes ends too"
    await asyncio.sleep(0)
    assert len(raft.requests) == 3


@story
async def test_3_9_does_not_say_that_it_can_go_up() -> None:
    """A real 3.9 would write kraft.version as a record of the controller's (KAFKA-18979)."""
    async with handlers("3.9") as (_, _, connection):
        assert connection.versions is not None
        assert s.UpdateFeaturesRequest.api_key not in connection.versions.by_key


@pytest.mark.parametrize(
    "request_",
    [s.BrokerRegistrationRequest(), s.BrokerHeartbeatRequest(), s.ControllerRegistrationRequest(), s.EnvelopeRequest()],
    ids=lambda each: type(each).__name__,
)
@story
async def test_the_active_controllers_requests_are_refused(request_: Any) -> None:
    async with handlers() as (_, raft, connection):
        answer = await connection.send(request_)
        assert type(answer) is response_of(type(request_))
        assert answer.error_code == Errors.NOT_CONTROLLER
        assert raft.requests == []


@story
async def test_sasl_after_a_connection_began_is_refused() -> None:
    async with handlers() as (_, raft, connection):
        for request in (s.SaslHandshakeRequest(mechanism="PLAIN"), s.SaslAuthenticateRequest(auth_bytes=b"\0a\0b")):
            assert (await connection.send(request)).error_code == Errors.ILLEGAL_SASL_STATE
        assert raft.requests == []


@story
async def test_it_describes_the_controllers_and_no_brokers() -> None:
    """KIP-919: a client that bootstraps with controllers finds the others, and the active one."""
    async with handlers() as (_, _, connection):
        response = await connection.send(s.DescribeClusterRequest(endpoint_type=2))
        assert (response.error_code, response.cluster_id, response.controller_id, response.endpoint_type) == (
            0,
            "us",
            2,
            2,
        )
        assert [(each.broker_id, each.host) for each in response.brokers] == [(1, "here"), (2, "there")]
        response = await connection.send(s.DescribeClusterRequest(endpoint_type=1))
        assert response.error_code == Errors.MISMATCHED_ENDPOINT_TYPE


@story
async def test_who_waits_when_it_closes_learns_it() -> None:
    async with handlers() as (made, raft, connection):
        answer = connection.send(VoteRequest())
        while not raft.requests:
            await asyncio.sleep(0.001)
        await made.close()
        with pytest.raises(DisconnectedError):
            await answer


@story
async def test_nothing_is_kept_of_a_client_that_is_gone() -> None:
    """A fetch may wait as long as its client says; who leaves and comes again would leave one each time."""
    async with handlers() as (made, raft, connection):
        call = connection.send(VoteRequest())
        await until(lambda: raft.requests)
        await connection.close()
        with pytest.raises(DisconnectedError):
            await call
        await until(lambda: not made.pending.waiting)
        made.answer(SendResponse(raft.requests[0][2], VoteResponse()))


@story
async def test_what_waits_when_the_node_closes_gets_no_answer() -> None:
    """A direct request gets None, which closes its connection; a request with a task ends with its task."""
    raft = Raft()
    made = QuorumRequestHandlers("4.3", raft.take, lambda: described("us", 2, {}, "CONTROLLER"))
    context = RequestContext("peer", 1, s.RequestHeader(request_api_version=1), ClientSession("CONTROLLER", "::1"))
    answers: list[Message | None] = []
    made.begin(context, s.FetchRequest(), answers.append)
    waiting = asyncio.create_task(made.handle(context, VoteRequest()))
    await until(lambda: len(raft.requests) == 2)
    await made.close()
    await asyncio.gather(waiting, return_exceptions=True)
    assert answers == [None] and waiting.cancelled() and not made.pending.waiting
