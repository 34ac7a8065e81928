"""DescribeQuorum finds the leader: KIP-595, "DescribeQuorum Response Handling"."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from kcore.errors import DisconnectedError, NetworkError, RequestTimeoutError, UnsupportedVersionError
from kcore.measure.processes.local_process import free_ports
from kcore.net.server import RequestContext, serve
from kcore.protocol_errors import ApiException, Errors
from kcore.raft.membership.replicas import Address
from kcore.schema.cluster_metadata import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from kcore.server.quorum_node.describe import HOPS, QuorumDescription, describe_quorum
from net.loops import story

pytestmark = pytest.mark.usefixtures("either_answer_loop")

APIS = {"DescribeCluster": (0, 1), "DescribeQuorum": (0, 2)}


def answer(leader_id: int, epoch: int, error: Errors = Errors.NONE, nodes: list[Node] | None = None) -> Any:
    partition = DescribeQuorumResponsePartitionData(
        error_code=error.value,
        leader_id=leader_id,
        leader_epoch=epoch,
        high_watermark=7,
        current_voters=[ReplicaState(replica_id=leader_id, log_end_offset=9)],
    )
    topic = DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumResponse(topics=[topic], nodes=nodes or [])


class Controller:
    """A node that gives these answers; `request_count` counts."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)  # The last one again and again.
        self.request_count = 0
        self.cluster = DescribeClusterResponse(cluster_id="here", endpoint_type=2)
        self.address = Address("127.0.0.1", 0)

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if isinstance(request, DescribeClusterRequest):
            assert request.endpoint_type == 2
            return self.cluster
        assert isinstance(request, DescribeQuorumRequest)
        self.request_count += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.sleep(60)
        return answer


async def served(controllers: list[Controller], then: Callable[[], Awaitable[Any]], apis: Any = APIS) -> Any:
    servers = [await serve("127.0.0.1", 0, each.handle, apis) for each in controllers]
    for server, each in zip(servers, controllers, strict=True):
        each.address = Address("127.0.0.1", server.port)
    try:
        return await then()
    finally:
        for server in servers:
            await server.close()


async def ask(*where: Address, timeout_s: float = 10.0) -> QuorumDescription:
    return await describe_quorum(where, controllers=True, timeout_s=timeout_s, random=Random(1))


def at(node_id: int, address: Address) -> Node:
    return Node(node_id=node_id, listeners=[Listener(name="CONTROLLER", host=address.host, port=address.port)])


@pytest.mark.covers("KIP-595 describe response 3")
@story
async def test_the_leader_answers() -> None:
    """595: "Otherwise the response can be returned to the application"."""
    leader = Controller(answer(1, 5))
    description = await served([leader], lambda: ask(leader.address))
    assert (description.cluster_id, description.partition.leader_id, description.partition.high_watermark) == (
        "here",
        1,
        7,
    )


@pytest.mark.covers("KIP-595 describe response 1")
@story
async def test_a_node_that_names_the_leader_is_followed() -> None:
    """595: "check ... if the LeaderId has been set. If so, then attempt to retry the request with the new leader"."""
    leader, other = Controller(answer(0, 5)), Controller(None)

    async def asking() -> QuorumDescription:
        other.answers = [answer(0, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(0, leader.address)])]
        return await ask(other.address)

    description = await served([leader, other], asking)
    assert description.partition.leader_id == 0
    assert (leader.request_count, other.request_count) == (1, 1)


@story
async def test_a_leader_id_of_epoch_0_is_none() -> None:
    """Kafka's nodes leave both at 0 in the answer of one that does not lead: DescribeCluster tells then."""
    leader, other, zero = Controller(answer(2, 5)), Controller(None), Controller(answer(0, 1))

    async def asking() -> QuorumDescription:
        other.answers = [answer(0, 0, Errors.NOT_LEADER_OR_FOLLOWER)]
        nodes = [
            DescribeClusterBroker(broker_id=each, host=where.address.host, port=where.address.port)
            for each, where in ((0, zero), (2, leader))
        ]
        other.cluster = DescribeClusterResponse(cluster_id="here", endpoint_type=2, controller_id=2, brokers=nodes)
        return await ask(other.address)

    description = await served([leader, other, zero], asking)
    assert description.partition.leader_id == 2
    assert zero.request_count == 0


@pytest.mark.covers("KIP-595 describe response 2")
@story
async def test_no_leader_yet_is_asked_again() -> None:
    """595: "which could be the case if there is an election in progress ..., then backoff and retry with Metadata"."""
    node = Controller(*[answer(-1, 5, Errors.NOT_LEADER_OR_FOLLOWER)] * 2, answer(1, 6))
    description = await served([node], lambda: ask(node.address))
    assert (description.partition.leader_epoch, node.request_count) == (6, 3)


@pytest.mark.covers("KIP-595 describe response 3")
@story
async def test_the_request_eventually_times_out() -> None:
    """595: "or the request eventually times out"; it says what was wrong."""
    node = Controller(answer(-1, 5, Errors.NOT_LEADER_OR_FOLLOWER))
    [nobody] = free_ports(1)
    with pytest.raises(RequestTimeoutError, match=r"127\.0\.0\.1:\d+ does not lead"):
        await served([node], lambda: ask(node.address, timeout_s=0.4))
    with pytest.raises(RequestTimeoutError, match="no connection"):
        await ask(Address("127.0.0.1", nobody), timeout_s=0.4)
    silent = Controller(None)
    with pytest.raises(RequestTimeoutError, match="given up after"):
        await served([silent], lambda: ask(silent.address, timeout_s=0.4))


@story
async def test_a_dead_one_of_several_does_no_harm() -> None:
    leader = Controller(answer(1, 5))
    [nobody] = free_ports(1)
    description = await served([leader], lambda: ask(Address("127.0.0.1", nobody), leader.address))
    assert description.partition.leader_id == 1


@story
async def test_two_nodes_that_point_at_each_other_are_left_for_the_next_try() -> None:
    one, two = Controller(None), Controller(None)

    async def asking() -> QuorumDescription:
        one.answers = [answer(2, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(2, two.address)])] * 4 + [answer(1, 6)]
        two.answers = [answer(1, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(1, one.address)])]
        return await ask(one.address)

    description = await served([one, two], asking)
    assert description.partition.leader_epoch == 6


@story
async def test_the_next_address_is_asked_after_a_few_hops() -> None:
    """Two nodes that name each other for ever do not keep the search from the others."""
    one, two, leader = Controller(None), Controller(None), Controller(answer(3, 7))

    async def asking() -> QuorumDescription:
        one.answers = [answer(2, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(2, two.address)])]
        two.answers = [answer(1, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(1, one.address)])]
        return await ask(one.address, leader.address)

    found = await served([one, two, leader], asking)
    assert (found.partition.leader_epoch, one.request_count + two.request_count, leader.request_count) == (7, HOPS, 1)


@story
async def test_a_node_that_names_itself_and_does_not_lead_is_asked_once() -> None:
    one, leader = Controller(None), Controller(answer(3, 7))

    async def asking() -> QuorumDescription:
        one.answers = [answer(1, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(1, one.address)])]
        return await ask(one.address, leader.address)

    assert (await served([one, leader], asking)).partition.leader_epoch == 7
    assert (one.request_count, leader.request_count) == (1, 1)


@story
async def test_permanent_errors_are_reported_at_once() -> None:
    refusing = Controller(DescribeQuorumResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED.value))
    with pytest.raises(ApiException, match="DescribeQuorum to 127"):
        await served([refusing], lambda: ask(refusing.address))
    assert refusing.request_count == 1
    broker = Controller(answer(1, 5))
    broker.cluster = DescribeClusterResponse(error_code=Errors.MISMATCHED_ENDPOINT_TYPE.value)
    with pytest.raises(ApiException, match="DescribeCluster to 127"):
        await served([broker], lambda: ask(broker.address))


@story
async def test_before_there_is_a_metadata_version() -> None:
    """Real controllers do not describe the cluster then, but the quorum."""
    node = Controller(answer(1, 5))
    node.cluster = DescribeClusterResponse(error_code=Errors.UNSUPPORTED_VERSION.value)
    description = await served([node], lambda: ask(node.address))
    assert (description.cluster_id, description.partition.leader_id) == ("", 1)


@story
async def test_a_peer_that_has_no_quorum() -> None:
    """A broker in ZooKeeper mode knows no DescribeQuorum."""
    node = Controller(answer(1, 5))
    with pytest.raises(UnsupportedVersionError, match="is not a node of a KRaft cluster"):
        await served([node], lambda: ask(node.address), {"DescribeCluster": (0, 1)})


@story
async def test_an_answer_about_something_else() -> None:
    for odd in (DescribeQuorumResponse(), DescribeQuorumResponse(topics=answer(1, 5).topics * 2)):
        node = Controller(odd)
        with pytest.raises(NetworkError, match="not __cluster_metadata-0") as raised:
            await served([node], lambda where=node: ask(where.address))
        assert not isinstance(raised.value, DisconnectedError | RequestTimeoutError)


@pytest.mark.parametrize(("host", "port"), [("a" * 64, 9092), ("nul\0", 9092), ("", 1)])
@story
async def test_a_leader_at_an_impossible_address_ends_in_one_printable_line(host: str, port: int) -> None:
    """The node that named this leader may name another later; until then the command prints one line."""
    other = Controller(answer(0, 5, Errors.NOT_LEADER_OR_FOLLOWER, [at(0, Address(host, port))]))
    with pytest.raises(RequestTimeoutError, match="no connection to") as caught:
        await served([other], lambda: ask(other.address, timeout_s=0.3))
    assert str(caught.value).isprintable()
