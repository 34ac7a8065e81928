"""A runtime without a listener, as a broker has it, and the timer of a runtime."""

import asyncio

import pytest

from kcore.errors import StorageError
from kcore.raft.log.memory_log import MemoryLog
from kcore.server.clock import Clock, DeadlineTimer
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.quorum_node.quorum_runtime import QuorumRuntime
from net.loops import story, until
from server.quorum_nodes import Nodes, Recorder, append, started


@story
async def test_a_runtime_without_a_listener_follows_the_log() -> None:
    async with started(1) as nodes:
        leader, recorder, log = await nodes.leader(), Recorder(), MemoryLog()
        config = nodes.config(9, can_become_voter=False)
        async with QuorumRuntime(config, log, MemoryElections(), recorder) as observer:
            assert config.endpoints == {}
            append(leader, [b"one", b"two"])
            await until(lambda: recorder.committed == leader.node.log.end_offset)
            assert observer.node.leader_id == 1 and observer.is_ready
        end_offset = log.end_offset
        append(leader, [b"three"])
        await until(lambda: nodes.recorders[0].committed == leader.node.log.end_offset)
        assert log.end_offset == end_offset, "it has ended"


@story
async def test_a_runtime_that_cannot_start_raises_its_error() -> None:
    class Broken(MemoryElections):
        def read(self) -> None:
            raise StorageError("a damaged election")

    runtime = QuorumRuntime(Nodes(1).config(1), MemoryLog(), Broken(), None)
    with pytest.raises(StorageError, match="a damaged election"):
        await runtime.__aenter__()
    assert runtime.lifetime.has_failed


@story
async def test_the_last_deadline_counts_and_comes_once() -> None:
    clock, due = Clock(), list[int]()
    timer = DeadlineTimer(clock, lambda: due.append(clock.now_ms()))
    timer.set(clock.now_ms() + 3_600_000)
    timer.set(clock.now_ms() + 1)
    await until(lambda: bool(due))
    timer.set(clock.now_ms() + 1)
    timer.cancel()
    timer.set(clock.now_ms() + 1)
    timer.set(None)
    await asyncio.sleep(0.02)
    assert len(due) == 1
