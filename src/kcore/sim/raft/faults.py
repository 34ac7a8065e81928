"""The faults of a world, one function each; most end after a while."""

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Final

from kcore.raft.state_machine import Resign
from kcore.raft.states import Follower, Leader
from kcore.sim.kernel.simulated_process import PAUSED
from kcore.sim.raft import crash_points, processes
from kcore.sim.raft.clients import alive
from kcore.sim.raft.disk import WatchedLog
from kcore.sim.raft.options import WEIGHTS
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine

SLOWEST_LINK_US: Final = 1_500_000
SLOW_FSYNCS_US: Final = (20_000, 200_000, 1_000_000, 5_000_000)
MAY_STILL_JOIN_US: Final = 30_000_000  # After a request to add a voter: the addition may be pending or uncommitted.


def begin(world: RunningWorld, more: Mapping[str, Callable[[], None]]) -> None:
    """Starts faults of the world's kinds at random times. Storms and calms alternate; no fault starts in a calm.

    `more`: the faults of the world's program, by name.
    """
    options, names = world.options, world.options.faults
    weights = [*accumulate([WEIGHTS.get(name, 1) for name in names])]
    is_calm = False

    def next_fault() -> None:
        if not world.is_healing and not is_calm:
            [name] = world.random.choices(names, cum_weights=weights)
            do = more.get(name)
            if do is not None:
                do()
            else:
                FAULTS[name](world)

    def turn() -> None:
        nonlocal is_calm
        is_calm = not is_calm

    world.every_us(options.fault_every_us, next_fault)
    if options.calm_us:
        world.every_us(options.calm_us, turn)


def duration_us(world: RunningWorld) -> int:
    """A random duration around the world's mean; sometimes around a time-out, to end before or after it."""
    mean_us = world.options.fault_lasts_us if world.dice() < 0.7 else world.random.choice((1_000_000, 4_000_000))
    return int(mean_us * (0.5 + world.dice()))


def up(world: RunningWorld) -> list[Machine]:
    return [machine for machine in world.machines if machine.is_up]


def chosen(world: RunningWorld) -> Machine | None:
    """A random machine that is up, in half of the calls a leader; None if all are down."""
    machines = up(world)
    leading = [machine for machine in machines if type(machine.node.state) is Leader]
    if leading and world.dice() < 0.5:
        machines = leading
    return world.random.choice(machines) if machines else None


def note(world: RunningWorld, name: str) -> None:
    world.seen[f"fault: {name}"] += 1
    world.notes(lambda: f"fault: {name}")


# Processes.


def kill(world: RunningWorld) -> None:
    """Kills one process, as kill -9 does."""
    machine = chosen(world)
    if machine is not None:
        note(world, "kill")
        processes.kill(world, machine, peers_know=world.dice() < 0.5)
        crash_points.restart_later(world, machine, duration_us(world))


def power_cut(world: RunningWorld) -> None:
    """Cuts the power of one machine, which may be down already: unflushed data may be lost."""
    behind = [machine for machine in world.machines if machine.disk.unsynced]
    machine = world.random.choice(behind) if behind and world.dice() < 0.7 else chosen(world)
    if machine is not None:
        note(world, "power_cut")
        is_up = machine.is_up
        processes.cut_power(world, machine)
        if is_up:
            crash_points.restart_later(world, machine, duration_us(world))


def outage(world: RunningWorld) -> None:
    """Cuts the power of some or all machines at once."""
    machines = up(world)
    machines = machines if world.dice() < 0.5 else [machine for machine in machines if world.dice() < 0.5]
    if machines:
        note(world, "outage")
    for machine in machines:
        processes.cut_power(world, machine)
        crash_points.restart_later(world, machine, duration_us(world))


def mid_write(world: RunningWorld) -> None:
    """Lets a process or a machine crash soon, between two file operations."""
    machine = chosen(world)
    if machine is not None:
        note(world, "mid_write")
        crash_points.lay_in_files(world, machine, duration_us(world))


def full_disk(world: RunningWorld) -> None:
    """Fills a machine's disk for a while."""
    machine = chosen(world)
    if machine is None:
        return
    note(world, "full_disk")
    disk = machine.disk
    disk.is_full = True

    def heal() -> None:
        disk.is_full = False

    world.after_us(duration_us(world), heal)


def trap(world: RunningWorld) -> None:
    """Sets traps: some machines crash at a critical moment, such as after a write and before its flush."""
    note(world, "trap")
    share = world.random.choice((0.2, 0.7))
    for machine in world.machines:
        if world.dice() < share:
            crash_points.lay(world, machine, duration_us(world))


def stop(world: RunningWorld) -> None:
    """Stops one process gracefully."""
    machine = chosen(world)
    if machine is None or machine.blocked or machine.is_stopping:
        return
    note(world, "stop")
    machine.is_stopping = True
    world.tell(machine, machine.node.shutdown(machine.clock.ms(world.now_us)))


def pause(world: RunningWorld) -> None:
    """Pauses one process, as a garbage collection or a suspended machine does."""
    machine = chosen(world)
    if machine is not None and not machine.blocked & PAUSED:
        note(world, "pause")
        processes.pause(world, machine, duration_us(world))


def resign(world: RunningWorld) -> None:
    """Lets a leader's state machine resign."""
    machine = chosen(world)
    if machine is not None and not machine.blocked and type(machine.node.state) is Leader:
        note(world, "resign")
        world.edge.submit(machine, [Resign(machine.node.epoch)])


# Clocks and disks.


def clock_jump(world: RunningWorld) -> None:
    """Moves the clock of one machine forward, so that the machine's timers fire early."""
    machine = chosen(world)
    if machine is not None:
        note(world, "clock_jump")
        machine.clock.jump(world.now_us, world.random.choice((100, 1_000, 10_000)))
        machine.forget_timer()
        world.edge.arm(machine)


def slow_log(world: RunningWorld) -> None:
    """Makes the fsyncs of a machine's log slower."""
    slow_file(world, "log_fault_us", "slow_log")


def slow_election(world: RunningWorld) -> None:
    """Makes the fsyncs of a machine's quorum-state slower."""
    slow_file(world, "election_fault_us", "slow_election")


def slow_file(world: RunningWorld, attribute: str, name: str) -> None:
    times = world.random.choice(world.machines).fsync_times
    note(world, name)
    setattr(times, attribute, world.random.choice(SLOW_FSYNCS_US))

    def heal() -> None:
        setattr(times, attribute, 0)

    world.after_us(duration_us(world), heal)


# The network.


def cut(world: RunningWorld, links: list[tuple[int, int]]) -> None:
    """Cuts these directions for a while. A direction works again when all its cuts have ended."""
    cuts = world.network.cuts
    for source, destination in links:
        cuts[source][destination] += 1

    def heal() -> None:
        if world.network.cuts is cuts:
            for source, destination in links:
                cuts[source][destination] -= 1

    world.after_us(duration_us(world), heal)


def others(world: RunningWorld, machine: Machine) -> list[int]:
    return [other.index for other in world.machines if other is not machine]


def one_way_cut(world: RunningWorld) -> None:
    """Loses all messages in one direction, between one machine and some or all other machines."""
    machine = chosen(world)
    if machine is None:
        return
    note(world, "one_way_cut")
    share = world.random.choice((0.3, 1.0))
    ends = [other for other in others(world, machine) if world.dice() <= share]
    outward = world.dice() < 0.5
    cut(world, [(machine.index, end) if outward else (end, machine.index) for end in ends])


def isolate(world: RunningWorld) -> None:
    """Loses all messages from and to one machine."""
    machine = chosen(world)
    if machine is not None:
        note(world, "isolate")
        ends = others(world, machine)
        cut(world, [(machine.index, end) for end in ends] + [(end, machine.index) for end in ends])


def split(world: RunningWorld) -> None:
    """Splits the machines into two random sides, and loses all messages between the sides."""
    note(world, "split")
    sides = [world.dice() < 0.5 for _ in world.machines]
    size = range(len(sides))
    cut(world, [(source, end) for source in size for end in size if sides[source] != sides[end]])


def slow_link(world: RunningWorld) -> None:
    """Delays all messages from one machine to another, in one direction."""
    source, end = (world.random.choice(world.machines).index for _ in range(2))
    slowness_us = world.network.slowness_us
    note(world, "slow_link")
    slowness_us[source][end] = world.random.randrange(SLOWEST_LINK_US)

    def heal() -> None:
        slowness_us[source][end] = 0

    world.after_us(duration_us(world), heal)


def noisy(world: RunningWorld) -> None:
    """Damages many answers of one machine on their way, to one other machine or to all."""
    machine = chosen(world)
    if machine is None:
        return
    note(world, "noisy")
    noise, share = world.network.noise[machine.index], world.random.choice((0.1, 0.5, 1.0))
    ends = others(world, machine)
    ends = ends if world.dice() < 0.5 else ends[:1]
    for end in ends:
        noise[end] = share

    def heal() -> None:
        for end in ends:
            noise[end] = 0.0

    world.after_us(duration_us(world), heal)


def lossy(world: RunningWorld) -> None:
    """Every link loses many messages."""
    note(world, "lossy")
    world.network.lost_more = world.random.choice((0.1, 0.5))

    def heal() -> None:
        world.network.lost_more = 0.0

    world.after_us(duration_us(world), heal)


# A lost disk.


def lost_disk(world: RunningWorld) -> None:
    """Replaces a machine's disk by an empty one, if `may_lose_disk`, and restarts the machine."""
    machine = world.random.choice(world.machines)
    if machine.is_up and may_lose_disk(world, machine):
        note(world, "lost_disk")
        processes.cut_power(world, machine, peers_know=True)
        processes.replace_disk(world, machine)
        crash_points.restart_later(world, machine, duration_us(world))


def may_lose_disk(world: RunningWorld, machine: Machine) -> bool:
    """Whether the machine's disk may be lost: no vote and no committed record depends on it."""
    if not all(each.is_up and not each.blocked and each.fsync is None for each in world.machines):
        return False
    sets = [each.node.voters for each in world.machines]
    if any(each != sets[0] for each in sets):
        return False
    if machine.node.voter_history.kraft_version > 0:
        # The machine restarts as another replica. If it was a voter, the leader still counts the lost voter.
        left = [world.machines[key.id] for key in alive(world, sets[0].keys) if key != machine.key]
        durable = [each for each in left if holds(each.log, machine.log)]
        is_asked_for = world.now_us - machine.named_us < MAY_STILL_JOIN_US
        return not is_asked_for and (machine.key not in sets[0].keys or len(durable) >= sets[0].majority)
    if machine.index not in sets[0].ids:
        return True
    rest = [world.machines[voter] for voter in sorted(sets[0].ids) if voter != machine.index]
    epoch = machine.node.epoch
    follow = [each for each in rest if isinstance(each.node.state, Leader | Follower) and each.node.epoch == epoch]
    durable = [each for each in rest if holds(each.log, machine.log)]
    led = any(type(each.node.state) is Leader for each in rest)
    return led and len(follow) == len(rest) and len(durable) >= sets[0].majority


def holds(log: WatchedLog, other: WatchedLog) -> bool:
    """Whether `log` durably has all records of `other`. Epochs count too: records at equal offsets may differ."""
    end = log.end_offset_for_epoch(other.last_epoch)
    same = end.epoch == other.last_epoch and end.offset >= other.end_offset
    return other.end_offset == 0 or (same and log.durable_end >= other.end_offset)


FAULTS: Final[dict[str, Callable[[RunningWorld], None]]] = {
    fault.__name__: fault
    for fault in (
        *(kill, power_cut, outage, trap, stop, pause, one_way_cut, isolate, split, slow_link),
        *(lossy, noisy, slow_log, slow_election, clock_jump, lost_disk, resign, mid_write, full_disk),
    )
}
