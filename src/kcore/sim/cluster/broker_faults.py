"""The faults of brokers that the faults of a quorum lack: fast restarts, controlled shutdowns, lost directories."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from kcore.broker.lifecycle.machine import BrokerState
from kcore.sim.cluster.broker_disks import BrokerDisks
from kcore.sim.cluster.broker_process import BrokerProcess
from kcore.sim.raft import crash_points, processes
from kcore.sim.raft.faults import duration_us, note
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine

BOUNCE_US: Final = (100, 1_000, 20_000)  # Faster than any detection.


class Brokers(Protocol):
    """The brokers of a program."""

    brokers: dict[int, BrokerProcess]
    disks: dict[int, BrokerDisks]


def _chosen(world: RunningWorld, cluster: Brokers) -> tuple[Machine, BrokerProcess] | None:
    """A broker that runs."""
    running = [index for index in cluster.brokers if not world.machines[index].blocked]
    if not running:
        return None
    index = world.random.choice(running)
    return world.machines[index], cluster.brokers[index]


def bounce(world: RunningWorld, cluster: Brokers) -> None:
    """Kills a broker, and starts its next incarnation before any time-out."""
    found = _chosen(world, cluster)
    if found is not None:
        note(world, "bounce")
        processes.kill(world, found[0], peers_know=True)
        crash_points.boot_after(world, found[0], world.random.choice(BOUNCE_US))


def controlled_shutdown(world: RunningWorld, cluster: Brokers) -> None:
    """Asks a broker to stop: the controller moves its leaders first."""
    found = _chosen(world, cluster)
    if found is not None and found[1].lifecycle.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        note(world, "controlled_shutdown")
        found[1].shut_down()


def lose_directory(world: RunningWorld, cluster: Brokers) -> None:
    """A log directory of a broker fails."""
    found = _chosen(world, cluster)
    if found is None:
        return
    machine, broker = found
    disks = cluster.disks[machine.index]
    online = sorted(disks.online)
    if online:
        note(world, "lose_directory")
        directory = world.random.choice(online)
        disks.lose(directory)
        broker.lose_directory(directory)


def lose_broker(world: RunningWorld, cluster: Brokers) -> None:
    """Kills a broker, and replaces all of its log directories."""
    found = _chosen(world, cluster)
    if found is None:
        return
    note(world, "lose_broker")
    processes.kill(world, found[0], peers_know=world.dice() < 0.5)
    disks = cluster.disks[found[0].index]
    for directory in [*disks.directories]:
        disks.lose(directory)
    disks.replace_lost()
    crash_points.restart_later(world, found[0], duration_us(world))


FAULTS: Final[dict[str, Callable[[RunningWorld, Any], None]]] = {
    fault.__name__: fault for fault in (bounce, controlled_shutdown, lose_directory, lose_broker)
}
