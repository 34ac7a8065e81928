"""Three kcore voters under load, and kill -9 of one, two or all of them at seeded random moments.

A round kills a few, each of which starts again at once, and waits until more is committed. Meanwhile an observer keeps
the committed records, and the test asks the leader for its high watermark. At the end no committed record is lost, no
node has voted for two candidates in an epoch, and no epoch had two leaders. `ci/chaos-raft --help` runs it by hand.
"""

import argparse
import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random

import numpy as np

from kcore.errors import KcoreError
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.server.quorum_node.describe import describe_quorum
from kcore.storage.log.partition_folder import segment_files
from kcore.wire.record_batch import RecordBatches, scan_batches
from oracle.chaos.kraft_kills import shown_at_failure
from oracle.kafka_tools import RELEASE
from oracle.observer import Observer
from oracle.raft_quorums import Member, RaftQuorum

QUICK = ("election.timeout.ms=400", "fetch.timeout.ms=800", "election.backoff.max.ms=300")
OPTIONS = tuple(word for line in QUICK for word in ("--config", f"controller.quorum.{line}"))
LOAD = ("--append", "400", "--record-bytes", "100")
POLL_S = 0.1
WHOLE_S = 120.0
STORED = re.compile(r"INFO epoch (\d+) is stored: leader (?:unknown|(\d+)), voted for (?:nobody|(\d+))")
FAULT = re.compile(r"^(?:Traceback|.* (?:ERROR|CRITICAL) ).*", re.MULTILINE)


@dataclass
class Story:
    """The events so far."""

    seed: int
    kills: int = 0
    rounds: int = 0
    longest_s: float = 0.0  # From a round's last kill to the next commit.
    reported: list[tuple[int, int]] = field(default_factory=list)  # High watermarks, and the epochs of their leaders.


class Watch(Observer):
    """An observer, and questions to the leader."""

    def __init__(self, quorum: RaftQuorum, story: Story) -> None:
        self._addresses = [Address("127.0.0.1", node.port) for node in quorum.voters]
        self._story = story
        voters = [
            Voter(ReplicaKey(node.node_id), {"CONTROLLER": address})
            for node, address in zip(quorum.voters, self._addresses, strict=True)
        ]
        super().__init__(quorum.cluster_id, Random(story.seed), voters=voters)

    async def ask(self) -> None:
        """Until it is cancelled."""
        while True:
            with suppress(KcoreError):
                asking = describe_quorum(self._addresses, controllers=True, timeout_s=2.0, random=Random())
                partition = (await asking).partition
                self._story.reported.append((partition.high_watermark, partition.leader_epoch))
            await asyncio.sleep(POLL_S)

    async def await_more(self, than: int) -> None:
        end = time.monotonic() + WHOLE_S
        while self.committed <= than:
            assert time.monotonic() < end, f"nothing was committed behind {than} in {WHOLE_S} s"
            self.check_server()
            await asyncio.sleep(0.02)


@asynccontextmanager
async def watching(quorum: RaftQuorum, story: Story) -> AsyncIterator[Watch]:
    watch = Watch(quorum, story)
    async with watch.server:
        asking = asyncio.create_task(watch.ask())
        try:
            yield watch
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def play(quorum: RaftQuorum, story: Story, kills: int, say: bool = False) -> Watch:
    """So many, in rounds."""
    dice = Random(story.seed)
    async with watching(quorum, story) as watch:
        await watch.await_more(0)
        while story.kills < kills:
            for node in dice.choices(quorum.voters, k=dice.choice((1, 1, 2, 3))):
                await asyncio.sleep(dice.random() ** 2)
                node.kill()
                node.start(wait=False)
                story.kills += 1
            story.rounds += 1
            begin, before = time.monotonic(), watch.log.end_offset
            await watch.await_more(before)
            story.longest_s = max(story.longest_s, time.monotonic() - begin)
            if say:
                print(f"{story.kills} kills, {watch.committed} records committed", flush=True)
        return watch


def log_of(node: Member) -> bytes:
    return b"".join(path.read_bytes() for path in segment_files(node.log_folder))


def check(quorum: RaftQuorum, story: Story, watch: Watch) -> None:
    """After the end of all nodes."""
    logs = [log_of(node) for node in quorum.voters]
    last = max(logs, key=_end_of)  # The one that would win an election.
    for log in logs:
        _check_matching(log, last)
    kept = watch.log.read(0, 1 << 62, watch.committed)
    assert last.startswith(kept), "a committed record is lost"
    batches = scan_batches(last)
    for high_watermark, epoch in story.reported:
        if high_watermark > 0:
            assert _epoch_at(batches, high_watermark - 1) <= epoch, f"offset {high_watermark - 1} of {epoch} is lost"
    leaders = defaultdict[int, set[str]](set)
    for node in quorum.voters:
        said = node.log.read_text()
        if (fault := FAULT.search(said)) is not None:
            raise AssertionError(f"{node.name}: {said[fault.start() :][:3000]}")
        votes = defaultdict[int, set[str]](set)
        for epoch, leader, voted in STORED.findall(said):
            votes[int(epoch)] |= {voted} - {""}
            leaders[int(epoch)] |= {leader} - {""}
        assert all(len(each) <= 1 for each in votes.values()), f"{node.name} voted twice: {votes}"
    assert all(len(each) <= 1 for each in leaders.values()), f"an epoch with two leaders: {leaders}"
    assert max(leaders) >= story.rounds / 4, "there were hardly any elections"


def _end_of(log: bytes) -> tuple[int, int]:
    """Epoch and offset of the last record."""
    batches = scan_batches(log)
    return int(batches.partition_leader_epoch[-1]), int(batches.last_offset[-1])


def _check_matching(one: bytes, other: bytes) -> None:
    """Where two logs have a batch of the same offset and epoch, all before it is the same (Raft's Log Matching).

    A tail that no majority has may be of another epoch.
    """
    size = min(len(one), len(other))
    different = np.frombuffer(one, np.uint8, size) != np.frombuffer(other, np.uint8, size)
    same = int(different.argmax()) if different.any() else size
    tails = []
    for log in (one, other):
        batches = scan_batches(log)
        tail = batches.take(batches.position + batches.size > same)
        tails.append({*zip(tail.last_offset.tolist(), tail.partition_leader_epoch.tolist(), strict=True)})
    assert not tails[0] & tails[1], f"two logs differ before {min(tails[0] & tails[1])}"


def _epoch_at(batches: RecordBatches, offset: int) -> int:
    """The epoch of the batch that holds the offset; AssertionError if none does."""
    row = int(batches.last_offset.searchsorted(offset))
    assert row < len(batches), f"offset {offset} is lost"
    return int(batches.partition_leader_epoch[row])


def run(seed: int, kills: int, say: bool = False) -> Story:
    """The whole; an assertion tells what went wrong, and the nodes' logs are printed then."""
    story = Story(seed)
    with RaftQuorum(RELEASE, real=0, kcore=3, options=(*OPTIONS, *LOAD)) as quorum, shown_at_failure(quorum.voters):
        watch = asyncio.run(play(quorum, story, kills, say))
        quorum.stop(*quorum.voters)
        check(quorum, story, watch)
    return story


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    story = run(given.seed, given.kills, say=True)
    print(
        f"good: seed {story.seed}, {story.kills} kills in {story.rounds} rounds; nothing lost, no vote twice;", end=" "
    )
    print(f"{len(story.reported)} high watermarks reported; {story.longest_s:.1f} s the longest without a commit")


if __name__ == "__main__":
    main()
