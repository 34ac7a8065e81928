"""After all faults have ended, the cluster must work within a bound of simulated time (I11)."""

from collections.abc import Iterator
from typing import Final

from kcore.broker.lifecycle.machine import BrokerState
from kcore.raft.states import Leader
from kcore.sim.cluster.cluster_program import ClusterProgram
from kcore.sim.cluster.committed_cluster import NO_LEADER
from kcore.sim.cluster.misplaced_members import is_online
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.world import World

WITHIN_US: Final = 120_000_000  # The longest time from the end of all faults.
MOST_EVENTS: Final = 150_000
STEP: Final = 200  # Events between two checks.
KEPT_US: Final = 5_000_000  # The time for which the cluster must then stay as it is.


def heal_and_demand(world: World, cluster: ClusterProgram) -> int:
    """Ends all faults; returns the simulated us until the cluster worked. Violation if this takes too long."""
    world.heal()
    began_us, last = world.now_us, world.count + MOST_EVENTS
    missing = ["nothing was checked"]
    while world.heap[0][0] <= began_us + WITHIN_US and world.count < last:
        world.take(STEP, began_us + WITHIN_US)
        missing = [*_missing(world, cluster)]
        if not missing:
            took_us = world.now_us - began_us
            _demand_that_it_lasts(world, cluster)
            return took_us
    raise Violation("I11 Liveness", f"{(world.now_us - began_us) / 1e6:.1f} s after all faults: {'; '.join(missing)}")


def _demand_that_it_lasts(world: World, cluster: ClusterProgram) -> None:
    """Without faults no broker is fenced, and every node has the image that the committed log describes."""
    world.take(MOST_EVENTS, world.now_us + KEPT_US)
    for broker_id, broker in cluster.facts.cluster.brokers.items():
        if not broker.is_active:
            raise Violation("I11 Liveness", f"broker {broker_id} is fenced without a fault: {broker}")
    for machine in world.machines:
        cluster.compare(machine)


def _missing(world: World, cluster: ClusterProgram) -> Iterator[str]:
    """Descriptions of the work that the cluster still has to do."""
    leading = [each for each in world.machines if each.is_up and type(each.node.state) is Leader]
    if len(leading) != 1 or cluster.active() is not leading[0]:
        yield "no controller is active"
        return
    epoch = leading[0].node.epoch
    behind = [each.index for each in world.machines if not each.is_up or each.node.epoch != epoch]
    if behind:
        yield f"nodes {behind} do not follow the leader"
    known = cluster.facts.cluster
    for index in range(cluster.options.controllers, len(world.machines)):
        process, broker = cluster.brokers.get(index), known.brokers.get(index)
        if process is None or process.lifecycle.state is not BrokerState.RUNNING:
            yield f"broker {index} does not run"
        elif broker is None or not broker.is_active:
            yield f"broker {index} is not active: {broker}"
        elif process.directories.queue.queued:
            yield f"broker {index} has {process.directories.queue.queued} assignments to send"
    yield from _partitions(cluster)


def _partitions(cluster: ClusterProgram) -> Iterator[str]:
    known = cluster.facts.cluster
    for (topic_id, index), partition in known.partitions.items():
        name = f"{known.names[topic_id]}-{index}"
        if partition.leader == NO_LEADER:
            able = [
                each
                for each in (*partition.isr, *partition.elr)
                if each in known.brokers and is_online(known.brokers[each], partition.directory_of(each))
            ]
            if able:
                yield f"{name} has no leader, but {able} may lead: {partition}"
        elif partition.adding or partition.removing:
            yield f"the reassignment of {name} does not end: {partition}"
        else:
            for each in partition.isr:
                if each in known.brokers and not is_online(known.brokers[each], partition.directory_of(each)):
                    yield f"broker {each} does not assign a directory to {name}: {partition}"
