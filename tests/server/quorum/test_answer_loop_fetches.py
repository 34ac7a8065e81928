"""The answer loop answers fetches as the plain server does, and only while the node allows it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.raft.effects import Effect
from kcore.raft.log.batches import end_offset_of
from kcore.raft.membership import voter_changes
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.membership.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema import describe_quorum
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.server.quorum_node.snapshot_writing import write_snapshot
from kcore.storage.log.segmented_log import Settings
from kcore.types import Uuid
from net.loops import story, until
from server.compiled_leader import adopted, catch_up, counters, following, leader, loop_of, metrics, waits
from server.observers import NO_HIGH_WATERMARK, observer
from server.quorum_nodes import append


@pytest.mark.parametrize("version", [13, 15, 17, 18])
@story
async def test_an_observer_is_adopted_once_it_has_all_and_gets_what_is_committed(tmp_path: Path, version: int) -> None:
    async with leader(tmp_path) as server, following(server, version=version) as made:
        before = metrics(server).requests
        answer = await waits(server, made, version)
        append(server, [b"one", b"two"])
        data = await answer
        assert (data.error_code, made.offset) == (0, server.node.log.end_offset)
        assert made.records.endswith(
            server.node.log.read(server.node.log.end_offset - 1, 1, server.node.log.end_offset)
        )
        assert data.high_watermark == server.node.high_watermark
        assert counters(server)["fetches"] >= 1 and adopted(server) == 1
        assert metrics(server).requests > before


@story
async def test_the_plain_front_adopts_nobody(tmp_path: Path) -> None:
    async with leader(tmp_path, "plain") as server, observer(server.port, epoch=server.node.epoch) as made:
        while made.offset < server.node.log.end_offset:
            await made.fetch(max_wait_ms=1)
        await made.fetch(max_wait_ms=1)
        assert adopted(server) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"max_wait_ms": 0},
        {"cluster_id": None, "current_leader_epoch": 0},
        {"high_watermark": NO_HIGH_WATERMARK},
        {"log_start_offset": 0},
        {"max_bytes": -1},
    ],
    ids=str,
)
@story
async def test_what_the_loop_does_not_know_stays_here(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The last two: an option of kcore's nodes, and what makes no sense."""
    async with leader(tmp_path) as server, observer(server.port, epoch=server.node.epoch) as made:
        while made.offset < server.node.log.end_offset:
            await made.fetch(**{"max_wait_ms": 1} | changes)
            if "current_leader_epoch" in changes:
                break
        await made.fetch(**{"max_wait_ms": 1} | changes)
        assert adopted(server) == 0


@story
async def test_the_early_high_watermark_is_the_nodes_affair(tmp_path: Path) -> None:
    async with leader(tmp_path, early_high_watermark=True) as server, observer(server.port, epoch=1) as made:
        made.epoch = server.node.epoch
        for _ in range(3):
            await made.fetch(17, max_wait_ms=1)
        assert adopted(server) == 0


@story
async def test_a_request_of_another_kind_is_answered_by_the_server(tmp_path: Path) -> None:
    """Also one that comes in the same packet behind a fetch that is not answered yet."""
    async with leader(tmp_path) as server, following(server) as made:
        answer = await waits(server, made)
        made.writer.write(made.fetch_frame(current_leader_epoch=made.epoch + 1) + made.fetch_frame(max_wait_ms=0))
        append(server, [b"new"])
        codes = [(await answer).error_code, *[(await made.answer()).error_code for _ in range(2)]]
        assert codes == [0, Errors.UNKNOWN_LEADER_EPOCH, 0]
        assert adopted(server) == 0


@pytest.mark.parametrize("by_a_newer_epoch", [False, True])
@story
async def test_a_waiting_fetch_is_answered_when_the_leader_resigns(tmp_path: Path, by_a_newer_epoch: bool) -> None:
    """In the words of the epoch that it fetched in, as the node tells those that wait there (`leading.end`)."""
    async with leader(tmp_path) as server, following(server) as one, following(server, 101, 17) as other:
        waiting = [await waits(server, made, version) for made, version in ((one, 18), (other, 17))]
        node, epoch = server.node, server.node.epoch

        def ends(now_ms: int) -> list[Effect]:
            if not by_a_newer_epoch:
                return node.resign(epoch, now_ms)
            node.quorum.become_unattached(epoch + 1, now_ms)
            return node.on_timer(now_ms)

        server.runtime.take("test", ends)
        for answer in waiting:
            data = await answer
            assert Errors(data.error_code) is Errors.NOT_LEADER_OR_FOLLOWER
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, epoch)
        assert adopted(server) == 0


@story
async def test_an_epoch_that_has_ended_is_answered_by_the_node(tmp_path: Path) -> None:
    """Nobody is owed an answer who did not wait; under the next epoch the observer is adopted again."""
    async with leader(tmp_path) as server, following(server) as made:
        epoch = server.node.epoch
        server.runtime.take("test", lambda now_ms: server.node.resign(epoch, now_ms))
        await until(lambda: server.node.epoch > epoch and server.node.leads and server.node.high_watermark)
        await until(lambda: server.runtime._machine._machine.led_epoch == server.node.epoch)  # type: ignore[union-attr]
        data = await made.fetch()
        assert Errors(data.error_code) is Errors.FENCED_LEADER_EPOCH
        made.epoch = server.node.epoch
        await catch_up(server, made)
        assert adopted(server) == 1


def describe_request() -> DescribeQuorumRequest:
    topic = describe_quorum.DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata",
        partitions=[describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    return DescribeQuorumRequest(topics=[topic])


@story
async def test_describe_quorum_knows_what_the_loop_knows(tmp_path: Path) -> None:
    """The same of an observer that the loop has, and of one that it has not: end, last fetch and when it had all."""
    async with leader(tmp_path) as server, following(server, 100) as one, observer(server.port, 101) as other:
        other.epoch = server.node.epoch
        answer = await waits(server, one)
        append(server, [b"new"])
        await answer
        while other.offset < server.node.log.end_offset:
            await other.fetch(max_wait_ms=0)
        answer = await waits(server, one)
        await other.fetch(max_wait_ms=0)
        async with await connect("127.0.0.1", server.port) as admin:
            response = await admin.send(describe_request())
        found = {each.replica_id: each for each in response.topics[0].partitions[0].observers}
        assert found[100].log_end_offset == found[101].log_end_offset == server.node.log.end_offset
        assert 0 <= found[101].last_fetch_timestamp - found[100].last_fetch_timestamp < 60_000
        assert found[100].last_caught_up_timestamp == found[100].last_fetch_timestamp
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)


@story
async def test_what_an_observer_has_is_not_older_than_its_last_fetch(tmp_path: Path) -> None:
    """Also where its connection has ended; and who adds it as a voter sees that it has caught up."""
    async with leader(tmp_path) as server:
        key = ReplicaKey(100, Uuid(bytes([100]) * 16))
        async with following(server) as made:
            progress = server.node.leading.known(key)
            assert progress is not None
            before_ms = progress.last_fetch_ms
            answer = await waits(server, made)
            append(server, [b"new"])
            await answer
            answer = await waits(server, made)
            assert progress.end_offset < made.offset, "the node has not asked"
            server.handlers.fold_progress()
            assert progress.end_offset == made.offset and progress.last_fetch_ms >= before_ms
            assert progress.last_caught_up_ms == progress.last_fetch_ms
            assert voter_changes._is_caught_up(server.node, key, progress.last_fetch_ms + 1)
            answer.cancel()
            append(server, [b"newer"])
        await until(lambda: not adopted(server))
        assert list(server.node.leading.observers)[-1] == key, "the last one that fetched"


@story
async def test_an_observer_that_becomes_a_voter_fetches_from_the_node(tmp_path: Path) -> None:
    """Its fetches move the high watermark."""
    async with leader(tmp_path) as server, following(server) as made:
        key = ReplicaKey(100, Uuid(bytes([100]) * 16))
        answer = await waits(server, made)
        leading = server.node.leading
        voter = Voter(key, {"CONTROLLER": Address("127.0.0.1", 1)})
        voters = server.node.voters.with_voter(voter)
        assert voters is not None
        before = leading.voters
        leading.set_voters(voters)
        server.runtime.take("test", lambda _: [])
        await until(lambda: not adopted(server) and leading.fetches)
        assert leading.voters[100].end_offset == made.offset
        leading.set_voters(VoterSet.of([each for each in voters.voters.values() if each.key != key]))
        assert before.keys() == leading.voters.keys()
        append(server, [b"new"])
        assert (await answer).error_code == 0


@story
async def test_new_segments_and_a_new_start_of_the_log(tmp_path: Path) -> None:
    """Records of two segments; behind a snapshot the start of the log is another, also in the loop's answers."""
    async with leader(tmp_path, segments=Settings(segment_bytes=2_000)) as server, following(server) as made:
        for _ in range(30):
            answer = await waits(server, made)
            append(server, [bytes(300)])
            await answer
        assert len(server.node.log._log.segments) > 3 and adopted(server) == 1  # type: ignore[attr-defined]
        end = server.node.log.end_offset
        assert made.records == b"".join(read_through(server.node.log, end))
        snapshot = OffsetAndEpoch(end - 4, server.node.epoch)
        assert await write_snapshot(server.runtime, snapshot, 0, [])
        assert server.node.log.delete_before(snapshot)
        answer = await waits(server, made)
        append(server, [b"new"])
        data = await answer
        assert data.log_start_offset == end - 4 and adopted(server) == 1
        made.offset = end - 4
        data = await made.fetch()
        assert (data.snapshot_id.end_offset, data.snapshot_id.epoch) == snapshot or data.records


def read_through(log: Any, end: int) -> Iterator[bytes]:
    offset = 0
    while offset < end:
        yield (data := log.read(offset, 1, end))
        offset = end_offset_of(data)


@story
async def test_clients_that_come_and_go_at_any_moment_leave_nothing(tmp_path: Path) -> None:
    """Also while their connections change hands; every answer that they wait for comes, whole and in order."""
    random = Random(7)
    async with leader(tmp_path) as server:

        async def client(number: int) -> None:
            async with observer(server.port, 200 + number, server.node.epoch) as made:
                for _ in range(random.randrange(4, 12)):
                    version = random.choice((17, 18, 18, 18))
                    frames = [made.fetch_frame(version, max_wait_ms=5) for _ in range(random.choice((1, 1, 2, 5)))]
                    data = b"".join(frames)
                    while data:
                        size = random.choice((3, 50, 1 << 16))
                        made.writer.write(data[:size])
                        data = data[size:]
                        await asyncio.sleep(random.choice((0, 0.001)))
                    if random.random() < 0.1:
                        return
                    for _ in frames:
                        assert (await made.answer(version)).error_code == 0

        async def writer() -> None:
            while True:
                append(server, [bytes(random.randrange(300))])
                await asyncio.sleep(0.002)
                if random.random() < 0.05:
                    loop_of(server).recall_all()

        writing = asyncio.create_task(writer())
        await asyncio.gather(*map(client, range(60)))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert counters(server)["handed_back"] > 10 and counters(server)["fetches"] > 10
        await until(lambda: not adopted(server) and not server.handlers._server.connections.served)  # type: ignore[union-attr]
        await until(lambda: not len(server.handlers._server.connections.admission))  # type: ignore[union-attr]
        counted = metrics(server)  # A client of another process that looks for a node at this port counts, too.
        assert counted.connections_opened == counted.connections_closed >= 60
        assert not server.node.leading.fetches or counted.requests >= counted.responses


@story
async def test_a_silent_connection_is_closed_and_counted_as_idle(tmp_path: Path) -> None:
    async with leader(tmp_path, limits=Limits(idle_s=0.3)) as server, following(server) as made:
        assert await made.reader.read() == b""
        await until(lambda: not adopted(server))
        assert metrics(server).errors["idle"] == 1
