"""Counts what happened in simulated clusters, and lists what a campaign should have seen and has not.

Every fault can meet every state of STATES, so a campaign must see all pairs. No fault waits for the end of a state. A
raft leader can resign before its controller is active. Records that some releases do not write are in CANNOT_BE, each
with its reason.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from kcore.releases.known import RELEASES
from kcore.releases.rules import Rules
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
    *("leader elected: it joins as a reassignment ends", "snapshot made", "log start moved"),
    "broker stops: a directory failed",
)
RECORDS: Final = (
    *("BeginTransactionRecord", "EndTransactionRecord", "FeatureLevelRecord", "ZkMigrationStateRecord", "ConfigRecord"),
    *("RegisterBrokerRecord", "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord", "ClearElrRecord"),
    *("TopicRecord", "RemoveTopicRecord", "PartitionRecord", "PartitionChangeRecord"),
)
CANNOT_BE: Final[Mapping[str, tuple[Callable[[Rules], bool], str]]] = {
    # By name: which rules of a release exclude it, and why.
    "record: ClearElrRecord": (
        lambda rules: not rules.elr_is_a_feature,
        "without the feature, ELR needs a metadata.version above the newest one of the release (KIP-966)",
    ),
    "record: ZkMigrationStateRecord": (
        lambda rules: not rules.migrates_from_zookeeper,
        "Kafka 4.0 removed the migration from ZooKeeper",
    ),
}


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


def never_seen(seen: Collection[str], release: str | None = None) -> list[str]:
    """The names that `seen` lacks although worlds can have them.

    Names are the faults in each state, the administrator's actions, the states of brokers, records and other events.
    `release`: the release of all worlds; None if each world draws its own.
    """
    every = [
        *(pair(fault, state) for fault in (*FAULTS, *OWN_FAULTS) for state in STATES),
        *(f"administrator: {name}" for name in WEIGHTS),
        *(f"broker: {name}" for name in BROKER_STATES),
        *(f"record: {name}" for name in RECORDS),
        *OTHERS,
    ]
    excluded = set[str]()
    if release is not None:
        excluded.update(name for name, (is_excluded, _) in CANNOT_BE.items() if is_excluded(RELEASES[release].rules))
    return [name for name in every if name not in seen and name not in excluded]
