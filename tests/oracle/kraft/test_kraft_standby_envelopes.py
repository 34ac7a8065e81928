"""A real Kafka broker whose forwarding connection is at a controller that does not lead any more.

The active controller is suspended until another one leads, and goes on as a standby: it has not closed the broker's
connection. Kafka's standby answers NOT_CONTROLLER, and the broker goes to the active controller. A change of the voters
is the exception: the broker hands Kafka's refusal on to its client, and stays with that standby. With kcore's standby
the broker goes to the active controller then, too.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from kcore.errors import KcoreError
from kcore.protocol_errors import Errors
from kcore.schema.raft_voters import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kcore.types import Uuid
from oracle.chaos.kraft_pages import asked, create_topics, led_topics, quorum_at
from oracle.kafka_tools import METADATA_QUORUM, TOPICS
from oracle.kcore_brokers import until
from oracle.kraft_clusters import FIRST_CONTROLLER, KraftCluster, Node

KAFKA_WAY = ("--kafka-way", "standbys-name-no-leader")
NOBODY = 999


class Cluster(KraftCluster):
    """Three controllers and one broker of Kafka's."""

    def __init__(self, system: str) -> None:
        ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + 3)
        super().__init__(controllers=3, brokers=1, real=ids if system == "kafka" else [])
        [self.broker] = self.brokers
        self.hands_on = system != "kcore"
        if system == "kcore_in_kafkas_way":
            for node in self.controllers:
                node._command = [*node._command, *KAFKA_WAY]

    def await_leader(self, among: Sequence[Node] = ()) -> Node:
        """Once one of them, or of all, leads alone."""
        found: list[Node] = []

        def is_one() -> bool:
            found[:] = [node for node in among or self.controllers if is_leader(node)]
            return len(found) == 1

        until(is_one, lambda: found, within_s=120)
        return found[0]

    def move_away(self, meanwhile: str | None = None) -> tuple[Node, Errors | None]:
        """Another controller leads, and the broker's forwarding connection is at the last one, which is returned.

        `meanwhile`: a topic whose request the broker forwards to the suspended controller; its error is returned, too.
        """
        while True:
            old = self.await_leader()
            made = create_topics(self.broker.address, f"topic-{len(led_topics(self.broker.address))}")
            assert made is Errors.NONE, made
            if self.await_leader() is not old:
                continue  # Nobody knows at which controller the connection is.
            with ThreadPoolExecutor() as pool:
                old.pause()
                asking = None if meanwhile is None else pool.submit(create_topics, self.broker.address, meanwhile)
                try:
                    self.await_leader([node for node in self.controllers if node is not old])
                finally:
                    old.resume()
                error = None if asking is None else asking.result()
            if (leader := self.await_leader()) is not old:
                print(f"controller {leader.node_id} leads, {old.node_id} led before")
                return old, error


def is_leader(node: Node) -> bool:
    try:
        return bool(quorum_at(node.address).error_code == Errors.NONE)
    except KcoreError:
        return False


@pytest.fixture(scope="module", params=("kcore", "kcore_in_kafkas_way", "kafka"))
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(request.param) as started:
        yield started


def removed_nobody(cluster: Cluster) -> Errors:
    """The answer through the broker to the removal of a voter that is not there."""
    nobody = Uuid(bytes([1] * 16))
    request = RemoveRaftVoterRequest(cluster_id=cluster.cluster_id, voter_id=NOBODY, voter_directory_id=nobody)
    return Errors.of(asked(cluster.broker.address, request, RemoveRaftVoterResponse).error_code)


def test_the_active_controller_describes_the_quorum(cluster: Cluster) -> None:
    cluster.move_away()
    description = quorum_at(cluster.broker.address)
    assert (Errors.of(description.error_code), description.leader_id) == (Errors.NONE, cluster.await_leader().node_id)
    cluster.tool(METADATA_QUORUM, "--bootstrap-server", cluster.broker.address, "describe", "--status")


def test_the_active_controller_is_asked_to_remove_a_voter(cluster: Cluster) -> None:
    """Under Kafka's standby that is so only once the broker has forwarded something else."""
    cluster.move_away()
    answers = [removed_nobody(cluster) for _ in range(3)]
    print(answers)
    cluster.tool(TOPICS, "--bootstrap-server", cluster.broker.address, "--create", "--topic", "moves-the-broker")
    refused = Errors.NOT_LEADER_OR_FOLLOWER if cluster.hands_on else Errors.VOTER_NOT_FOUND
    assert {*answers} == {refused}
    assert removed_nobody(cluster) is Errors.VOTER_NOT_FOUND


def test_a_topic_is_created_by_kafkas_tool(cluster: Cluster) -> None:
    cluster.move_away()
    cluster.tool(TOPICS, "--bootstrap-server", cluster.broker.address, "--create", "--topic", "created")
    until(lambda: "created" in led_topics(cluster.broker.address), lambda: led_topics(cluster.broker.address))


def test_a_topic_that_is_asked_for_while_the_controller_moves_is_created(cluster: Cluster) -> None:
    _, error = cluster.move_away(meanwhile="moving")
    assert error is Errors.NONE, error
    until(lambda: "moving" in led_topics(cluster.broker.address), lambda: led_topics(cluster.broker.address))
