"""An administrator requests kraft.version 1 instead of 0, after which the log names the voters (KIP-853)."""

from typing import Final

from kcore.raft.membership.replicas import NO_DIRECTORY
from kcore.sim.raft import clients, faults
from kcore.sim.raft.running_world import RunningWorld

UPGRADE_US: Final = 300_000
CUT: Final = 0.5  # The share of upgrades whose leader is isolated at once: the record arrives late or is truncated.


def begin(world: RunningWorld) -> None:
    if world.options.upgraded:
        world.every_us(UPGRADE_US, lambda: upgrade(world))


def upgrade(world: RunningWorld) -> None:
    """Asks a leader to write kraft.version 1.

    Does not ask if a voter that has described itself to the leader has got another disk since. The new voter set would
    then contain the directory id of the old disk.
    """
    machines = [machine for machine in clients.leaders(world) if machine.node.high_watermark is not None]
    if not machines or world.is_healing:
        return
    machine = world.random.choice(machines)
    known = machine.node.leading.known_voters
    updated = [key for key in known.keys if key.directory_id != NO_DIRECTORY] if known is not None else []
    if len(clients.alive(world, updated)) < len(updated):
        return
    node, is_first = machine.node, machine.node.voter_history.kraft_version == 0
    problem, effects = node.upgrade_kraft_version(1, node.epoch, machine.clock.ms(world.now_us))
    world.seen["upgrade refused" if problem else "upgrade written" if is_first else "upgraded before"] += 1
    if is_first and problem is None and world.dice() < CUT:
        ends = faults.others(world, machine)
        faults.cut(world, [(machine.index, end) for end in ends] + [(end, machine.index) for end in ends])
    world.tell(machine, effects)
