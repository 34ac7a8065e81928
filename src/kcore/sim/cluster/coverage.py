"""Counts what happened in simulated clusters, and lists what a campaign should have seen and has not."""

from collections.abc import Collection
from typing import Final, Protocol

from kcore.sim.cluster.administrator import WEIGHTS
from kcore.sim.cluster.cluster_facts import ClusterFacts
from kcore.sim.cluster.options import OWN_FAULTS
from kcore.sim.raft.options import FAULTS
from kcore.sim.raft.simulated_machine import Machine

STATES: Final = (
    "quiet",
    "no active controller",
    "a fenced broker",
    "a controlled shutdown",
    "a reassignment",
    "no leader",
)
BROKER_STATES: Final = ("RECOVERY", "RUNNING", "PENDING_CONTROLLED_SHUTDOWN", "SHUTTING_DOWN")
OTHERS: Final = (
    *("ISR change: joins", "ISR change: leaves", "leader elected", "leader elected: unclean", "image compared"),
    *("snapshot made", "log start moved", "broker stops: a directory failed"),
)


class Cluster(Protocol):
    """The facts that `states_of` reads."""

    facts: ClusterFacts

    def active(self) -> Machine | None: ...


def states_of(cluster: Cluster) -> dict[str, bool]:
    """The states of STATES that the cluster is in."""
    known = cluster.facts.cluster
    found = {
        "no active controller": cluster.active() is None,
        "a fenced broker": any(each.fenced for each in known.brokers.values()),
        "a controlled shutdown": any(
            each.in_controlled_shutdown and not each.fenced for each in known.brokers.values()
        ),
        "a reassignment": any(each.adding or each.removing for each in known.partitions.values()),
        "no leader": any(each.leader < 0 for each in known.partitions.values()),
    }
    return {"quiet": not any(found.values()), **found}


def pair(fault: str, state: str) -> str:
    """The name of a fault in a state of the cluster."""
    return f"fault: {fault}, in state: {state}"


def never_seen(seen: Collection[str]) -> list[str]:
    """The faults in each state, the administrator's actions, and the states of brokers that `seen` lacks."""
    every = [
        *(pair(fault, state) for fault in (*FAULTS, *OWN_FAULTS) for state in STATES),
        *(f"administrator: {name}" for name in WEIGHTS),
        *(f"broker: {name}" for name in BROKER_STATES),
        *OTHERS,
    ]
    return [name for name in every if name not in seen]
