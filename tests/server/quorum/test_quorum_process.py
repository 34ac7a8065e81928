"""A raft node with its sockets: quorums elect and commit, and the process performs the node's effects."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from kcore.errors import NewerReleaseError, StorageError
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.raft.effects import Effect, Flush, LeaderChanged, Notice, SendResponse, Stopped, StoreElection
from kcore.raft.log.batches import SplitBatches
from kcore.raft.log.control_records import control_batch, kraft_version_record
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import Appended
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.raft.state_machine import Append, Resign
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest, ReplicaState
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcore.server.clock import Clock
from kcore.server.quorum_node import machine_runner
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.quorum_node.quorum_server import QuorumServer
from kcore.server.quorum_node.snapshot_writing import write_snapshot
from kcore.types import Uuid
from kcore.wire.record_building import encode_values
from kcore.wire.records import decode_records
from net.loops import story, until
from server.quorum_nodes import Nodes, append, committed_everywhere, started

RECORDS = [b"one", b"two", b"three"]


@pytest.mark.parametrize("level", ["4.3", "3.9"])
@pytest.mark.parametrize("count", [1, 3])
@story
async def test_a_leader_is_elected_and_what_it_appends_is_committed_everywhere(count: int, level: str) -> None:
    async with started(count, level) as nodes:
        leader = await nodes.leader()
        appended = append(leader, RECORDS)
        await committed_everywhere(nodes, appended.expected_offset + len(RECORDS))
        logs = {each.node.log.read(0, 1 << 20, each.node.log.end_offset) for each in nodes.servers}
        assert len(logs) == 1
        assert all(record in logs.pop() for record in RECORDS[:1])
        assert {each.node.leader_id for each in nodes.servers} == {leader.runtime.config.node_id}


@story
async def test_an_observer_follows() -> None:
    async with started(3) as nodes, nodes.server(9, can_become_voter=False) as observer:
        leader = await nodes.leader()
        appended = append(leader, RECORDS)
        await committed_everywhere(nodes, appended.expected_offset + len(RECORDS))
        assert not observer.node.is_voter
        end_offset = observer.node.log.end_offset
        assert observer.node.log.read(0, 1 << 20, end_offset) == leader.node.log.read(0, 1 << 20, end_offset)


@story
async def test_a_leader_that_stops_hands_over() -> None:
    """EndQuorumEpoch: the others need not wait until they miss it."""
    async with started(3, fetch_timeout_ms=60_000) as nodes:
        leader = await nodes.leader()
        epoch = leader.node.epoch
        await leader.__aexit__()
        successor = await nodes.leader(but=leader)
        assert successor.node.epoch > epoch
        nodes.servers.remove(leader)
        nodes.recorders = [each for each in nodes.recorders if each.led_epoch != epoch]
        appended = append(successor, RECORDS)
        await committed_everywhere(nodes, appended.expected_offset + len(RECORDS))
        end_offset = leader.node.log.end_offset
        leader.runtime.submit([Append(RECORDS, epoch, end_offset)])
        assert leader.node.log.end_offset == end_offset, "it has ended"


@story
async def test_a_foreign_cluster_is_refused() -> None:
    async with started(1) as nodes, await connect("127.0.0.1", nodes.servers[0].port) as connection:
        await nodes.leader()
        answer = await connection.send(VoteRequest(cluster_id="another"))
        assert answer.error_code == 104


@story
async def test_a_node_of_another_cluster_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with started(1) as nodes, await connect("127.0.0.1", nodes.servers[0].port) as connection:
        await nodes.leader()
        with caplog.at_level(logging.WARNING):
            asked = FetchRequest(cluster_id="another", replica_state=ReplicaState(replica_id=7))
            assert (await connection.send(asked)).error_code == Errors.INCONSISTENT_CLUSTER_ID
            own = nodes.servers[0].node.cluster_id
            await connection.send(FetchRequest(cluster_id=own, replica_state=ReplicaState(replica_id=8)))
    [line] = [each.getMessage() for each in caplog.records if "cluster" in each.getMessage()]
    assert line.startswith(f"refused node 7: it was formatted for cluster another, and this is cluster {own}.")


# Effects that the process performs.


class Scripted:
    """A raft node that returns what a test wants."""

    next_deadline_ms: int | None = None
    cluster_id: str | None = None
    leads, log, quorum = False, MemoryLog(), SimpleNamespace(state=None, high_watermark=None)  # Read to be counted.

    def __init__(self, **effects: list[Effect]) -> None:
        self.effects, self.flushed, self.timers = effects, list[int](), 0
        self.on_request_effects: Any = lambda reply_to: []

    def start(self, election: ElectionState | None, now_ms: int) -> list[Effect]:
        return self.effects.get("start", [])

    def on_request(self, request: Any, version: int, reply_to: Any, now_ms: int) -> list[Effect]:
        effects: list[Effect] = self.on_request_effects(reply_to)
        return effects

    def on_flushed(self, flush: Flush, now_ms: int) -> list[Effect]:
        self.flushed.append(flush.end_offset)
        return self.effects.get("on_flushed", [])

    def on_timer(self, now_ms: int) -> list[Effect]:
        self.timers += 1
        self.next_deadline_ms = None
        return []

    def shutdown(self, now_ms: int, timeout_ms: int) -> list[Effect]:
        return [Stopped()]


class SlowLog(MemoryLog):
    """Its flush waits until it may go on; it runs beside the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.may_flush, self.flushes = threading.Semaphore(0), 0

    def flush(self) -> None:
        self.flushes += 1
        self.may_flush.acquire()


class Votes(MemoryElections):
    """The written election states, or a disk that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[ElectionState] = []
        self.broken = False

    def write(self, election: ElectionState, kraft_version: int) -> None:
        if self.broken:
            raise OSError("no space left")
        self.written.append(election)


def scripted(node: Scripted, log: MemoryLog | None = None) -> tuple[QuorumServer, Votes]:
    votes = Votes()
    where: dict[str, Any] = {"host": "127.0.0.1", "port": 0}
    with patch("kcore.server.quorum_node.quorum_runtime.RaftNode", lambda config, log: node):
        config = Nodes(1).config(1)
        return QuorumServer(config, log or MemoryLog(), votes, **where, machine=None, answer_loop="plain"), votes


@story
async def test_a_vote_is_stored_before_it_leaves() -> None:
    """And if it cannot be stored, it never leaves: the process is at its end."""
    node = Scripted()
    voted = ElectionState(3, -1, ReplicaKey(2))
    node.on_request_effects = lambda reply_to: [StoreElection(voted, 0), SendResponse(reply_to, VoteResponse())]
    server, votes = scripted(node)
    async with server, await connect("127.0.0.1", server.port) as connection:
        assert await connection.send(VoteRequest()) == VoteResponse()
        assert votes.written == [voted]
        votes.broken = True
        unanswered = connection.send(VoteRequest())
        with pytest.raises(OSError, match="no space left"):
            await server.wait_failed()
        await asyncio.sleep(0.02)
        assert not unanswered.done()
        unanswered.cancel()


@story
async def test_flushes_run_beside_the_loop_one_at_a_time() -> None:
    """Flushes requested meanwhile become one flush; each flush reports the end offset of its request."""
    log = SlowLog()
    node = Scripted()
    server, _ = scripted(node, log)
    async with server:
        for end in (3, 5, 9):
            log.end_offset = end
            server.runtime._perform([Flush(end)])
            await until(lambda: log.flushes == 1)
        assert node.flushed == []
        log.may_flush.release()
        await until(lambda: log.flushes == 2)
        assert node.flushed == [3]
        log.may_flush.release()
        await until(lambda: node.flushed == [3, 9])
        assert log.flushes == 2


@story
async def test_the_timer_is_the_nodes() -> None:
    node = Scripted()
    server, _ = scripted(node)
    async with server:
        await asyncio.sleep(0.02)
        assert node.timers == 0
        node.next_deadline_ms = server.runtime.clock.now_ms() + 20
        server.runtime._perform([])
        await until(lambda: node.timers == 1)
        await asyncio.sleep(0.05)
        assert node.timers == 1


@story
async def test_a_bug_ends_the_process() -> None:
    node = Scripted()

    def fails(reply_to: Any) -> list[Effect]:
        raise AssertionError("a state that cannot be")

    node.on_request_effects = fails
    server, _ = scripted(node)
    async with server, await connect("127.0.0.1", server.port) as connection:
        unanswered = connection.send(VoteRequest())
        with pytest.raises(AssertionError, match="a state that cannot be"):
            await server.wait_failed()
        unanswered.cancel()


@story
async def test_a_disk_that_refuses_an_append_ends_the_process() -> None:
    class Full(MemoryLog):
        def append_as_leader(self, batches: bytes, epoch: int, split: SplitBatches | None = None) -> Appended:
            if b"one" in batches:
                raise StorageError("no space left")
            return super().append_as_leader(batches, epoch, split)

    nodes = Nodes(1)
    async with nodes.server(1, Full()) as server:
        await nodes.leader()
        append(server, RECORDS)
        with pytest.raises(StorageError, match="no space left"):
            await server.wait_failed()


@story
async def test_a_log_that_cannot_be_replayed_keeps_the_node_from_its_start() -> None:
    class Refusing(Scripted):
        def start(self, election: ElectionState | None, now_ms: int) -> list[Effect]:
            raise StorageError("a damaged batch")

    server, _ = scripted(Refusing())
    with pytest.raises(StorageError, match="a damaged batch"):
        await server.__aenter__()


@story
async def test_what_only_a_newer_release_can_read_ends_the_process_with_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No traceback: nothing is wrong with this release but its age. The command prints the error that it gets."""
    caplog.set_level("INFO")
    log = MemoryLog()
    log.append_as_leader(control_batch([kraft_version_record(2)], 0, 1, 0), 1)
    server = QuorumServer(Nodes(1).config(1), log, MemoryElections(), host="127.0.0.1", port=0, machine=None)
    with pytest.raises(NewerReleaseError, match=r"the control record at offset 0 has kraft\.version 2"):
        await server.__aenter__()
    assert [record for record in caplog.records if record.levelname == "CRITICAL"] == []


@story
async def test_what_only_a_newer_release_can_read_ends_a_running_node_with_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, _ = scripted(Scripted())
    async with server:
        server.runtime.lifetime.fail(NewerReleaseError("the log needs a newer release"))
        with pytest.raises(NewerReleaseError):
            await server.wait_failed()
    (record,) = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert record.getMessage() == "node 1 cannot go on: the log needs a newer release" and not record.exc_info


@story
async def test_a_notice_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server, _ = scripted(Scripted())
    async with server:
        server.runtime._perform([Notice("100% of what node 2 sends is damaged")])
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "100% of what node 2 sends is damaged")
    ]


@story
async def test_epochs_that_others_name_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """At a node without `super.users` anybody may ask for votes."""
    caplog.set_level(logging.INFO)
    server, _ = scripted(Scripted())
    async with server:
        for epoch in range(100):
            server.runtime._perform([StoreElection(ElectionState(epoch), 0), LeaderChanged(-1, epoch, 0)])
    assert len(caplog.records) <= 2 * 11


@story
async def test_an_address_that_is_taken() -> None:
    taken, _ = scripted(Scripted())
    async with taken:
        other = QuorumServer(Nodes(1).config(1), MemoryLog(), Votes(), host="127.0.0.1", port=taken.port, machine=None)
        with pytest.raises(OSError, match="in use"):
            await other.__aenter__()


@story
async def test_a_node_that_cannot_listen_stores_no_epoch_and_wins_no_election() -> None:
    votes = Votes()
    taken, _ = scripted(Scripted())
    async with taken:
        config = Nodes(1).config(1)
        other = QuorumServer(config, MemoryLog(), votes, host="127.0.0.1", port=taken.port, machine=None)
        with pytest.raises(OSError, match="in use"):
            await other.__aenter__()
    assert votes.written == [] and other.node.epoch == 0 and not other.node.leads


def test_the_clock_goes_forward_from_the_time_of_the_day() -> None:
    clock = Clock()
    now_ms = clock.now_ms()
    assert abs(now_ms - time.time() * 1000) < 60_000
    assert clock.now_ms() >= now_ms
    assert abs(clock.seconds_of(now_ms) - time.monotonic()) < 60


@story
async def test_the_first_leader_makes_the_cluster_s_id_and_all_keep_it() -> None:
    """KIP-595, "Cluster Bootstrapping": formatted without one."""
    async with started(3, cluster_id=None) as nodes, nodes.server(9, can_become_voter=False, cluster_id=None):
        await until(lambda: len(nodes.cluster_ids) == 4)
        assert sorted(node_id for node_id, _ in nodes.cluster_ids) == [1, 2, 3, 9]
        [cluster_id] = {cluster_id for _, cluster_id in nodes.cluster_ids}
        assert len(Uuid(cluster_id)) == 16
        leader = await nodes.leader()
        async with await connect("127.0.0.1", leader.port) as connection:
            assert (await connection.send(VoteRequest(cluster_id="another"))).error_code == 104
        await leader.__aexit__()
        successor = await nodes.leader(but=leader)
        appended = append(successor, RECORDS)
        nodes.servers.remove(leader)
        await committed_everywhere(nodes, appended.expected_offset + len(RECORDS))
        assert len(nodes.cluster_ids) == 4, "another leader makes no other one"


@story
async def test_a_node_that_knows_its_cluster_looks_for_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots may be large."""
    monkeypatch.setattr(machine_runner, "ClusterIdMaker", None)
    async with started(1) as nodes:
        await nodes.leader()


@story
async def test_a_node_that_starts_again_without_having_kept_the_id_finds_it_in_the_log() -> None:
    """It fell between the commit and `meta.properties`."""
    async with started(1, cluster_id=None) as nodes:
        await until(lambda: len(nodes.cluster_ids) == 1)
        [server] = nodes.servers
        await server.__aexit__()
        async with nodes.server(1, server.node.log, cluster_id=None):
            await until(lambda: len(nodes.cluster_ids) == 2)
            assert nodes.cluster_ids[0] == nodes.cluster_ids[1]


# The state machine.


@story
async def test_a_state_machine_is_given_what_others_appended_and_not_what_it_has_replayed() -> None:
    """The leader's state machine gets the high watermark, and the resignation that reverts uncommitted records."""
    async with started(3) as nodes:
        leader = await nodes.leader()
        machines = dict(zip(nodes.servers, nodes.recorders, strict=True))
        ours = machines[leader]
        offset = append(leader, RECORDS).expected_offset
        end = offset + len(RECORDS)
        await until(lambda: all(machine.committed >= end for machine in machines.values()))
        assert ours.calls[-2:] == [("leader", leader.node.epoch, offset), ("committed", b"", end)]
        for server, machine in machines.items():
            given = b"".join(call[1] for call in machine.calls if call[0] == "committed")
            assert (RECORDS[0] in given) == (server is not leader)
        epoch = leader.node.epoch
        leader.runtime.submit([Resign(epoch)])
        await until(lambda: ("resigned", epoch) in ours.calls)


@story
async def test_a_machine_that_is_far_behind_gets_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in its own turn of the loop, so that no heartbeat waits for all of it."""
    monkeypatch.setattr("kcore.raft.driver.SLICE_BYTES", 100)
    log = MemoryLog()
    for offset in range(50):
        batch = encode_values([b"x" * 50], base_offset=offset, timestamp=0, partition_leader_epoch=1)
        log.append_as_leader(batch, 1)
    nodes = Nodes(1)
    server = nodes.server(1, log)
    turns: list[int] = []
    machine_runner = server.runtime._machine
    run = machine_runner.run
    monkeypatch.setattr(
        machine_runner, "run", lambda now_ms: (turns.append(nodes.recorders[0].committed), run(now_ms))[1]
    )
    async with server:
        await nodes.leader()
        [machine] = nodes.recorders
        assert machine.calls[-1] == ("leader", server.node.epoch, server.node.next_offset)
        assert max(after - before for before, after in pairwise(turns)) == 1


@story
async def test_a_snapshot_is_written_while_the_leader_appends() -> None:
    """Slice by slice: what is committed meanwhile is not in it, and the node goes on between two slices."""
    async with started(1) as nodes:
        server = await nodes.leader()
        [machine] = nodes.recorders
        append(server, RECORDS)
        await until(lambda: machine.committed == machine.next_offset)
        at = OffsetAndEpoch(machine.committed, server.node.epoch)
        ends: list[int] = []

        def slices() -> Iterator[bytes]:
            for number in range(5):
                append(server, [b"later"])
                ends.append(server.node.log.end_offset)
                yield encode_values([b"state %d" % number], base_offset=0, timestamp=0, partition_leader_epoch=0)

        assert await write_snapshot(server.runtime, at, 0, slices())
        assert len(ends) == 5 and server.node.log.latest_snapshot == at
        piece = server.node.log.snapshot_piece(at, 0, 1 << 20)
        assert piece is not None
        values = [record.value for record in decode_records(piece.data) if record.control is None]
        assert values == [b"state %d" % number for number in range(5)]
        assert not await write_snapshot(server.runtime, at, 0, slices()), "there is one"


@story
async def test_a_snapshot_whose_state_machine_fails_leaves_nothing() -> None:
    async with started(1) as nodes:
        server = await nodes.leader()
        at = OffsetAndEpoch(nodes.recorders[0].committed, server.node.epoch)

        def slices() -> Iterator[bytes]:
            yield encode_values([b"state"], base_offset=0, timestamp=0, partition_leader_epoch=0)
            raise ValueError("the state machine's own")

        with pytest.raises(ValueError, match="own"):
            await write_snapshot(server.runtime, at, 0, slices())
        assert (server.node.log.latest_snapshot, server.node.writing) == (None, set())


@story
async def test_an_administrator_asks_the_server_for_kraft_version() -> None:
    """Not the node: what is no request of raft's the server answers."""
    async with started(1) as nodes, await connect("127.0.0.1", nodes.servers[0].port) as connection:
        await nodes.leader()
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        answer = await connection.send(UpdateFeaturesRequest(feature_updates=[update]))
        assert (answer.error_code, answer.error_message) == (0, None)
        assert nodes.servers[0].node.voter_history.kraft_version == 1
