"""Whole quorums: they find a leader, keep it, and find another."""

import pytest

from kcore.raft.effects import Send
from kcore.raft.states import Follower
from kcore.raft.transitions import CANDIDATE, FOLLOWER, LEADER, PROSPECTIVE, Event
from kcore.schema.fetch import FetchRequest
from raft.cluster import Cluster
from raft.nodes import LISTENER, address, answer, follower, log_of, partition, vote_request, voter

FETCH_TIMEOUT_MS = 2000
LEADER_ID, OTHER_ID = 2, 1
LEVELS = pytest.mark.parametrize("level", ["4.3", "3.9"])


@LEVELS
@pytest.mark.parametrize("ids", [(1,), (1, 2), (1, 2, 3), (1, 2, 3, 4, 5)])
def test_a_quorum_finds_its_leader_and_commits(ids: tuple[int, ...], level: str) -> None:
    cluster = Cluster(ids, level=level)
    leader = cluster.elect()
    end = cluster.append(b"a", b"b")
    assert cluster.run(3000, lambda: all(cluster.committed.get(i) == end for i in ids))
    assert {tuple(cluster.values(i)) for i in ids} == {(b"a", b"b")}
    assert cluster.leaders[leader.local.id][-1] == (leader.local.id, leader.epoch)


@LEVELS
@pytest.mark.parametrize("seed", range(5))
def test_a_dead_leader_is_replaced(level: str, seed: int) -> None:
    cluster = Cluster(seed=seed, level=level)
    first = cluster.elect()
    log = cluster.kill(first.local.id)
    second = cluster.elect()
    assert second.epoch > first.epoch
    cluster.add(first.local.id, log)
    assert cluster.run(5000, cluster.is_led)


@pytest.mark.parametrize("ids", [(1, 2, 3), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("seed", range(5))
def test_a_leader_whose_address_refuses_is_replaced_at_once(ids: tuple[int, ...], seed: int) -> None:
    """The option `elects_when_refused`; Kafka's followers wait for the fetch timeout of 2 s."""
    for option in (False, True):
        cluster = Cluster(ids, seed=seed, elects_when_refused=option)
        cluster.resets = True
        first = cluster.elect()
        cluster.run(3000)
        cluster.kill(first.local.id)
        began_ms = cluster.now_ms
        cluster.elect()
        took_ms = cluster.now_ms - began_ms
        assert took_ms < FETCH_TIMEOUT_MS // 4 if option else took_ms > FETCH_TIMEOUT_MS // 2


def test_a_leader_that_is_only_silent_keeps_its_followers() -> None:
    """A network that loses everything refuses nothing: the fetch timeout tells, as without the option."""
    cluster = Cluster(elects_when_refused=True)
    first = cluster.elect()
    cluster.run(3000)
    cluster.isolate(first.local.id)
    cluster.run(1000)
    assert {node.epoch for node in cluster.nodes.values()} == {first.epoch}


def test_a_leader_that_only_one_finds_gone_keeps_the_others() -> None:
    """One whose way to the leader is refused disturbs nobody: the others deny it the pre-vote."""
    cluster = Cluster((1, 2, 3, 4, 5), elects_when_refused=True)
    first = cluster.elect()
    cluster.run(3000)
    lone = next(i for i in cluster.ids if i != first.local.id)
    cluster.refuse(lone, first.local.id)
    cluster.run(10_000)
    assert cluster.leader is first and first.epoch == cluster.nodes[lone].epoch


def test_it_grants_pre_votes_once_the_leaders_address_refuses() -> None:
    """Not where another address does, such as that of a voter that is asked who leads; not without the option."""
    for option, refused, granted in ((True, LEADER_ID, True), (True, OTHER_ID, False), (False, LEADER_ID, False)):
        node = follower(3, log=log_of(1, 1), elects_when_refused=option)  # Its turn is the second.
        assert isinstance(node.state, Follower)
        node.state.has_fetched_from_leader = True
        where = node.state.leader_endpoints[LISTENER] if refused == LEADER_ID else address(refused)
        node.connections._open[77] = Send(refused, where, 77, FetchRequest(), 2_000)
        node.on_refused(77, 100)
        ask = vote_request(1, OTHER_ID, (1, 2), pre_vote=True, voter_id=3)
        assert partition(answer(node.on_request(ask, 2, "ask", 110))).vote_granted is granted


def test_a_leader_that_is_back_counts_again() -> None:
    """It was refused for a moment; once it answers, its follower denies pre-votes as before."""
    cluster = Cluster(elects_when_refused=True)
    first = cluster.elect()
    cluster.run(3000)
    other = next(i for i in cluster.ids if i != first.local.id)
    follower = cluster.nodes[other].state
    assert isinstance(follower, Follower)
    follower.is_leader_gone = True
    cluster.run(3000)
    assert cluster.nodes[other].state is follower
    assert not follower.is_leader_gone


def test_a_follower_that_dies_and_comes_back_disturbs_nobody() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    other = next(i for i in cluster.ids if i != leader.local.id)
    log = cluster.kill(other)
    cluster.run(10_000)
    cluster.add(other, log)
    cluster.run(10_000)
    assert cluster.leader is leader


@LEVELS
def test_no_majority_no_leader(level: str) -> None:
    cluster = Cluster((1, 2, 3, 4, 5), level=level)
    cluster.isolate(1, 2)
    cluster.run(8000)
    assert not {1, 2} & {i for i, node in cluster.nodes.items() if node.state.name == "Leader"}
    assert cluster.leader is not None


@LEVELS
def test_a_voter_without_the_committed_records_is_not_elected(level: str) -> None:
    """However early it stands."""
    for seed in range(3):
        cluster = Cluster(seed=seed, level=level)
        leader = cluster.elect()
        behind = next(i for i in cluster.ids if i != leader.local.id)
        cluster.isolate(behind)
        end = cluster.append(b"x")
        assert cluster.run(3000, lambda: leader.high_watermark == end)  # noqa: B023
        cluster.heal()
        cluster.cut(leader.local.id, behind)  # It misses that record still.
        cluster.kill(leader.local.id)
        cluster.elect()
        assert not cluster.nodes[behind].quorum.taken[CANDIDATE, Event.ELECTION_WON, LEADER]
        assert cluster.run(3000, lambda: cluster.values(behind) == [b"x"])  # noqa: B023


@LEVELS
def test_a_clean_stop_hands_over_within_milliseconds(level: str) -> None:
    """EndQuorumEpoch: nobody waits for a time-out (KIP-595)."""
    cluster = Cluster(level=level)
    first = cluster.elect()
    cluster.perform(first.local.id, first.shutdown(cluster.now_ms))
    assert cluster.run(200, lambda: cluster.leader is not None and cluster.leader is not first)
    assert cluster.run(200, lambda: first.is_stopped), "it stops once it knows who leads instead"
    assert first.next_deadline_ms is None


def test_one_voter_of_3_9_among_three() -> None:
    """It knows no pre-votes: the others stand for election without them."""
    cluster = Cluster(())
    for node_id in (1, 2, 3):
        cluster.add(node_id, voters=(1, 2, 3), level="3.9" if node_id == 3 else "4.3")
    for _ in range(6):
        leader = cluster.elect()
        log = cluster.kill(leader.local.id)
        cluster.run(50)
        cluster.elect()
        cluster.add(leader.local.id, log, voters=(1, 2, 3), level=leader.config.level)
        cluster.elect()


# Scenarios of bugs.


@pytest.mark.covers("E1", "E5", "KIP-595 progress 2")
@pytest.mark.parametrize("seed", range(4))
def test_a_leader_in_a_minority_leads_no_more(seed: int) -> None:
    """KAFKA-15489 (E1): the leader progress time-out was forgotten until 3.7; such a leader was believed for ever."""
    cluster = Cluster((1, 2, 3, 4, 5), seed=seed)
    zombie = cluster.elect()
    cluster.isolate(zombie.local.id)
    cut_ms = cluster.now_ms
    assert cluster.run(20_000, lambda: zombie.state.name != "Leader")
    assert cluster.now_ms - cut_ms <= 3000 + 500, "one and a half times the fetch time-out, behind the last fetch"
    assert cluster.leaders[zombie.local.id][-1][0] == -1, "its state machine stops, too (E5)"
    assert cluster.run(10_000, lambda: cluster.leader is not None)
    cluster.heal()
    assert cluster.run(5000, cluster.is_led)
    assert zombie.state.name == "Follower"


@pytest.mark.covers("E2")
def test_a_restarted_leader_writes_in_another_epoch() -> None:
    """KAFKA-10527 (E2): a record that was lost in a crash, and another one at its offset in the same epoch."""
    cluster = Cluster()
    leader = cluster.elect()
    cluster.isolate(leader.local.id)
    cluster.append(b"lost")
    log = cluster.kill(leader.local.id)
    cluster.add(leader.local.id, log)
    assert cluster.nodes[leader.local.id].state.name == "Resigned"
    cluster.heal()
    again = cluster.elect()
    assert again.epoch > leader.epoch
    cluster.append(b"other")
    cluster.run(1000)
    assert {tuple(cluster.values(i)) for i in cluster.ids} == {(b"other",)}


@pytest.mark.covers("E5")
def test_a_state_machine_that_resigns_gets_another_leader_for_the_quorum() -> None:
    """KAFKA-13104 (E5): raft did not notice, and went on as the leader without a controller."""
    cluster = Cluster()
    first = cluster.elect()
    cluster.perform(first.local.id, first.resign(first.epoch, cluster.now_ms))
    assert first.state.name == "Resigned"
    second = cluster.elect(1000)
    assert second is not first


@pytest.mark.covers("E6")
def test_a_resigned_node_does_not_tell_its_state_machine_that_it_leads() -> None:
    """KAFKA-17333 (E6)."""
    cluster = Cluster()
    first = cluster.elect()
    first_id = first.local.id
    cluster.isolate(first_id)
    cluster.perform(first_id, first.resign(first.epoch, cluster.now_ms))
    since = len(cluster.leaders[first_id]) - 1
    assert cluster.leaders[first_id][since] == (-1, first.epoch)
    cluster.run(20_000)
    assert all(leader_id != first_id for leader_id, _ in cluster.leaders[first_id][since:])


@pytest.mark.covers("E7")
@LEVELS
def test_an_observer_is_never_a_candidate(level: str) -> None:
    """KAFKA-17067 (E7): an observer never stands, without a leader, after EndQuorumEpoch, or with a voter's id."""
    cluster = Cluster(level=level)
    cluster.add(9)
    cluster.add(3, voters=[voter(1), voter(2), voter(4)])  # It was a voter, as the others still think.
    cluster.elect()
    assert cluster.run(3000, lambda: cluster.nodes[9].state.name == "Follower")
    for node_id in (1, 2):
        cluster.kill(node_id)
    for _ in range(100):
        cluster.run(200)
        assert {cluster.nodes[9].state.name, cluster.nodes[3].state.name} <= {"Unattached", "Follower"}


@pytest.mark.covers("E22")
def test_a_removed_voter_that_missed_it_disturbs_nobody() -> None:
    """KAFKA-17030 (E22): it stands for election for ever; its pre-votes are denied, and the epoch stays."""
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(1000)
    epoch = leader.epoch
    cluster.network.cut(leader.local.id, 4)  # It has removed 4, and answers it no more; the log of 4 is as good as any.
    cluster.add(4, log_of(*[epoch] * 20), voters=(1, 2, 3, 4), fetch_timeout_ms=500)
    cluster.run(10_000)
    assert cluster.nodes[4].quorum.taken[PROSPECTIVE, Event.PRE_VOTE_LOST, FOLLOWER] > 0
    assert cluster.leader is leader
    assert leader.epoch == epoch


@pytest.mark.covers("E23")
@LEVELS
@pytest.mark.parametrize("seed", range(4))
def test_no_deadline_is_in_the_past(level: str, seed: int) -> None:
    """KAFKA-17751 (E23): a timer that was not set anew made a follower spin at 100% CPU.

    Through elections, cuts, deaths and a clean stop, every node that has done what was due sleeps at least 1 ms, which
    is checked in every test with a `Cluster`.
    """
    cluster = Cluster(seed=seed, level=level)
    cluster.add(9)
    leader = cluster.elect()
    cluster.isolate(leader.local.id)
    cluster.run(9000)
    cluster.heal()
    again = cluster.elect()
    cluster.append(b"x")
    cluster.kill(again.local.id)
    third = cluster.elect()
    cluster.perform(third.local.id, third.shutdown(cluster.now_ms))
    cluster.run(9000)
    assert cluster.count < 20_000


@pytest.mark.covers("E28")
def test_no_epochs_go_by_without_a_majority() -> None:
    """bitnami/charts 20403 (E28): Unattached to Unattached for ever, epoch +1 every half second, no leader.

    Pre-votes first: an epoch is used only by an election that can be won (KIP-996).
    """
    cluster = Cluster()
    cluster.kill(2)
    cluster.kill(3)
    cluster.run(60_000)
    assert cluster.nodes[1].epoch == 0
    assert cluster.count < 60_000
    cluster.add(2)
    assert cluster.elect(5000).epoch <= 3


@pytest.mark.covers("E28")
@LEVELS
@pytest.mark.parametrize("seed", range(8))
def test_jitter_ends_split_votes(level: str, seed: int) -> None:
    """Five that all begin at once agree within a few time-outs."""
    cluster = Cluster((1, 2, 3, 4, 5), seed=seed, level=level)
    assert cluster.elect(8000).epoch <= 6


@pytest.mark.covers("E24")
def test_a_clean_stop_in_a_quorum_of_five_elects_within_the_longest_back_off() -> None:
    """KAFKA-20895 (E24), as 4.3.1 is: the first successor's pre-vote is denied, and the next leader takes longer.

    It is elected within the longest back-off and an election, as the others' fetch time-outs were cut, too.
    """
    cluster = Cluster((1, 2, 3, 4, 5))
    first = cluster.elect()
    cluster.run(2000)
    cluster.perform(first.local.id, first.shutdown(cluster.now_ms))
    assert cluster.run(3000, lambda: cluster.leader is not None and cluster.leader is not first)


@pytest.mark.covers("E24")
@pytest.mark.parametrize("count", [5, 7])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_successor_is_elected_at_once(count: int, seed: int) -> None:
    """KAFKA-20895 (E24): with the option, since all who follow know that the leader resigned; without, it loses."""
    for option in (False, True):
        cluster = Cluster(range(1, count + 1), seed=seed, pre_votes_after_resignation=option)
        first = cluster.elect()
        cluster.run(2000)
        preferred, epoch, began_ms = first.leading.successors()[0].id, first.epoch, cluster.now_ms
        cluster.perform(first.local.id, first.shutdown(cluster.now_ms))
        assert cluster.run(3000, lambda: cluster.leader not in (None, first))  # noqa: B023
        assert cluster.leader is not None and cluster.leader.epoch == epoch + 1
        ways = (cluster.now_ms - began_ms) // cluster.delay_ms
        if option:
            assert cluster.leader.local.id == preferred
            assert ways == 5, "a good-bye; a pre-vote and its answer; a vote and its answer"
        else:
            assert cluster.leader.local.id != preferred
            assert ways > 5, "an election is lost, and the others' back-offs come before the next"


@pytest.mark.covers("E24")
def test_a_leader_that_does_not_resign_keeps_its_followers() -> None:
    """The option is about EndQuorumEpoch alone: who is cut off still disturbs nobody (KIP-996)."""
    cluster = Cluster((1, 2, 3, 4, 5), pre_votes_after_resignation=True)
    first = cluster.elect()
    cluster.run(2000)
    alone = next(i for i in cluster.ids if i != first.local.id)
    cluster.cut(first.local.id, alone)
    cluster.run(20_000)
    assert cluster.leader is first and first.epoch == cluster.nodes[alone].epoch
