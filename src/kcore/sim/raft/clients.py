"""The clients of a quorum: appends, snapshots, changes of the voters."""

from collections.abc import Iterable
from typing import Final

from kcore.raft import snapshots
from kcore.raft.log.snapshot_writing import SnapshotWriter
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.states import Leader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.raft_voters import AddRaftVoterRequest, Listener, RemoveRaftVoterRequest
from kcore.schema.structure import Message
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import LISTENER, Machine
from kcore.wire.record_building import encode_values

AUDIT_US: Final = 250_000
AT_ONCE: Final = 0.5  # The share of cases with several appends in which one event decides all of these.
PAD_BYTES: Final = 300  # The size of a snapshot's second record.
SLICE_US: Final = 20_000  # The unit of the delays between the slices of a snapshot.
MOST_WRITING: Final = 2  # Snapshots that one node writes at the same time.


def begin(world: RunningWorld) -> None:
    """Starts the clients, each with its own mean interval."""
    options = world.options
    world.every_us(options.append_every_us, lambda: append(world))
    world.every_us(options.snapshot_every_us, lambda: snapshot(world))
    world.every_us(AUDIT_US, lambda: audit(world))
    if options.dynamic or options.upgraded:
        world.every_us(options.change_every_us, lambda: change_voters(world))


def audit(world: RunningWorld) -> None:
    """Runs the audits of the checkers, and counts whether the quorum has a leader with a high watermark."""
    world.checkers.audit()
    led = any(machine.node.high_watermark is not None for machine in leaders(world))
    world.seen["audit: a leader works" if led else "audit: nobody leads"] += 1


def leaders(world: RunningWorld) -> list[Machine]:
    """The machines that are up, not blocked, and whose node is in the leader's state."""
    return [
        each for each in world.machines if each.is_up and not each.blocked and type(each.node.quorum.state) is Leader
    ]


def append(world: RunningWorld) -> None:
    """Appends one to five records, each alone or all in one batch, to a leader; to any node if none leads."""
    machines = leaders(world) or [each for each in world.machines if each.is_up and not each.blocked]
    if machines:
        machine = world.random.choice(machines)
        counts = [1] * world.random.choice((1, 1, 1, 3)) if world.dice() < 0.8 else [world.random.choice((2, 5))]
        appends = []
        for count in counts:
            appends.append([b"record %d" % (world.sequence + k) for k in range(count)])
            world.sequence += count
        if len(appends) > 1 and world.dice() < AT_ONCE:
            world.append(machine, *appends)
            return
        for values in appends:
            if machine.is_up and not machine.blocked:
                world.append(machine, values)


def snapshot(world: RunningWorld) -> None:
    """Begins a snapshot at a node's high watermark; or, if the node has this snapshot, deletes the log before it."""
    machine = world.random.choice(world.machines)
    if not machine.is_up or machine.blocked or len(machine.node.writing) >= MOST_WRITING:
        return
    log, node = machine.log, machine.node
    offset = node.high_watermark
    if offset is None or offset < max(log.start_offset, 1):
        return
    epoch = log.epochs.epoch_for_offset(offset - 1)
    if epoch is None:
        return
    latest = OffsetAndEpoch(offset, epoch)
    if log.latest_snapshot == latest:
        _move_start(world, machine, latest)
        return
    writer = node.begin_snapshot(latest, 0, 0)
    if writer is None:
        world.seen["snapshot refused"] += 1
        return
    state = world.facts.committed.checksums[offset].to_bytes(4)
    writer.add(encode_values([state], base_offset=0, timestamp=0, partition_leader_epoch=0))
    incarnation = machine.incarnation

    def go_on() -> None:
        """Finishes the snapshot after other events of the node; a crash of the node in between loses the snapshot."""
        if not machine.is_up or machine.incarnation != incarnation:
            world.seen["snapshot lost by a crash"] += 1
        elif machine.blocked:
            world.after_us(SLICE_US, go_on)
        else:
            _finish(world, machine, writer)

    world.after_us(int(world.random.choice((1, 1, 1, 10, 100)) * SLICE_US * world.dice()), go_on)


def _finish(world: RunningWorld, machine: Machine, writer: SnapshotWriter) -> None:
    writer.add_values([bytes(PAD_BYTES)])
    writer.flush()()
    if not writer.freeze():
        world.seen["snapshot too late"] += 1
        return
    world.seen["snapshot made"] += 1
    _move_start(world, machine, writer.snapshot)


def _move_start(world: RunningWorld, machine: Machine, snapshot: OffsetAndEpoch) -> None:
    """Deletes the node's log before the snapshot, in 70% of the calls."""
    if world.dice() < 0.7 and snapshots.delete_before(machine.node, snapshot):
        world.seen["log start moved"] += 1


def change_voters(world: RunningWorld) -> None:
    """An administrator adds or removes a voter, and keeps enough voters whose disks are not lost."""
    machines = leaders(world)
    if not machines or world.is_healing:
        return
    leader, named = world.random.choice(machines), world.random.choice(world.machines)
    voter = leader.node.voters.voters.get(named.index)
    request: Message
    if voter is not None:
        rest = leader.node.voters.without_voter(voter.key)
        # The other voters must be able to elect a leader even if none has the record of the removal: the removed voter
        # does not stand (KAFKA-17067), and may refuse its vote to logs without it. So a quorum of two keeps both.
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
            ack_when_committed=world.dice() < 0.5 or leader.level == "3.9",
        )
    world.ask(leader if world.dice() < 0.8 else world.random.choice(world.machines), request)


def alive(world: RunningWorld, keys: Iterable[ReplicaKey]) -> list[ReplicaKey]:
    """The replicas of `keys` whose disk was not replaced."""
    return [key for key in keys if world.machines[key.id].key == key]
