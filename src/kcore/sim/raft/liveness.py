"""After all faults have ended, the quorum must elect a leader, keep it, and replicate a new record to every node."""

from typing import Final

from kcore.raft.states import Leader
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.committed import Held
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.world import World

WITHIN_US: Final = 60_000_000  # The longest time from the end of all faults until all nodes have the new record.
MOST_EVENTS: Final = 400_000  # A quorum that is busy without progress counts as stuck.
STEP: Final = 100  # Events between two checks.
KEPT_US: Final = 5_000_000  # The time for which the leader must then stay.


def heal_and_demand(world: World) -> int:
    """Ends all faults; returns the simulated us until all nodes had a new record.

    Violation if this takes too long, or if the leader changes afterwards.
    """
    world.heal()
    began_us, last = world.now_us, world.count + MOST_EVENTS
    marker: tuple[Machine, Held, int] | None = None
    while world.heap[0][0] <= began_us + WITHIN_US and world.count < last:
        world.take(STEP, began_us + WITHIN_US)
        leader = _only_leader(world)
        if leader is None:
            marker = None
        elif marker is None or marker[0] is not leader or marker[1].epoch != leader.node.epoch:
            append = world.append(leader, [b"the last record"]) if not leader.blocked else None
            marker = (leader, append, world.now_us) if append is not None else None
        elif all((machine.node.high_watermark or 0) > marker[1].offset for machine in world.machines):
            took_us = world.now_us - began_us
            _demand_that_it_lasts(world, marker[1].epoch)
            return took_us
    raise Violation("Liveness", f"{(world.now_us - began_us) / 1e6:.1f} s after all faults: {_state_of(world)}")


def _demand_that_it_lasts(world: World, epoch: int) -> None:
    """Checks that the leader stays: without faults no node has a reason to stand for election."""
    world.take(MOST_EVENTS, world.now_us + KEPT_US)
    leader = _only_leader(world)
    if leader is None or leader.node.epoch != epoch:
        raise Violation("LeaderStays", f"the leader of epoch {epoch} changes without a fault: {_state_of(world)}")


def _only_leader(world: World) -> Machine | None:
    """The leader that all machines follow; None if there is no such leader."""
    leading = [machine for machine in world.machines if machine.is_up and type(machine.node.state) is Leader]
    if len(leading) != 1:
        return None
    [leader] = leading
    agreed = all(
        machine.is_up and machine.node.leader_id == leader.index and machine.node.epoch == leader.node.epoch
        for machine in world.machines
    )
    return leader if agreed else None


def _state_of(world: World) -> str:
    return ", ".join(_node(machine) for machine in world.machines)


def _node(machine: Machine) -> str:
    if not machine.is_up:
        return f"{machine.index} down"
    log = machine.log
    return f"{machine.index} {machine.node.state} {log.start_offset}..{log.end_offset} hw {machine.node.high_watermark}"
