"""Whatever decodes may come, from anyone: it is answered, nothing is raised, and no vote is given twice."""

import random
from typing import Any

import pytest

from kcore.raft.effects import Effect, SendResponse
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.raft.node import RaftNode
from kcore.schema.raft_votes import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from raft.nodes import (
    begin_request,
    directory,
    end_request,
    epoch_response,
    log_of,
    of,
    partition,
    sent,
    started,
    stored,
    vote_request,
    vote_response,
)

ERRORS = (0, 0, 0, 0, 6, 8, 42, 74, 75, 104, 125, -1, 999)


def any_request(dice: random.Random, epoch: int) -> Any:
    """Around the node's own epoch, from ids that are voters and that are not."""
    epoch += dice.choice((-1, 0, 0, 0, 1, 1, 2))
    who = dice.choice((-1, 1, 2, 2, 3, 3, 9))
    kind = dice.randrange(4)
    if kind < 2:
        last = (dice.randrange(-1, 3), dice.randrange(-1, 5))
        return vote_request(epoch, who, last, pre_vote=kind == 0, voter_id=dice.choice((-1, 1, 1, 1, 2)))
    if kind == 2:
        return begin_request(epoch, who, dice.choice((-1, 1, 1, 2)), endpoints=dice.random() < 0.8)
    return end_request(epoch, who, [ReplicaKey(i, directory(i)) for i in dice.sample((1, 2, 3, 9), dice.randrange(4))])


def any_response(dice: random.Random, epoch: int, request: Any) -> Any:
    epoch, who, error = epoch + dice.choice((-1, 0, 0, 0, 0, 1)), dice.choice((-1, -1, 1, 2, 3, 9)), dice.choice(ERRORS)
    if isinstance(request, VoteRequest):
        return dice.choice((None, VoteResponse(), vote_response(epoch, dice.random() < 0.6, who, error)))
    if isinstance(request, BeginQuorumEpochRequest):
        return dice.choice((None, epoch_response(BeginQuorumEpochResponse, epoch, who, error)))
    if isinstance(request, EndQuorumEpochRequest):
        return dice.choice((None, epoch_response(EndQuorumEpochResponse, epoch, who, error)))
    return None


class Watch:
    """The invariants that a node must keep under any input."""

    def __init__(self, node: RaftNode) -> None:
        self.node, self.epoch = node, node.epoch
        self.votes: dict[int, ReplicaKey] = {}
        self.leaders: dict[int, int] = {}

    def check(self, effects: list[Effect]) -> None:
        for election in stored(effects):
            assert election.epoch >= self.epoch, "an epoch never goes back"
            self.epoch = election.epoch
            if election.voted is not None:
                assert self.votes.setdefault(election.epoch, election.voted) == election.voted, "one vote an epoch"
            if election.leader_id >= 0:
                assert self.leaders.setdefault(election.epoch, election.leader_id) == election.leader_id
        assert self.node.epoch == self.epoch, "what it goes by is stored"


@pytest.mark.parametrize("level", ["4.3", "3.9"])
@pytest.mark.parametrize("seed", range(4))
def test_anything_may_come(seed: int, level: str) -> None:
    dice = random.Random(seed)
    node, effects = started(election=ElectionState(1), log=log_of(0, 1), level=level, jitter=dice.randrange(900))
    watch = Watch(node)
    watch.check(effects)
    open_sends, now_ms = sent(effects, object), 0
    for number in range(1500):
        now_ms += dice.choice((0, 1, 5, 50, 300))
        what = dice.randrange(3)
        if what == 0:
            effects = node.on_timer(now_ms)
        elif what == 1 and open_sends:
            send = open_sends.pop(dice.randrange(len(open_sends)))
            effects = node.on_response(send.correlation_id, any_response(dice, node.epoch, send.request), now_ms)
        else:
            effects = node.on_request(any_request(dice, node.epoch), 1, number, now_ms)
            assert [answer.reply_to for answer in of(SendResponse, effects)] == [number]
        watch.check(effects)
        open_sends = [*open_sends, *sent(effects, object)][-20:]
    assert node.epoch > 10
    assert len(node.quorum.taken) >= 8


@pytest.mark.parametrize("kind", [VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_other_partitions_beside_the_right_one(kind: type[Any]) -> None:
    """One topic, one partition: else it is no request of a quorum."""
    node, _ = started()
    whole = {VoteRequest: vote_request(1), BeginQuorumEpochRequest: begin_request(1)}.get(kind, end_request(1))
    whole.topics[0].partitions.append(partition(whole))
    (answer,) = of(SendResponse, node.on_request(whole, 1, "a", 0))
    assert answer.response.error_code == 42  # type: ignore[attr-defined]
    whole.topics[0].partitions.pop()
    whole.topics.append(whole.topics[0])
    (answer,) = of(SendResponse, node.on_request(whole, 1, "b", 0))
    assert answer.response.error_code == 42  # type: ignore[attr-defined]
