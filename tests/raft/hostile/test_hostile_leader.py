"""Whatever decodes may come from a leader: nothing is raised, what is committed stays, the log can be loaded.

And whatever is asked of a leader is answered once, and leaves a log that can be loaded.
"""

import random
from typing import Any

import pytest

from kcore.errors import NewerReleaseError
from kcore.raft.effects import Effect, Flush, SendResponse, SnapshotLoaded
from kcore.raft.membership.replicas import ElectionState
from kcore.raft.membership.voters import VoterSet
from kcore.raft.node import RaftNode
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.types import Uuid
from raft.batches import batch, snapshot_batches
from raft.log.test_control_records import BAD, GOOD, KRAFT_VOTERS, NEWER, messages, records, voters
from raft.log.test_snapshots import piece, snapshot_request
from raft.nodes import begin_request, directory, end_request, of, raft_node, sent, stored
from raft.replication import dynamic_leader, dynamic_log, dynamic_voters, fetch_request, fetch_response, flush
from raft.voter_requests import add_request, remove_request, update_request

MAKES = [
    *BAD.values(),
    *NEWER.values(),
    messages(voters(1, 2)),
    messages(voters(1, 2, 3, 4)),
    records((KRAFT_VOTERS, GOOD)),
]


def any_records(dice: random.Random, end_offset: int, epoch: int) -> bytes:
    """Batches that mostly go on from the end of the log, of this epoch, and whole."""
    data = b""
    for _ in range(dice.randrange(1, 4)):
        offset = end_offset + dice.choice((0, 0, 0, 0, 0, 0, 1, -1))
        if dice.random() < 0.3:
            made = dice.choice(MAKES)(max(offset, 0))
        else:
            made = batch(max(offset, 0), 1, dice.randrange(1, 4))
        made = made[:12] + max(0, epoch + dice.choice((0, 0, 0, 0, -1, 1))).to_bytes(4) + made[16:]
        if dice.random() < 0.1:
            at = dice.randrange(len(made))
            made = made[:at] + bytes([made[at] ^ 1 << dice.randrange(8)]) + made[at + 1 :]
        data += made
        end_offset = offset + 1
    return data[: len(data) if dice.random() < 0.9 else dice.randrange(len(data))]


def any_end(dice: random.Random, node: RaftNode) -> tuple[int, int]:
    offset = node.log.end_offset + dice.randrange(-6, 8)
    return dice.choice((offset, offset, -1, 0, 2**63 - 1)), dice.choice((node.epoch, node.epoch, 0, 1, -1, 2**31 - 1))


def any_fetch_response(dice: random.Random, node: RaftNode) -> Any:
    leader_id = dice.choice((2, 2, 2, 2, 3, -1, 1, 9))
    epoch = max(0, node.epoch + dice.choice((0, 0, 0, 0, 0, 0, 1, -1)))
    error = dice.choice((0, 0, 0, 0, 0, 6, 8, 74, 75, 42, 999))
    kind = dice.randrange(6)
    if kind == 0:
        return fetch_response(b"", epoch, leader_id, error=error, diverging=any_end(dice, node))
    if kind == 1:
        sound = node.log.end_offset + dice.randrange(1, 9), node.epoch
        end = sound if dice.random() < 0.6 else any_end(dice, node)
        return fetch_response(b"", epoch, leader_id, error=error, snapshot_id=end)
    high_watermark = node.log.end_offset + dice.randrange(-3, 4)
    data = any_records(dice, node.log.end_offset, node.epoch)
    return fetch_response(data, epoch, leader_id, error=error, high_watermark=high_watermark)


def any_piece(dice: random.Random, request: Any, epoch: int) -> Any:
    """Mostly of a snapshot that can be loaded."""
    asked = request.topics[0].partitions[0]
    end = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    header, *rest = snapshot_batches(1, [b"a" * 50], 0, 1, VoterSet.of(dynamic_voters(1, 2, 3)), 0)
    data = header + (dice.choice(MAKES)(3) if dice.random() < 0.1 else b"") + b"".join(rest)
    position = asked.position + (dice.random() < 0.05)
    size = dice.choice((20, 1000, 1000))
    total = len(data) + (dice.choice((1, -1)) if dice.random() < 0.05 else 0)
    return piece(
        data[position : position + size], position, total, end, epoch=epoch, error=98 if dice.random() < 0.05 else 0
    )


def follow(dice: random.Random, node: RaftNode, open_sends: list[Any], number: int, now_ms: int) -> list[Effect]:
    """One event of a follower."""
    what = dice.randrange(8)
    if what == 1 or (what > 4 and node.state.name != "Follower"):
        epoch = node.epoch + dice.choice((0, 0, 0, 0, 1))
        request = dice.choice((begin_request, end_request))(epoch, dice.choice((2, 2, 2, 3)))
        return node.on_request(request, 1, number, now_ms)
    if what == 0 or not open_sends:
        return node.on_timer(now_ms)
    send = open_sends.pop()
    if isinstance(send.request, FetchRequest):
        return node.on_response(send.correlation_id, any_fetch_response(dice, node), now_ms)
    if isinstance(send.request, FetchSnapshotRequest):
        return node.on_response(send.correlation_id, any_piece(dice, send.request, node.epoch), now_ms)
    return node.on_response(send.correlation_id, None, now_ms)


def restarted(node: RaftNode, election: ElectionState | None, now_ms: int) -> tuple[RaftNode, list[Effect]]:
    again = raft_node(voters=(), log=node.log)
    return again, again.start(election, now_ms)


def test_anything_may_come_from_a_leader() -> None:
    found = [followed(seed) for seed in range(12)]
    assert sum(newer for newer, _ in found) > 12, "nodes that ended over what a newer release wrote"
    assert sum(loaded for _, loaded in found) > 12, "snapshots"


def followed(seed: int) -> tuple[int, int]:
    """One follower's story: how often it ended over what a newer release wrote, and how many snapshots it loaded."""
    dice = random.Random(f"leader {seed}")
    node, effects = restarted(raft_node(log=dynamic_log(*dynamic_voters(1, 2, 3))), None, 0)
    election: ElectionState | None = None
    open_sends: list[Any] = []
    pending: list[Flush] = []
    committed, newer, loaded, now_ms = 0, 0, 0, 0
    for number in range(1500):
        now_ms += dice.choice((0, 1, 20, 100))
        election = [election, *stored(effects)][-1]
        open_sends = [*open_sends, *sent(effects, object)][-5:]
        pending += of(Flush, effects)
        try:
            effects = follow(dice, node, open_sends, number, now_ms)
        except NewerReleaseError:  # The process ends, and starts again on what it has stored.
            newer += 1
            node, effects = restarted(node, election, now_ms)
            open_sends, pending, committed = [], [], node.log.high_watermark
            continue
        if pending and dice.random() < 0.6:
            effects += node.on_flushed(pending.pop(), now_ms)
        loaded += len(of(SnapshotLoaded, effects))
        assert node.log.high_watermark >= committed, seed
        committed = node.log.high_watermark
        assert node.log.last_epoch <= node.epoch, seed
    restarted(node, election, now_ms)
    return newer, loaded


def any_request(dice: random.Random, node: RaftNode) -> tuple[Any, int]:
    who = dice.choice((-1, 1, 2, 3, 4, 7, 2**31 - 1))
    key = dice.choice((directory(2), directory(3), directory(who % 100), Uuid()))
    epoch = node.epoch + dice.choice((0, 0, 0, 0, 1, -1))
    kind = dice.randrange(7)
    if kind < 3:
        offset, last = any_end(dice, node)
        wait_ms = dice.choice((0, 500, 2**31 - 1, -1))
        size = dice.choice((0, -1, 1 << 20, 2**31 - 1))
        asked = fetch_request(
            offset, last, epoch, who, directory_id=key, high_watermark=-1, max_wait_ms=wait_ms, max_bytes=size
        )
        return asked, dice.choice((12, 13, 17, 18))
    if kind == 3:
        end = OffsetAndEpoch(*any_end(dice, node))
        return snapshot_request(dice.randrange(-1, 9), epoch, end, replica=abs(who) % 100, max_bytes=1), 1
    if kind == 4:
        return add_request(who % 100, voter_directory_id=key, ack_when_committed=dice.random() < 0.5), 1
    if kind == 5:
        return remove_request(who, key), 0
    return update_request(who % 100, epoch, dice.choice((0, -1, 2)), dice.choice((0, 1, 9)), voter_directory_id=key), 0


@pytest.mark.parametrize("seed", range(6))
def test_anything_may_be_asked_of_a_leader(seed: int) -> None:
    dice = random.Random(f"asked {seed}")
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    waiting: set[int] = set()
    now_ms = 1000
    for number in range(1500):
        now_ms += dice.choice((0, 0, 1, 10))
        asked, version = any_request(dice, node)
        waiting.add(number)
        effects = node.on_request(asked, version, number, now_ms)
        effects += flush(node, effects, now_ms)
        for send in sent(effects, object):
            effects += node.on_response(send.correlation_id, None, now_ms)
        for answer in of(SendResponse, effects):
            assert answer.reply_to in waiting, "answered once"
            waiting.remove(answer.reply_to)  # type: ignore[arg-type]
        if node.state.name != "Leader":
            break
    for _ in range(3):
        now_ms += 3000
        waiting -= {answer.reply_to for answer in of(SendResponse, node.on_timer(now_ms))}  # type: ignore[misc]
    assert waiting == set()
    raft_node(voters=(), log=node.log).start(None, now_ms)
