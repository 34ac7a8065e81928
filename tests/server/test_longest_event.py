"""No event holds the loop of a controller of a million partitions for long: read from its own metrics.

The controller runs in the test's process, on a disk, with 20 hollow brokers and an observer of its log. Its metrics
count the CPU time of its thread here, which a busy machine does not lengthen, where a controller of its own process
counts the wall clock.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Final

import pytest

from kcore.collector import rare_collections
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.config import KraftControllerConfig
from kcore.hollow.fleet import Fleet, Options
from kcore.hollow.quorum import Quorum
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.processes.machine import free_ports
from kcore.protocol_errors import Errors
from kcore.raft.config import RaftConfig
from kcore.raft.replicas import Address, ReplicaKey, Voter
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from kcore.server.kraft.apis import FEATURES
from kcore.server.kraft.process import KraftServer
from kcore.server.quorum import process
from kcore.server.quorum.process import MemoryElections
from kcore.storage.raft_log import DiskRaftLog
from kcore.storm.kraft.scenarios.lifecycle import controlled_shutdown, rack_lost, register
from kcore.storm.kraft.scenarios.topics import create
from kcore.storm.kraft.storm import Sizes, Storm
from kcore.types import Uuid

CLUSTER: Final = "a-cluster-of-the-tests"
DIRECTORY: Final = Uuid((1 << 70).to_bytes(16))
NODE: Final = 30_001  # No broker has that id.
BROKERS: Final = 20
RACKS: Final = 3
PARTITIONS: Final = 1_000_000
MANY: Final = 50_000  # Topics or partitions of one request.
LONGEST_MS: Final = 50.0
EXPECTED: Final = (
    *("CreateTopics continued", "AlterPartitionReassignments continued", "ListPartitionReassignments continued"),
    *("ElectLeaders continued", "DeleteTopics continued", "maybeFenceStaleBroker continued", "snapshot slice written"),
    *("enterControlledShutdown continued", "replay continued, of an observer"),
)
TRIES: Final = 3  # Memory that the kernel has to find costs CPU time, too, and more of it on a busy machine.


@asynccontextmanager
async def a_node(folder: Path, node_id: int, port: int, voter_port: int) -> AsyncIterator[KraftServer]:
    """A controller of a quorum that has one voter, on that disk."""
    config = KraftControllerConfig(node_id, CLUSTER, supported_features=dict(FEATURES["4.3.1"]))
    where, voters_place = ({"CONTROLLER": Address("127.0.0.1", each)} for each in (port, voter_port))
    voters = (Voter(ReplicaKey(NODE), voters_place),)
    raft = RaftConfig(CLUSTER, node_id, DIRECTORY, where, lambda bound: 0, voters=voters)
    bootstrap = Bootstrap.of_features({FEATURE_NAME: 30}, "a test")
    with DiskRaftLog(folder / "__cluster_metadata-0") as log:
        async with KraftServer(config, raft, log, MemoryElections(), bootstrap, host="127.0.0.1", port=port) as server:
            yield server


@asynccontextmanager
async def a_controller(folder: Path, port: int) -> AsyncIterator[KraftServer]:
    """The only voter of its quorum, once it is active."""
    async with a_node(folder, NODE, port, port) as server:
        while server.controller.epoch is None or server.controller.stable < 3:
            await asyncio.sleep(0.01)
        yield server


async def on_brokers(server: KraftServer, story: Callable[[Storm], Awaitable[None]]) -> None:
    quorum = Quorum([f"127.0.0.1:{server.port}"], random=Random(1))
    await quorum.open()
    try:
        async with Fleet(quorum, random=Random(1), options=Options(counts_only=True)) as fleet:
            for number in range(BROKERS):
                fleet.add(number + 1, rack=f"rack-{number % RACKS}")
            await story(Storm(quorum, fleet, Sizes(BROKERS, PARTITIONS, racks=RACKS), Random(1), timeout_s=300.0))
    finally:
        await quorum.close()


async def storms(storm: Storm) -> None:
    """Snapshots are written meanwhile, as they fall due."""
    for scenario in (register, create, controlled_shutdown, rack_lost):
        await scenario(storm)
    await large_requests(storm)


async def large_requests(storm: Storm) -> None:
    """Each for MANY topics or partitions, or for all."""
    ask = storm.quorum.ask
    many = [f"many-{number:06}" for number in range(MANY)]
    wanted = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[]) for name in many
    ]
    created = await ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000))
    assert {each.error_code for each in created.topics} == {Errors.NONE}
    one = CreatableTopic(name="one", num_partitions=MANY, replication_factor=3, assignments=[], configs=[])
    await ask(CreateTopicsRequest(topics=[one], timeout_ms=60_000))
    everywhere = [ReassignablePartition(partition_index=each, replicas=[1, 2, 3, 4]) for each in range(MANY)]
    moved = await ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="one", partitions=everywhere)]))
    assert not moved.error_code
    moving = await ask(ListPartitionReassignmentsRequest(topics=None))
    assert sum(len(each.partitions) for each in moving.topics) > MANY // 2
    for unclean in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        assert not (await ask(ElectLeadersRequest(election_type=unclean, topic_partitions=None))).error_code
    gone = [DeleteTopicState(name=name) for name in [*many, "one"]]
    await ask(DeleteTopicsRequest(topics=gone, timeout_ms=60_000))


def longest_ms(server: KraftServer) -> dict[str, float]:
    """By kind of event."""
    return {kind: found.longest_s * 1e3 for kind, found in server.metrics.events.items()}


async def measured(folder: Path, port: int) -> dict[str, float]:
    """The longest event of each kind, of a controller under storms and of one that starts from what it left."""
    own_port, follower_port = port, free_ports(1)[0]
    async with (
        a_controller(folder / "voter", own_port) as server,
        a_node(folder / "observer", NODE + 1, follower_port, own_port) as observer,
    ):
        await on_brokers(server, storms)
        found = longest_ms(server)
        assert server.metrics.snapshots.latest_s is not None
        while observer.controller.committed < server.controller.committed:
            await asyncio.sleep(0.1)
        assert observer.controller.image.table.partition_count == PARTITIONS
        found |= {f"{kind}, of an observer": took_ms for kind, took_ms in longest_ms(observer).items()}
    async with a_controller(folder / "voter", port) as again:
        assert again.controller.image.table.partition_count == PARTITIONS
        return found | {f"{kind}, started again": took_ms for kind, took_ms in longest_ms(again).items()}


@pytest.mark.long
def test_no_event_holds_the_loop_for_long_at_a_million_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=time.thread_time, monotonic_ns=time.monotonic_ns, time_ns=time.time_ns)
    monkeypatch.setattr(process, "time", clock)
    tried: dict[str, list[float]] = {}
    for number in range(TRIES):
        with rare_collections():
            found = asyncio.run(measured(tmp_path / str(number), free_ports(1)[0]))
        assert {*EXPECTED} <= found.keys()
        for kind, took_ms in found.items():
            tried.setdefault(kind, []).append(round(took_ms, 1))
        long = {kind: each for kind, each in tried.items() if min(each) > LONGEST_MS}
        if not long:
            return
    pytest.fail(f"these held the loop for more than {LONGEST_MS:g} ms of CPU time each time: {long}")
