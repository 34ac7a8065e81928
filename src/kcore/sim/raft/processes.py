"""Starts and ends processes: what each end leaves on the disk, and what the next start finds there."""

from collections.abc import Sequence
from typing import Final

from kcore.errors import StorageError
from kcore.raft.driver import StateMachineDriver
from kcore.raft.membership.replicas import ReplicaKey, Voter
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.releases.release import LOG_LEVELS
from kcore.sim.kernel.events import RESPONSE
from kcore.sim.kernel.simulated_process import PAUSED
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.disk import (
    STORE_STEPS,
    SimDirectory,
    WatchedLog,
    crash_within,
    formatted,
    found_election,
    power_cut,
)
from kcore.sim.raft.options import INDEX_SHARE, MIXED, MOST_REMEMBERED, RELEASES
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine, Reply
from kcore.sim.raft.watched_state_machine import WatchedStateMachine
from kcore.storage.log.segmented_log import Settings
from kcore.wire.record_batch import INDEX_INTERVAL_BYTES

REFUSED_US: Final = 50  # The time until a machine without a process refuses a connection.
OTHER_RELEASE: Final = 0.3  # The share of starts in a mixed world that change the release.


def boot(world: RunningWorld, machine: Machine) -> None:
    """Starts a process from the machine's disk."""
    machine.forget()
    machine.incarnation += 1
    if world.options.level == MIXED and world.dice() < OTHER_RELEASE:
        machine.level = world.random.choice(RELEASES)
    open_directory(world, machine)
    machine.is_up = True
    world.checkers.on_open(machine)
    before = machine.node if machine.incarnation > 1 else None
    machine.node = RaftNode(_config(world, machine), machine.log)
    if before is not None:  # The node and its quorum refer to each other: frees them without the garbage collector.
        del before.quorum
    machine.watched = WatchedStateMachine(machine, world.program.state_machine(machine))
    machine.driver = StateMachineDriver(machine.node, machine.watched)
    world.checkers.on_boot(machine)
    world.edge.perform(machine, machine.node.start(machine.stored, machine.clock.ms(world.now_us)))
    if machine.is_up:
        world.program.on_started(machine)


def open_directory(world: RunningWorld, machine: Machine) -> None:
    """Opens the directory as `kcore quorum serve` does: recovers and flushes the log, and reads the stored election.

    Violation if it does not open, which it must after any crash. A power cut may leave whole batches after a damaged
    one.
    """
    options, files = world.options, machine.disk
    named = () if options.dynamic or not machine.is_configured else range(options.voters)
    interval_bytes = min(INDEX_INTERVAL_BYTES, options.segment_bytes // INDEX_SHARE)
    try:
        machine.directory = SimDirectory(files, machine.index, world.cluster_id, named, world.checkers.watcher(machine))
        log, machine.stored = machine.directory.open(
            Settings(options.segment_bytes, interval_bytes, set_aside=True),
            level=LOG_LEVELS[machine.level],
        )
    except StorageError as error:
        if files.has_refused:
            raise
        raise Violation("DirectoryOpens", f"node {machine.index}: {error}") from error
    assert isinstance(log, WatchedLog)
    machine.log = log


def empty_disk(world: RunningWorld, machine: Machine, voters: Sequence[Voter] = ()) -> None:
    """Gives a machine a formatted disk that no process has used; `voters` are the first voters of a dynamic quorum."""
    machine.disk = formatted(machine.key, world.cluster_id, voters)
    open_directory(world, machine)
    machine.log.end_process()
    machine.disk.end_process()


def _config(world: RunningWorld, machine: Machine) -> RaftConfig:
    options, dice = world.options, world.dice
    depends = machine.key, machine.level, machine.is_configured  # Nothing else in the config changes between processes.
    if machine.config is not None and machine.config[0] == depends:
        return machine.config[1]
    named = () if options.dynamic or not machine.is_configured else world.machines[: options.voters]
    config = RaftConfig(
        world.cluster_id,
        node_id=machine.key.id,
        directory_id=machine.key.directory_id,
        endpoints=machine.endpoints,
        jitter_ms=lambda below: int(dice() * below),
        voters=tuple(voter.as_voter(directory_known=False) for voter in named),
        # An upgraded quorum needs these too: its voters may differ from the configuration.
        bootstrap_servers=tuple(each.address for each in world.machines) if options.dynamic or options.upgraded else (),
        level=machine.level,
        auto_join=options.auto_join,
        most_observers=MOST_REMEMBERED,
        most_waiting=MOST_REMEMBERED,
        append_linger_ms=options.append_linger_ms,
        fetch_max_bytes=options.fetch_max_bytes,
        fetch_snapshot_max_bytes=options.fetch_snapshot_max_bytes,
        early_high_watermark=options.early_high_watermark,
        pipelined_fetch=options.pipelined_fetch,
        endless_elections=options.endless_elections,
        elects_when_refused=options.elects_when_refused,
    )
    machine.config = depends, config
    return config


def kill(world: RunningWorld, machine: Machine, *, peers_know: bool) -> None:
    """Kills the process, as kill -9 does. The disk keeps all writes; a power cut may still lose the unflushed ones."""
    world.seen["kill: unflushed tail" if machine.log.end_offset > machine.log.durable_end else "kill: all flushed"] += 1
    _leave_election(world, machine, "kill")
    _end(world, machine, peers_know=peers_know)


def _leave_election(world: RunningWorld, machine: Machine, end: str) -> None:
    """If the process is storing an election, performs a random number of the steps before the process ends."""
    pending = machine.storing
    if pending is not None:
        steps = world.random.randint(0, STORE_STEPS)
        world.seen[f"{end}: election stored up to step {steps} of {STORE_STEPS}"] += 1
        store = machine.directory.store_election
        crash_within(machine.disk, steps, lambda: store(pending.election, pending.kraft_version))


def cut_power(world: RunningWorld, machine: Machine, *, peers_know: bool = False) -> None:
    """Cuts the power: each file keeps its flushed data and a random part of the unflushed data."""
    _leave_election(world, machine, "power cut")
    if machine.is_up:
        machine.log.end_process()  # After a power cut only durable records are sure to remain.
    for fate in power_cut(machine.disk, world.random):
        world.seen[f"power cut: {fate}"] += 1
    if machine.is_up:
        _end(world, machine, peers_know=peers_know)
    else:
        machine.stored = found_election(machine.disk, machine.index)


def crash_in_event(world: RunningWorld, machine: Machine, *, is_power_cut: bool) -> None:
    """Ends the process whose file operation has crashed in the middle of an event; its writes may be incomplete."""
    if machine.is_up:
        world.checkers.on_crash_in_event(machine)
        machine.log.end_process()
    machine.disk.end_process()
    if is_power_cut:
        power_cut(machine.disk, world.random)
    if machine.is_up:
        _end(world, machine, peers_know=world.dice() < 0.5)
    else:
        machine.stored = found_election(machine.disk, machine.index)


def fail(world: RunningWorld, machine: Machine) -> None:
    """Ends the process because its full disk has refused a write. `QuorumRuntime` ends then too."""
    world.seen["a full disk ends a process"] += 1
    machine.disk.has_refused = False
    crash_in_event(world, machine, is_power_cut=False)


def _end(world: RunningWorld, machine: Machine, *, peers_know: bool) -> None:
    machine.log.end_process()
    machine.disk.end_process()
    machine.stored = found_election(machine.disk, machine.index)
    world.checkers.on_end(machine)
    end(world, machine)
    if peers_know:
        for peer in world.machines:
            for call in [each for each in peer.open.values() if each.destination is machine]:
                world.push(world.now_us + REFUSED_US, RESPONSE, peer, Reply(call, None))


def stopped(world: RunningWorld, machine: Machine) -> None:
    """Flushes the log of a process that ends by itself, and ends the process."""
    world.seen["stopped gracefully"] += 1
    machine.log.close()
    machine.log.end_process()
    machine.disk.end_process()
    world.checkers.on_end(machine)
    end(world, machine)


def end(world: RunningWorld, machine: Machine) -> None:
    """Marks the machine as down, and keeps its node's state transitions for the coverage."""
    machine.is_up = False
    world.program.on_ended(machine)
    world.taken.update(machine.node.quorum.taken)
    machine.forget()


def pause(world: RunningWorld, machine: Machine, duration_us: int) -> None:
    """Pauses the process for `duration_us`; the process does not notice the pause."""
    incarnation = machine.incarnation

    def end_of_pause() -> None:
        if machine.incarnation == incarnation and machine.is_up:
            resume(world, machine)

    machine.blocked |= PAUSED
    world.after_us(duration_us, end_of_pause)


def resume(world: RunningWorld, machine: Machine) -> None:
    machine.resumed_us = world.now_us
    world.unblock(machine, PAUSED)


def replace_disk(world: RunningWorld, machine: Machine) -> None:
    """Replaces the disk by an empty one with another directory id: the machine forgets its vote."""
    version = machine.node.voter_history.kraft_version
    machine.key = ReplicaKey(machine.index, world.new_directory())
    empty_disk(world, machine)
    if version > 0:
        machine.is_configured = False  # Otherwise it would vote as a configured voter, with nothing on its disk.
    else:  # A static voter, known only by its id, stays the same voter, but has forgotten its vote.
        world.checkers.on_forgotten(machine)
