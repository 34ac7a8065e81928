"""Requests of strangers: clients outside the quorum send a node requests that no other node would send to it.

Strangers do not forge a node's own state, because Raft does not promise to survive such lies. Examples are a vote in an
unused epoch, a leader without an election, and a replica that claims records it does not have.
"""

from typing import Any, Final

from kcore.constants import METADATA_TOPIC
from kcore.raft.membership.replicas import NO_DIRECTORY
from kcore.raft.states import Prospective, Unattached
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
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    KRaftVersionFeature,
    Listener,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
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
from kcore.sim.raft import clients
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import LISTENER, Machine
from kcore.types import METADATA_TOPIC_ID, Uuid

NOBODY: Final = 77
LAST_EPOCH: Final = (1 << 31) - 1
FAR_EPOCHS: Final = 1 << 25
LONGEST_WAIT_MS: Final = (1 << 31) - 1
FLOOD: Final = 5_000  # The number of requests in a flood.
MOST_US_BEFORE_FLOOD: Final = 30_000_000
FLOOD_AGAIN_US: Final = 200_000


def begin(world: RunningWorld) -> None:
    """Sends requests at random times; in some worlds also one flood, larger than the state that a leader keeps."""
    world.every_us(world.options.ask_every_us, lambda: ask(world))
    if world.options.flooded:
        world.after_us(world.random.randrange(MOST_US_BEFORE_FLOOD), lambda: flood(world))


def flood(world: RunningWorld) -> None:
    """Sends fetches of unknown replicas at the end of a leader's log. Either all may wait at the leader, or none."""
    machines = clients.leaders(world)
    if not machines:
        world.after_us(FLOOD_AGAIN_US, lambda: flood(world))
        return
    machine, waits = world.random.choice(machines), world.dice() < 0.5
    world.seen["flood"] += 1
    for _ in range(FLOOD):
        world.ask(machine, plain_fetch(world, machine, LONGEST_WAIT_MS if waits else 0))


def plain_fetch(world: RunningWorld, machine: Machine, max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=machine.node.epoch,
        fetch_offset=machine.log.end_offset,
        last_fetched_epoch=machine.log.last_epoch,
        partition_max_bytes=0,
        replica_directory_id=world.new_directory(),
        high_watermark=1 << 40,
    )
    return FetchRequest(
        cluster_id=world.cluster_id,
        replica_state=ReplicaState(replica_id=NOBODY),
        max_wait_ms=max_wait_ms,
        topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def ask(world: RunningWorld) -> None:
    """Sends one DescribeQuorum, or a request that no node of the quorum would send."""
    leaders, voters = clients.leaders(world), undecided(world)
    if voters and world.dice() < 0.5:
        machine = world.random.choice(voters)
        vote = vote_again(world, machine) or vote_too_late(world, machine)
        if vote is not None:
            world.ask(machine, vote)
            return
    machine = world.random.choice(leaders if leaders and world.dice() < 0.4 else world.machines)
    if world.options.dynamic and machine.is_up and world.dice() < 0.1:
        strange_upgrade(world, machine)
        return
    strange = (*STRANGE, *STRANGE_CHANGES) if world.options.dynamic else STRANGE
    request = describe() if world.dice() < 0.2 else world.random.choice(strange)(world, machine)
    world.ask(machine, request)


def describe() -> Message:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def any_epoch(world: RunningWorld) -> int:
    """The latest epoch, an earlier one, or -1; rarely an epoch so far ahead that no node accepts it."""
    last = world.facts.last_epoch
    if world.dice() < 0.03:
        return world.random.choice((LAST_EPOCH, last + FAR_EPOCHS))
    return last if world.dice() < 0.5 else world.random.randrange(-1, last + 1)


def any_id(world: RunningWorld) -> int:
    """An id that no machine has."""
    return world.random.choice((-1, NOBODY, 1 << 30))


def any_replica(world: RunningWorld) -> int:
    """The id of an unknown replica; in a dynamic quorum sometimes a machine's id, for use with a new directory id."""
    return any_id(world) if world.dice() < 0.5 or not world.options.dynamic else any_machine(world).index


def any_machine(world: RunningWorld) -> Machine:
    return world.random.choice(world.machines)


def wrong_directory(world: RunningWorld, machine: Machine) -> Uuid:
    """A directory id that is not the machine's: another machine's, or a new one."""
    other = any_machine(world)
    return world.new_directory() if other is machine or world.dice() < 0.5 else other.key.directory_id


def any_cluster(world: RunningWorld) -> str | None:
    return world.random.choice((world.cluster_id, "another-cluster-000000", None))


def strange_fetch(world: RunningWorld, machine: Machine) -> Message:
    partition = FetchPartition(
        partition=world.random.choice((0, 0, 0, 1)),
        current_leader_epoch=any_epoch(world),
        fetch_offset=world.random.randrange(-1, world.facts.committed.end + 10),
        last_fetched_epoch=any_epoch(world),
        partition_max_bytes=0,
        replica_directory_id=world.new_directory(),
    )
    return FetchRequest(
        cluster_id=any_cluster(world),
        replica_state=ReplicaState(replica_id=any_replica(world)),
        max_wait_ms=world.random.choice((0, 500, LONGEST_WAIT_MS)),
        min_bytes=1,
        topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        forgotten_topics_data=[],
    )


def strange_fetch_snapshot(world: RunningWorld, machine: Machine) -> Message:
    known: list[Any] = [OffsetAndEpoch(3, 1), *world.facts.snapshots]
    chosen = world.random.choice(known)
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=world.random.choice((0, 0, 0, 1)),
        current_leader_epoch=any_epoch(world),
        snapshot_id=SnapshotId(end_offset=chosen.offset, epoch=chosen.epoch),
        position=world.random.choice((-1, 0, 17, 1 << 40)),
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=any_cluster(world), replica_id=any_id(world), topics=[topic])


def strange_vote(world: RunningWorld, machine: Machine) -> Message:
    """A Vote request that names a voter by id and directory, each right or wrong, or no voter."""
    directory_id = machine.key.directory_id if world.dice() < 0.5 else wrong_directory(world, machine)
    partition = VoteRequestPartitionData(
        partition_index=world.random.choice((0, 0, 0, 1)),
        replica_epoch=any_epoch(world),
        replica_id=any_id(world),
        voter_directory_id=directory_id,
        last_offset_epoch=any_epoch(world),
        last_offset=world.random.randrange(-1, world.facts.committed.end + 10),
        pre_vote=machine.level != "3.9" and world.dice() < 0.5,
    )
    topic = VoteRequestTopicData(
        topic_name=world.random.choice((METADATA_TOPIC, METADATA_TOPIC, "other")), partitions=[partition]
    )
    voter_id = machine.index if world.dice() < 0.6 else any_id(world)
    return VoteRequest(cluster_id=any_cluster(world), voter_id=voter_id, topics=[topic])


def undecided(world: RunningWorld) -> list[Machine]:
    """Machines that know no leader and have not voted for themselves: they must check a vote carefully."""
    return [
        each
        for each in world.machines
        if each.is_up
        and type(each.node.quorum.state) in (Unattached, Prospective)
        and each.node.state.leader_id < 0
        and (each.node.state.voted is None or each.node.state.voted.id != each.index)
    ]


def vote_too_late(world: RunningWorld, machine: Machine) -> Message | None:
    """A Vote request with the machine's own log end, in a past epoch; None if no past epoch fits this log."""
    state, log = machine.node.state, machine.log
    if state.epoch <= log.last_epoch + 1:
        return None
    epoch = world.random.randrange(log.last_epoch + 1, state.epoch)
    partition = VoteRequestPartitionData(
        replica_epoch=epoch, replica_id=NOBODY, last_offset_epoch=log.last_epoch, last_offset=log.end_offset
    )
    topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=world.cluster_id, voter_id=machine.index, topics=[topic])


def vote_again(world: RunningWorld, machine: Machine) -> Message | None:
    """A Vote request, with an empty log, in the name of the candidate that the machine has voted for; None without it.

    A candidate of Kafka may send this after a crash that lost the end of its log. No node of this quorum does so. A
    vote that the stranger gets counts nowhere.
    """
    state = machine.node.state
    if state.voted is None:
        return None
    partition = VoteRequestPartitionData(
        replica_epoch=state.epoch,
        replica_id=state.voted.id,
        replica_directory_id=state.voted.directory_id,
        voter_directory_id=machine.key.directory_id,
        last_offset_epoch=0,
        last_offset=0,
    )
    topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=world.cluster_id, voter_id=machine.index, topics=[topic])


def strange_begin(world: RunningWorld, machine: Machine) -> Message:
    partition = BeginQuorumEpochRequestPartitionData(
        partition_index=0,
        voter_directory_id=world.new_directory(),
        leader_id=any_id(world),
        leader_epoch=any_epoch(world),
    )
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    cluster_id = any_cluster(world) if partition.leader_epoch >= FAR_EPOCHS else "another-cluster-000000"
    return BeginQuorumEpochRequest(cluster_id=cluster_id, topics=[topic], leader_endpoints=[])


def strange_end(world: RunningWorld, machine: Machine) -> Message:
    partition = EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=any_id(world),
        leader_epoch=any_epoch(world),
        preferred_successors=[],
        preferred_candidates=[],
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=any_cluster(world), topics=[topic], leader_endpoints=[])


def strange_add(world: RunningWorld, machine: Machine) -> Message:
    """An AddRaftVoter request for a replica that does not exist."""
    named = any_machine(world)
    is_nobody = world.dice() < 0.3
    return AddRaftVoterRequest(
        cluster_id=any_cluster(world),
        timeout_ms=1_000,
        voter_id=any_id(world) if is_nobody else named.index,
        voter_directory_id=wrong_directory(world, named),
        listeners=listeners(world, named),
    )


def strange_remove(world: RunningWorld, machine: Machine) -> Message:
    """A RemoveRaftVoter request with a machine's id, and with no directory id or a wrong one."""
    named = any_machine(world)
    directory_id = NO_DIRECTORY if world.dice() < 0.2 else wrong_directory(world, named)
    return RemoveRaftVoterRequest(cluster_id=any_cluster(world), voter_id=named.index, voter_directory_id=directory_id)


def strange_update(world: RunningWorld, machine: Machine) -> Message:
    """An UpdateRaftVoter request with a wrong directory id, or with unsuitable kraft.versions."""
    named = any_machine(world)
    is_right = world.dice() < 0.3
    lowest, highest = world.random.choice(((2, 3), (1, 0), (-1, 1))) if is_right else (0, 1)
    return UpdateRaftVoterRequest(
        cluster_id=any_cluster(world),
        current_leader_epoch=any_epoch(world),
        voter_id=named.index,
        voter_directory_id=named.key.directory_id if is_right else wrong_directory(world, named),
        listeners=listeners(world, named),
        kraft_version_feature=KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
    )


def strange_upgrade(world: RunningWorld, machine: Machine) -> None:
    """An administrator requests a kraft.version that the leader has already, or that does not exist."""
    node = machine.node
    if node.leads and not machine.blocked:
        version, only_asks = world.random.choice((-1, 0, 1, 2)), world.dice() < 0.3
        now_ms = machine.clock.ms(world.now_us)
        _, effects = node.upgrade_kraft_version(version, node.epoch, now_ms, validate_only=only_asks)
        world.tell(machine, effects)


def listeners(world: RunningWorld, machine: Machine) -> list[Listener]:
    """The machine's endpoint; sometimes with a listener name that nodes do not use among themselves."""
    name = LISTENER if world.dice() < 0.9 else "EXTERNAL"
    return [Listener(name=name, host=machine.address.host, port=machine.address.port)]


STRANGE: Final = (strange_fetch, strange_fetch_snapshot, strange_vote, strange_begin, strange_end)
STRANGE_CHANGES: Final = (strange_add, strange_remove, strange_update)
