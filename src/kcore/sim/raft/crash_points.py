"""Crashes machines at moments that matter: between two steps that belong together.

A random crash seldom comes between two such steps: after a write and before its flush, after a vote and before its
answer. A trap waits for such a step of the machine, and crashes it then or a little later.
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
SOON_US: Final = (1_000, 20_000, 200_000)
KILL, KILL_AND_CUT, CUT = range(3)


def lay(world: RunningWorld, machine: Machine, restart_us: int) -> None:
    """Sets a trap, in place of an earlier one. More than half of the traps need a machine whose disk lags behind."""
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
    """The crash of `lay_in_files`: the operation has come."""
    kind, restart_us = machine.crash or (KILL, SOON_US[-1])
    world.seen["crash in recovery" if not machine.is_up else "crash between two operations on files"] += 1
    processes.crash_in_event(world, machine, is_power_cut=kind == CUT)
    if world.dice() < 0.3:  # The recovery crashes, too.
        lay_in_files(world, machine, restart_us)
    restart_later(world, machine, restart_us)


def _crash(world: RunningWorld, machine: Machine, incarnation: int, kind: int, restart_us: int) -> None:
    """Crashes the machine, if its process still runs. A power cut may follow soon after a kill and a restart."""
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
    """Restarts the machine at once, as a supervisor does, or long after."""
    boot_after(world, machine, world.random.choice((1_000, 500_000, restart_us)))


def boot_after(world: RunningWorld, machine: Machine, delay_us: int) -> None:
    """Starts the machine, unless it runs already."""

    def boot() -> None:
        if not machine.is_up:
            processes.boot(world, machine)

    world.after_us(delay_us, boot)
