"""Crashes machines at critical moments: between two steps such as a write and its flush, or a vote and its answer.

Crashes at random times seldom hit such a moment. A trap waits for a moment of the machine, and crashes the machine
then or a little later.
"""

from typing import Final

from kcore.sim.raft import processes
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine

MOMENTS: Final = (
    *("log written", "log cut", "election written", "election stored", "snapshot frozen"),
    *("VoteRequest", "FetchRequest", "FetchSnapshotRequest", "BeginQuorumEpochRequest", "EndQuorumEpochRequest"),
    *("VoteResponse granted", "FetchResponse records", "FetchResponse diverging", "FetchResponse snapshot"),
    *("FetchSnapshotResponse", "AddRaftVoterResponse", "RemoveRaftVoterResponse"),
)
SOON_US: Final = (1_000, 20_000, 200_000)  # Delays of a crash after its moment, and of a power cut after a restart.
KILL, KILL_AND_CUT, CUT = range(3)  # kill -9; kill -9, and a power cut soon after the restart; a power cut.


def lay(world: RunningWorld, machine: Machine, restart_us: int) -> None:
    """Sets a trap for a random moment, in place of an earlier trap. 60% of the traps need unflushed records."""
    wanted, only_behind = world.random.choice(MOMENTS), world.dice() < 0.6
    kind, delay_us = world.random.randrange(3), world.random.choice((0, *SOON_US))

    def spring(moment: str) -> None:
        log = machine.log
        if moment != wanted or (only_behind and log.end_offset <= log.durable_end):
            return
        machine.trap = None
        world.seen[f"trap: {moment}"] += 1
        incarnation = machine.incarnation
        world.after_us(delay_us * world.dice(), lambda: _crash(world, machine, incarnation, kind, restart_us))

    machine.trap = spring


def lay_in_files(world: RunningWorld, machine: Machine, restart_us: int) -> None:
    """Crashes the machine at one of its next file operations, also during the recovery after another crash."""
    machine.crash = world.random.choice((KILL, CUT)), restart_us
    machine.disk.crash_after(world.random.randrange(world.random.choice((2, 10, 40))))


def crash_in_event(world: RunningWorld, machine: Machine) -> None:
    """Performs the crash that `lay_in_files` has set, at its file operation."""
    kind, restart_us = machine.crash or (KILL, SOON_US[-1])
    world.seen["crash in recovery" if not machine.is_up else "crash between two operations on files"] += 1
    processes.crash_in_event(world, machine, is_power_cut=kind == CUT)
    if world.dice() < 0.3:  # The recovery crashes too.
        lay_in_files(world, machine, restart_us)
    restart_later(world, machine, restart_us)


def _crash(world: RunningWorld, machine: Machine, incarnation: int, kind: int, restart_us: int) -> None:
    """Crashes the machine, if its process still runs, in the way that `kind` says."""
    if not machine.is_up or machine.incarnation != incarnation or world.is_healing:
        return
    if kind == CUT:
        processes.cut_power(world, machine)
        restart_later(world, machine, restart_us)
        return
    processes.kill(world, machine, peers_know=world.dice() < 0.5)
    if kind == KILL:
        restart_later(world, machine, restart_us)
        return
    boot_after(world, machine, SOON_US[0])

    def cut() -> None:
        if machine.is_up and machine.incarnation == incarnation + 1 and not world.is_healing:
            processes.cut_power(world, machine)
            restart_later(world, machine, restart_us)

    world.after_us(SOON_US[0] + world.random.choice(SOON_US) * (0.5 + world.dice()), cut)


def restart_later(world: RunningWorld, machine: Machine, restart_us: int) -> None:
    """Restarts the machine soon, as a supervisor does, or after `restart_us`."""
    boot_after(world, machine, world.random.choice((1_000, 500_000, restart_us)))


def boot_after(world: RunningWorld, machine: Machine, delay_us: int) -> None:
    """Starts the machine, unless it runs already."""

    def boot() -> None:
        if not machine.is_up:
            processes.boot(world, machine)

    world.after_us(delay_us, boot)
