"""kcore as a voter beside real controllers: 3.9.1 with static voters, 4.4.0 with those that the log names (KIP-853)."""

import time
from collections.abc import Iterator

import pytest

from oracle.raft_quorums import Member, RaftQuorum, until

# A real leader that is left alone leads on for six seconds. It appends a no-op twice a second.
PATIENT = "controller.quorum.fetch.timeout.ms=4000\n"
NO_OPS = ("--append", "40", "--record-bytes", "64")  # kcore appends no-ops, too, while it leads.
SEGMENT = "00000000000000000000.log"


@pytest.fixture(params=[("3.9.1", False), ("4.4.0", True)], ids=str)
def quorum(request: pytest.FixtureRequest) -> Iterator[RaftQuorum]:
    release, dynamic = request.param
    made = RaftQuorum(release, real=2, kcore=1, dynamic=dynamic, properties=PATIENT, options=NO_OPS)
    with made as started:
        yield started


def log_of(node: Member) -> bytes:
    return (node.log_folder / SEGMENT).read_bytes()


def assert_one_log(quorum: RaftQuorum) -> None:
    """After a clean stop of all: what is there of one is there of the others, up to the shortest."""
    quorum.stop(*quorum.voters)
    logs = [log_of(node) for node in quorum.voters]
    shortest = min(map(len, logs))
    assert shortest > 0
    assert len({log[:shortest] for log in logs}) == 1


def test_kill_9_of_any_one_node(quorum: RaftQuorum) -> None:
    """Each in turn: the others go on and commit, and it catches up when it is back."""
    quorum.leader()
    for node in quorum.voters:
        quorum.await_progress(*quorum.voters)
        node.kill()
        quorum.leader(*(each for each in quorum.voters if each is not node))
        quorum.await_progress()
        node.start()
    quorum.await_progress(*quorum.voters)
    assert_one_log(quorum)


def elect_real(quorum: RaftQuorum, kcore: Member) -> Member:
    """A real node leads, and kcore's follows it."""
    if quorum.leader() is kcore:
        kcore.terminate()
        quorum.leader(*quorum.real)
        kcore.start()
        quorum.await_progress(*quorum.voters)
    return quorum.leader(*quorum.real)


def get_ahead(quorum: RaftQuorum) -> tuple[Member, Member]:
    """A real leader, and another real node that is paused, so that kcore's log is longer: only kcore can come next."""
    [kcore] = quorum.kcore
    quorum.await_progress(*quorum.voters)
    leader = elect_real(quorum, kcore)
    [other] = [each for each in quorum.real if each is not leader]
    other.pause()
    for _ in range(2):  # One may be on its way to the paused node already.
        quorum.await_progress(kcore)
    return leader, other


def elect_kcore(quorum: RaftQuorum) -> Member:
    """It leads, and the others follow."""
    [kcore] = quorum.kcore
    leader, other = get_ahead(quorum)
    leader.kill()
    other.resume()
    quorum.leader(kcore)
    leader.start()
    return kcore


def test_kcore_leads_real_nodes(quorum: RaftQuorum) -> None:
    """They fetch from it and follow its epoch; what it appends is committed by them; then it hands over."""
    kcore = elect_kcore(quorum)
    end_offset = quorum.await_progress(*quorum.voters)
    quorum.await_committed(end_offset + 100, *quorum.voters)
    epoch = quorum.described().leader_epoch
    assert quorum.leader() is kcore
    kcore.terminate()
    real = quorum.leader(*quorum.real)
    assert quorum.described().leader_epoch > epoch
    quorum.await_progress(*quorum.real)
    kcore.start()
    quorum.await_progress(*quorum.voters)
    assert "cannot go on" not in kcore.log_text()
    assert real.is_running
    assert_one_log(quorum)


@pytest.mark.covers("KIP-595 fetch 3")
def test_a_real_leaders_tail_is_cut_to_kcores_log(quorum: RaftQuorum) -> None:
    """A leader that comes back as a follower of kcore drops the records that nobody fetched."""
    [kcore] = quorum.kcore
    leader, other = get_ahead(quorum)
    kcore.pause()
    time.sleep(2)
    leader.kill()
    tail = log_of(leader)
    kcore.resume()
    other.resume()
    quorum.leader(kcore)
    quorum.await_progress(kcore, other)
    kept = log_of(kcore)
    common = next((at for at, (one, two) in enumerate(zip(tail, kept, strict=False)) if one != two), len(kept))
    assert common < len(tail), "it had written nothing that kcore has not"
    leader.start()
    quorum.await_progress(*quorum.voters)
    assert_one_log(quorum)


@pytest.mark.covers("KIP-595 fetch response 2")
def test_kcores_tail_is_cut_to_a_real_leaders_log(quorum: RaftQuorum) -> None:
    kcore = elect_kcore(quorum)
    quorum.await_progress(*quorum.voters)
    for each in quorum.real:
        each.pause()
    time.sleep(0.2)
    before = len(log_of(kcore))
    until(lambda: len(log_of(kcore)) > before + 300, lambda: "it appends nothing", 2)
    kcore.kill()
    tail = log_of(kcore)
    for each in quorum.real:
        each.resume()
    real = quorum.leader(*quorum.real)
    quorum.await_progress(*quorum.real)
    assert not log_of(real).startswith(tail)
    kcore.start()
    quorum.await_progress(*quorum.voters)
    assert_one_log(quorum)
