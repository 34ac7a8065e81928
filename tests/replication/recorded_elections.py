"""The recorded elections in the words of the tests: kinds, states, levels and who is live."""

from typing import Any

import cases
from kcore.replication.elect_one import LeaderAndIsr

Case = dict[str, Any]
PLAIN_OPS = ("fence", "unfence", "online", "unclean", "preferred", "alter_isr", "recover")
# Number of cases in the public files: a change of the filter would show.
PLAIN_KRAFT_CASES = {"3.9.1": 467, "4.1.2": 565}


def zookeeper_cases() -> list[Case]:
    """Every case of kafka.controller.Election, with its `kind` as `elect` names it."""
    chosen = cases.load("zk_election_3.9.1")
    assert chosen
    return [case | {"kind": case["type"].replace("_", "-")} for case in chosen]


def zookeeper_live(case: Case) -> list[int]:
    """Brokers that are registered and have the partition's log directory online."""
    return [broker for broker in case["live"] if broker not in case["offline_dirs"]]


def plain_kraft_cases(release: str) -> list[Case]:
    """Cases of PartitionChangeBuilder without eligible leader replicas, directories, migration and reassignment."""
    return [
        case
        for case in cases.load(f"kraft_pcb_{release}")
        if case["op"] in PLAIN_OPS
        and not any(case[name] for name in ("elr_enabled", "mv_directories", "zk_migration"))
        and not any(case["partition"][name] for name in ("elr", "last_known_elr", "adding", "removing"))
    ]


def kraft_acceptable(case: Case) -> set[int]:
    """The brokers that may lead: not one that is being fenced; one that is being unfenced
    (generateLeaderAndIsrUpdates).
    """
    return (set(case["acceptable"]) | ({case["subject"]} if case["op"] == "unfence" else set())) - (
        {case["subject"]} if case["op"] == "fence" else set()
    )


def kraft_level(case: Case, release: str) -> str:
    """IBP_3_6_IV0 of 4.1.2 is the level "3.6-IV0@4.1.2"."""
    major, minor, revision = case["metadata_version"].removeprefix("IBP_").split("_")
    return f"{major}.{minor}-{revision}@{release}"


def as_state(fields: Case) -> LeaderAndIsr:
    """A recorded state: ZooKeeper's has `recovery`, KRaft's `leader_recovery_state`."""
    recovery = fields["recovery"] if "recovery" in fields else fields["leader_recovery_state"]
    return LeaderAndIsr(
        fields["leader"], tuple(fields["isr"]), fields["leader_epoch"], fields["partition_epoch"], recovery
    )
