"""Processes start and end: what each end leaves of the disk, and what the next start finds there."""

from typing import TYPE_CHECKING, Final

from kcore.raft.config import RaftConfig
from kcore.raft.driver import StateMachineDriver
from kcore.raft.node import RaftNode
from kcore.raft.replicas import ReplicaKey
from kcore.sim.kernel.events import RESPONSE
from kcore.sim.kernel.process import PAUSED
from kcore.sim.raft.consumer import Consumer
from kcore.sim.raft.disk import SimLog
from kcore.sim.raft.machine import Machine, Reply
from kcore.sim.raft.options import MIXED, RELEASES

if TYPE_CHECKING:
    from kcore.sim.raft.world import World

REFUSED_US: Final = 50  # How long it takes a machine without a process to say so.
OTHER_RELEASE: Final = 0.3  # So often a process of a mixed world is of another release than the one before.


def boot(world: "World", machine: Machine) -> None:
    """A process starts, from what its disk has."""
    machine.forget()
    machine.incarnation += 1
    machine.is_up = True
    if world.options.level == MIXED and world.dice() < OTHER_RELEASE:
        machine.level = world.random.choice(RELEASES)
    machine.log.set_level(machine.level)
    machine.log.open()
    election = machine.election.open()
    machine.node = RaftNode(_config(world, machine), machine.log)
    machine.consumer = Consumer(machine, world.facts)
    machine.driver = StateMachineDriver(machine.node, machine.consumer)
    world.checkers.on_boot(machine)
    world.edge.perform(machine, machine.node.start(election, machine.clock.ms(world.now_us)))


def _config(world: "World", machine: Machine) -> RaftConfig:
    options, dice = world.options, world.dice
    named = () if options.dynamic or not machine.is_configured else world.machines[: options.voters]
    return RaftConfig(
        world.cluster_id,
        node_id=machine.key.id,
        directory_id=machine.key.directory_id,
        endpoints=machine.endpoints,
        jitter_ms=lambda below: int(dice() * below),
        voters=tuple(voter.as_voter(directory_known=False) for voter in named),
        # With an upgrade, too: the voters may be others some day than the configuration says.
        bootstrap_servers=tuple(each.address for each in world.machines) if options.dynamic or options.upgraded else (),
        level=machine.level,
        auto_join=options.auto_join,
        append_linger_ms=options.append_linger_ms,
        fetch_max_bytes=options.fetch_max_bytes,
        fetch_snapshot_max_bytes=options.fetch_snapshot_max_bytes,
        early_high_watermark=options.early_high_watermark,
        pipelined_fetch=options.pipelined_fetch,
        endless_elections=options.endless_elections,
    )


def kill(world: "World", machine: Machine, *, peers_know: bool) -> None:
    """kill -9: the process is gone, what it has written is there, and no more of that is durable than before."""
    before, pending = machine.log, machine.storing
    machine.log = before.after_kill()
    world.seen["kill: unflushed tail" if machine.log.end_offset > machine.log.durable_end else "kill: all flushed"] += 1
    if pending is not None:
        luck = world.dice()
        if luck < 0.3:
            world.seen["kill: election renamed, its name not flushed"] += 1
            machine.election.rename(pending.election)
        elif luck < 0.6:
            machine.election.store(pending.election)
    _end(world, machine, before, peers_know=peers_know)


def cut_power(world: "World", machine: Machine, *, peers_know: bool = False) -> None:
    """The machine is off, process or not: of each file anything is left between what was flushed and was written."""
    before, pending = machine.log, machine.storing
    machine.log, fate = before.after_power_cut(world.random)
    world.seen[f"power cut: {fate}"] += 1
    if pending is not None and world.dice() < 0.5:
        world.seen["power cut: election stored, not yet reported"] += 1
        machine.election.store(pending.election)
    machine.election.cut_power(world.random)
    if machine.is_up:
        _end(world, machine, before, peers_know=peers_know)


def _end(world: "World", machine: Machine, before: SimLog, *, peers_know: bool) -> None:
    world.checkers.on_crash(machine, before)
    end(world, machine)
    if peers_know:
        _reset_connections(world, machine)


def stopped(world: "World", machine: Machine) -> None:
    """A process that ends by itself has flushed its log."""
    world.seen["stopped gracefully"] += 1
    machine.log.flush()
    machine.log = machine.log.after_kill()
    end(world, machine)


def end(world: "World", machine: Machine) -> None:
    """No process is left."""
    machine.is_up = False
    world.taken.update(machine.node.quorum.taken)
    machine.forget()


def _reset_connections(world: "World", machine: Machine) -> None:
    for peer in world.machines:
        for call in peer.open.values():
            if call.destination is machine:
                world.push(world.now_us + REFUSED_US, RESPONSE, peer, Reply(call, None))


def pause(world: "World", machine: Machine, duration_us: int) -> None:
    """The process does nothing, and then goes on as if nothing had been."""
    incarnation = machine.incarnation

    def end_of_pause() -> None:
        if machine.incarnation == incarnation and machine.is_up:
            resume(world, machine)

    machine.gate |= PAUSED
    world.after_us(duration_us, end_of_pause)


def resume(world: "World", machine: Machine) -> None:
    machine.resumed_us = world.now_us
    world.open_gate(machine, PAUSED)


def replace_disk(world: "World", machine: Machine) -> None:
    """An empty one: another directory, and no memory of a vote."""
    version = machine.node.voter_history.kraft_version
    machine.key = ReplicaKey(machine.index, world.new_directory())
    world.empty_disk(machine)
    if version > 0:
        machine.is_configured = False  # Or with nothing on its disk it would vote as one of the configured voters.
    else:  # Who is known by an id alone is the same voter, and forgot what it said.
        world.checkers.on_forgotten(machine)
