"""A controller does large work in parts and handles other events in between: counted by its own metrics.

The controller runs in the test's process, on a disk, with 20 hollow brokers and an observer of its log. How long a part
takes depends on the machine: `bench/test_longest_event.py` measures that at a million partitions.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from kcore.controller.kraft import decision, writing
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.brokers import records
from kcore.measure.hollow.fleet import Fleet, Options
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.local_process import free_ports
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.scenarios.lifecycle import controlled_shutdown, rack_lost, register
from kcore.measure.storm.kraft.scenarios.topics import create
from kcore.metadata.image import image_writer, replay
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.net.durations import Duration
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.quorum_node.elections import MemoryElections
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.types import Uuid
from kraft_configs import controller_config

CLUSTER: Final = "a-cluster-of-the-tests"
DIRECTORY: Final = Uuid((1 << 70).to_bytes(16))
NODE: Final = 30_001  # No broker has that id.
BROKERS: Final = 20
RACKS: Final = 3
SNAPSHOT_BYTES: Final = 2 << 20


class Load(NamedTuple):
    """How much there is to do."""

    partitions: int
    many: int  # Topics or partitions of one request.


def least_parts(load: Load) -> dict[str, int]:
    """By kind of event, from the rows that there are at the least, and how many a part has at the most."""
    fenced, shut_down = load.partitions // RACKS, load.partitions // BROKERS
    return {
        "CreateTopics continued": load.many // decision.AT_ONCE,
        "AlterPartitionReassignments continued": load.many // decision.AT_ONCE,
        "DeleteTopics continued": load.many // decision.AT_ONCE,
        "ListPartitionReassignments continued": 1,
        "ElectLeaders continued": 2,
        "maybeFenceStaleBroker continued": fenced // writing.APPLIED_AT_ONCE,
        "enterControlledShutdown continued": shut_down // records.SHUT_DOWN_AT_ONCE,
        "snapshot slice written": load.partitions // image_writer.PARTITIONS_AT_ONCE,
        "replay continued, of an observer": load.partitions // replay.AT_ONCE,
        "replay continued, started again": 1,
    }


@asynccontextmanager
async def a_node(folder: Path, node_id: int, port: int, voter_port: int) -> AsyncIterator[KraftServer]:
    """A controller of a quorum that has one voter, on that disk."""
    config = controller_config(
        node_id,
        CLUSTER,
        supported_features=RELEASES[DEFAULT_RELEASE].supported_features,
        metadata_log_max_record_bytes_between_snapshots=SNAPSHOT_BYTES,
    )
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


async def on_brokers(server: KraftServer, load: Load) -> None:
    """Snapshots are written meanwhile, as they fall due."""
    quorum = Quorum([f"127.0.0.1:{server.port}"], random=Random(1))
    await quorum.open()
    try:
        async with Fleet(quorum, random=Random(1), options=Options(counts_only=True)) as fleet:
            for number in range(BROKERS):
                fleet.add(number + 1, rack=f"rack-{number % RACKS}")
            storm = Storm(quorum, fleet, Sizes(BROKERS, load.partitions, racks=RACKS), Random(1), timeout_s=300.0)
            for scenario in (register, create, controlled_shutdown, rack_lost):
                await scenario(storm)
            await large_requests(storm, load.many)
    finally:
        await quorum.close()


async def large_requests(storm: Storm, count: int) -> None:
    """Each for so many topics or partitions, or for all."""
    ask = storm.quorum.ask
    many = [f"many-{number:06}" for number in range(count)]
    wanted = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[]) for name in many
    ]
    created = await ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000))
    assert {each.error_code for each in created.topics} == {Errors.NONE}
    one = CreatableTopic(name="one", num_partitions=count, replication_factor=3, assignments=[], configs=[])
    await ask(CreateTopicsRequest(topics=[one], timeout_ms=60_000))
    everywhere = [ReassignablePartition(partition_index=each, replicas=[1, 2, 3, 4]) for each in range(count)]
    moved = await ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="one", partitions=everywhere)]))
    assert not moved.error_code
    moving = await ask(ListPartitionReassignmentsRequest(topics=None))
    assert sum(len(each.partitions) for each in moving.topics) > count // 2
    for unclean in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        assert not (await ask(ElectLeadersRequest(election_type=unclean, topic_partitions=None))).error_code
    gone = [DeleteTopicState(name=name) for name in [*many, "one"]]
    await ask(DeleteTopicsRequest(topics=gone, timeout_ms=60_000))


async def measured(folder: Path, load: Load) -> dict[str, Duration]:
    """By kind of event: of a controller under storms, of its observer, and of one that starts from what it left."""
    own_port, follower_port = free_ports(2)
    async with (
        a_controller(folder / "voter", own_port) as server,
        a_node(folder / "observer", NODE + 1, follower_port, own_port) as observer,
    ):
        await on_brokers(server, load)
        while server.runtime.metrics.snapshots.latest_s is None:
            await asyncio.sleep(0.1)
        found = {**server.runtime.metrics.events.by_kind}
        while observer.controller.committed < server.controller.committed:
            await asyncio.sleep(0.1)
        assert observer.controller.image.table.partition_count == load.partitions
        found |= {f"{kind}, of an observer": each for kind, each in observer.runtime.metrics.events.by_kind.items()}
    async with a_controller(folder / "voter", own_port) as again:
        assert again.controller.image.table.partition_count == load.partitions
        return found | {f"{kind}, started again": each for kind, each in again.runtime.metrics.events.by_kind.items()}


@pytest.mark.long
def test_what_is_large_is_done_in_parts(tmp_path: Path) -> None:
    load = Load(partitions=60_000, many=6_000)
    found = asyncio.run(measured(tmp_path, load))
    parts = {kind: found[kind].count if kind in found else 0 for kind in least_parts(load)}
    few = {kind: (parts[kind], least) for kind, least in least_parts(load).items() if parts[kind] < least}
    assert not few, "so many parts, and so many there must be"
