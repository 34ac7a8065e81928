"""KIP-595, "Leader Progress Timeout", sentence by sentence; Kafka resigns (KAFKA-15489) where the text re-elects."""

import pytest

from kcore.raft.membership.replicas import ElectionState
from kcore.raft.states import Candidate
from kcore.schema.raft_votes import VoteRequest
from raft.cluster import Cluster
from raft.nodes import leader, leaders, partition, sent, state, stored, vote_response


@pytest.mark.covers("E1", "KIP-595 progress 1", "KIP-595 progress 2")
def test_a_new_leader_is_elected_and_everyone_has_learned_about_it_except_the_old_leader() -> None:
    """A "zombie leader", that "would not be notified by anyone about the new leader / epoch": it finds out itself.

    "As there is no regular heartbeats being pushed from leader to the follower": nothing but fetches tells it.
    """
    cluster = Cluster()
    old = cluster.elect()
    cluster.isolate(old.local.id)
    assert cluster.run(10_000, lambda: cluster.leader is not None and cluster.leader is not old)
    new = cluster.leader
    assert new is not None
    assert new.epoch > old.epoch
    assert cluster.run(5000, lambda: old.state.name != "Leader")


@pytest.mark.covers("KIP-595 progress 3")
def test_stale_information_is_not_served() -> None:
    """ "This could lead to stale information being served": what it cannot commit it never calls committed."""
    cluster = Cluster()
    old = cluster.elect()
    cluster.run(1000)
    before = cluster.committed[old.local.id]
    cluster.isolate(old.local.id)
    cluster.append(b"never")
    cluster.run(10_000)
    assert cluster.committed[old.local.id] == before


@pytest.mark.covers("E1", "KIP-595 progress 4")
@pytest.mark.parametrize(("voters", "needed"), [((1, 2, 3), 1), ((1, 2, 3, 4), 2), ((1, 2, 3, 4, 5), 2)])
def test_it_did_not_receive_fetch_requests_from_a_majority_for_that_amount_of_time(
    voters: tuple[int, ...], needed: int
) -> None:
    """ "If the leader did not receive Fetch requests from a majority of the quorum for that amount of time".

    Itself is one of the majority; the time is quorum.fetch.timeout.ms, in Kafka once and a half.
    """
    node, _ = leader(voters=voters)
    keys = node.leading.successors()
    for key in keys[: needed - 1]:
        node.leading.count_fetch(key, 2000)
    node.on_timer(3999)
    assert state(node) == ("Leader", 1, 1)
    node.on_timer(4000)
    assert state(node) == ("Resigned", 1, 1)

    node, _ = leader(voters=voters)
    for key in keys[:needed]:
        node.leading.count_fetch(key, 2000)
    node.on_timer(4999)
    assert state(node) == ("Leader", 1, 1)
    node.on_timer(5000)
    assert state(node) == ("Resigned", 1, 1)


@pytest.mark.covers("KIP-595 progress 4")
def test_fetches_of_a_minority_do_not_count_twice() -> None:
    """A majority of the quorum, not a number of fetches."""
    node, _ = leader(voters=(1, 2, 3, 4, 5))
    for now_ms in range(1000, 4000, 100):
        node.leading.count_fetch(node.leading.successors()[0], now_ms)
    node.on_timer(4000)
    assert state(node) == ("Resigned", 1, 1)


def test_an_only_voter_waits_for_nobody() -> None:
    """It is the majority."""
    node, _ = leader(voters=(1,))
    node.on_timer(1_000_000)
    assert state(node) == ("Leader", 1, 1)


@pytest.mark.covers("E1", "E28")
def test_kafka_resigns_and_lets_the_others_elect() -> None:
    """KAFKA-15489: Resigned in its epoch, then Unattached in the next one, and no epoch more without a majority."""
    cluster = Cluster()
    old = cluster.elect()
    epoch = old.epoch
    cluster.isolate(old.local.id)
    cluster.run(60_000)
    assert (old.state.name in {"Unattached", "Prospective"}, old.epoch) == (True, epoch + 1)


@pytest.mark.covers("KIP-595 progress 4")
def test_it_would_begin_a_new_election() -> None:
    """ "It would begin a new election and start sending VoteRequest to voter nodes [...] to understand the latest
    quorum": as an option.
    """
    node, _ = leader(endless_elections=True)
    effects = node.on_timer(4000)
    assert state(node) == ("Candidate", 2, -1)
    assert stored(effects)[-1].epoch == 2
    assert leaders(effects) == [(-1, 2)]
    requests = sent(effects, VoteRequest)
    assert [send.destination for send in requests] == [2, 3]
    assert not partition(requests[0].request).pre_vote


@pytest.mark.covers("KIP-595 progress 5", "KIP-595 progress 7")
@pytest.mark.parametrize("level", ["4.3", "3.9"])
def test_it_shall_keep_starting_new_elections_and_bump_the_epoch(level: str) -> None:
    """ "If it couldn't connect to any known voter, the old leader shall keep starting new elections and bump the
    epoch. [...] Note that the node will remain a candidate": for as long as it takes.
    """
    cluster = Cluster(endless_elections=True, level=level)
    old = cluster.elect()
    epoch = old.epoch
    cluster.isolate(old.local.id)
    assert cluster.run(10_000, lambda: old.state.name == "Candidate")
    for _ in range(20):
        cluster.run(500)
        assert old.state.name == "Candidate"
    assert old.epoch >= epoch + 4
    assert cluster.machines[old.local.id].election == ElectionState(old.epoch, -1, old.local)


@pytest.mark.covers("KIP-595 progress 6", "KIP-595 progress 7")
def test_if_the_returned_response_includes_a_newer_epoch_leader_it_steps_down() -> None:
    """ "This zombie leader would step down and becomes a follower", "it has been supplanted by another voter"."""
    node, _ = leader(endless_elections=True)
    effects = node.on_timer(4000)
    first = sent(effects, VoteRequest)[0]
    effects = node.on_response(first.correlation_id, vote_response(5, False, 3, 74), 4001)
    assert state(node) == ("Follower", 5, 3)
    assert stored(effects) == [ElectionState(5, 3)]


@pytest.mark.covers("KIP-595 progress 7")
def test_or_win_the_election_eventually() -> None:
    """Once the others are back, however many elections were lost."""
    cluster = Cluster(endless_elections=True)
    old = cluster.elect()
    others = [i for i in cluster.ids if i != old.local.id]
    logs = {i: cluster.kill(i) for i in others}
    assert cluster.run(20_000, lambda: isinstance(old.state, Candidate) and old.state.retries > 2)
    for node_id in others:
        cluster.add(node_id, logs[node_id])
    assert cluster.elect() is old


@pytest.mark.covers("KIP-595 progress 8", "KIP-595 progress 9")
def test_this_approach_could_generate_disruptive_voters() -> None:
    """ "The partitioned leader will keep increasing its epoch [...] it could win the election with a very large
    epoch number [...] we would like to address it in a follow-up KIP".

    Which is KIP-996: with pre-votes and resignation the quorum does not notice when it comes back.
    """
    disrupted = {}
    for endless in (False, True):
        cluster = Cluster(endless_elections=endless)
        old = cluster.elect()
        cluster.isolate(old.local.id)
        assert cluster.run(20_000, lambda: cluster.leader not in (None, old))  # noqa: B023
        cluster.run(20_000)
        new = cluster.leader
        assert new is not None
        epoch = new.epoch
        cluster.heal()
        cluster.run(3000)
        disrupted[endless] = cluster.elect().epoch > epoch
    assert disrupted == {False: False, True: True}
