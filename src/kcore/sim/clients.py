"""What the world wants of its quorum: appends, snapshots, other voters; and what strangers want of it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kcore.constants import METADATA_TOPIC
from kcore.raft import snapshots
from kcore.raft.replicas import ReplicaKey
from kcore.raft.states import Leader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kcore.schema.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    SnapshotId,
)
from kcore.schema.raft_voters import AddRaftVoterRequest, Listener, RemoveRaftVoterRequest
from kcore.schema.raft_votes import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from kcore.schema.structure import Message
from kcore.sim.machine import LISTENER, Machine
from kcore.types import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from kcore.sim.world import World

AUDIT_US: Final = 250_000
PAD_BYTES: Final = 300  # Of a snapshot's second record.


def begin(world: "World") -> None:
    """They come at random times, each by its own mean."""
    options = world.options
    world.every_us(options.append_every_us, lambda: append(world))
    world.every_us(options.snapshot_every_us, lambda: snapshot(world))
    world.every_us(options.ask_every_us, lambda: ask(world))
    world.every_us(AUDIT_US, world.invariants.check_progress)
    if options.dynamic or options.upgraded:
        world.every_us(options.change_every_us, lambda: change_voters(world))


def leaders(world: "World") -> list[Machine]:
    """All that think so, and can do something now."""
    return [each for each in world.machines if each.is_up and not each.gate and type(each.node.state) is Leader]


def append(world: "World") -> None:
    """One to three records, each its own, to one that leads; to one that does not if nobody does."""
    machines = leaders(world) or [each for each in world.machines if each.is_up and not each.gate]
    if machines:
        machine = world.random.choice(machines)
        for _ in range(world.random.choice((1, 1, 1, 3))):
            if machine.is_up and not machine.gate:
                world.append(machine, b"record %d" % world.sequence)
                world.sequence += 1


def snapshot(world: "World") -> None:
    """A node makes one of what it knows to be committed, and mostly drops the log before it."""
    machine = world.random.choice(world.machines)
    if not machine.is_up or machine.gate:
        return
    log, committed = machine.log, world.invariants.committed
    offset = machine.seen_high_watermark
    if offset < 1 or offset < log.start_offset or (epoch := log.epochs.epoch_for_offset(offset - 1)) is None:
        return
    latest = OffsetAndEpoch(offset, epoch)
    if log.latest_snapshot != latest:
        values = [committed.checksums[offset].to_bytes(4), bytes(PAD_BYTES)]
        if not snapshots.write(machine.node, latest, values, 0, 0):
            world.seen["snapshot refused"] += 1
            return
        world.seen["snapshot made"] += 1
        world.invariants.on_snapshot(machine, latest)
    if world.dice() < 0.7 and snapshots.delete_before(machine.node, latest):
        world.seen["log start moved"] += 1
        world.invariants.check_start(machine)


def change_voters(world: "World") -> None:
    """An administrator adds or removes one; never so that the disks that are left would be too few."""
    machines = leaders(world)
    if not machines or world.is_healing:
        return
    leader, named = world.random.choice(machines), world.random.choice(world.machines)
    voter = leader.node.voters.voters.get(named.index)
    request: Message
    if voter is not None:
        rest = leader.node.voters.without_voter(voter.key)
        # The others must be able to elect one of themselves even if none of them hears of it: who is removed does not
        # stand (KAFKA-17067), and may refuse its vote to logs that lack its removal. So a quorum of two keeps both.
        if rest is None or len(alive(world, rest.keys)) < leader.node.voters.majority:
            return
        request = RemoveRaftVoterRequest(
            cluster_id=world.cluster_id, voter_id=voter.key.id, voter_directory_id=voter.key.directory_id
        )
    else:
        named.named_us = world.now_us
        request = AddRaftVoterRequest(
            cluster_id=world.cluster_id,
            timeout_ms=world.random.choice((100, 2_000)),
            voter_id=named.index,
            voter_directory_id=named.key.directory_id,
            listeners=[Listener(name=LISTENER, host=named.address.host, port=named.address.port)],
            ack_when_committed=world.dice() < 0.5,
        )
    asked = leader if world.dice() < 0.8 else world.random.choice(world.machines)
    world.ask(asked, request, world.versions[type(request)])


def alive(world: "World", keys: Iterable[ReplicaKey]) -> list[ReplicaKey]:
    """Those whose disk is still there."""
    return [key for key in keys if world.machines[key.id].key == key]


def ask(world: "World") -> None:
    """A look at the quorum, or what no node of it would send."""
    machine = world.random.choice(world.machines)
    request = describe() if world.dice() < 0.3 else world.random.choice(STRANGE)(world)
    world.ask(machine, request, world.versions[type(request)])


def describe() -> Message:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def any_epoch(world: "World") -> int:
    """Up to the latest, or none: a later one would be a lie of a kind that no quorum promises to bear."""
    return world.random.randrange(-1, max(world.invariants.leaders, default=0) + 1)


def any_id(world: "World") -> int:
    """Nobody's."""
    return world.random.choice((-1, 77, 1 << 30))


def any_cluster(world: "World") -> str | None:
    return world.random.choice((world.cluster_id, "another-cluster-000000", None))


def strange_fetch(world: "World") -> Message:
    partition = FetchPartition(
        partition=world.random.choice((0, 0, 0, 1)),
        current_leader_epoch=any_epoch(world),
        fetch_offset=world.random.randrange(-1, world.invariants.committed.end + 10),
        last_fetched_epoch=any_epoch(world),
        partition_max_bytes=0,
        replica_directory_id=world.new_directory(),
    )
    return FetchRequest(
        cluster_id=any_cluster(world),
        replica_state=ReplicaState(replica_id=any_id(world)),
        max_wait_ms=world.random.choice((0, 500)),
        min_bytes=1,
        topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        forgotten_topics_data=[],
    )


def strange_fetch_snapshot(world: "World") -> Message:
    known: list[Any] = [OffsetAndEpoch(3, 1), *world.invariants.snapshots]
    chosen = world.random.choice(known)
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=world.random.choice((0, 0, 0, 1)),
        current_leader_epoch=any_epoch(world),
        snapshot_id=SnapshotId(end_offset=chosen.offset, epoch=chosen.epoch),
        position=world.random.choice((-1, 0, 17, 1 << 40)),
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=any_cluster(world), replica_id=any_id(world), topics=[topic])


def strange_vote(world: "World") -> Message:
    partition = VoteRequestPartitionData(
        partition_index=world.random.choice((0, 0, 0, 1)),
        replica_epoch=any_epoch(world),
        replica_id=any_id(world),
        voter_directory_id=world.new_directory(),
        last_offset_epoch=any_epoch(world),
        last_offset=world.random.randrange(-1, world.invariants.committed.end + 10),
        pre_vote=False,
    )
    topic = VoteRequestTopicData(topic_name=world.random.choice((METADATA_TOPIC, "other")), partitions=[partition])
    return VoteRequest(cluster_id=any_cluster(world), voter_id=any_id(world), topics=[topic])


def strange_begin(world: "World") -> Message:
    partition = BeginQuorumEpochRequestPartitionData(
        partition_index=0,
        voter_directory_id=world.new_directory(),
        leader_id=any_id(world),
        leader_epoch=any_epoch(world),
    )
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return BeginQuorumEpochRequest(cluster_id="another-cluster-000000", topics=[topic], leader_endpoints=[])


def strange_end(world: "World") -> Message:
    partition = EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=any_id(world),
        leader_epoch=any_epoch(world),
        preferred_successors=[],
        preferred_candidates=[],
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=any_cluster(world), topics=[topic], leader_endpoints=[])


STRANGE: Final = (strange_fetch, strange_fetch_snapshot, strange_vote, strange_begin, strange_end)
