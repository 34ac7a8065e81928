"""The recorded decisions of PartitionChangeBuilder as partitions, targets, rules and changes."""

from collections.abc import Sequence
from typing import Any

import cases
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.replication.levels import level_of
from kcore.replication.partition_change import KraftRules, PartitionChange, Targets
from kcore.types import Uuid

Case = dict[str, Any]
RELEASES = ("3.9.1", "4.1.2", "4.4.0")
EXCLUDED = ("fence", "unclean_shutdown")  # generateLeaderAndIsrUpdates: the broker that leaves may not lead.


def recorded_changes(release: str) -> list[Case]:
    """All cases of one release."""
    chosen = cases.load(f"kraft_pcb_{release}")
    assert chosen
    return chosen


def registration_of(fields: Case) -> PartitionRegistration:
    """A recorded partition, before or after."""
    return PartitionRegistration(
        replicas=tuple(fields["replicas"]),
        directories=tuple(map(Uuid, fields["directories"])),
        isr=tuple(fields["isr"]),
        removing_replicas=tuple(fields["removing"]),
        adding_replicas=tuple(fields["adding"]),
        elr=tuple(fields["elr"]),
        last_known_elr=tuple(fields["last_known_elr"]),
        leader=fields["leader"],
        leader_recovery_state=fields["leader_recovery_state"],
        leader_epoch=fields["leader_epoch"],
        partition_epoch=fields["partition_epoch"],
    )


def rules_of(case: Case, release: str) -> KraftRules:
    """IBP_3_6_IV0 of 4.1.2 is the level "3.6-IV0@4.1.2"."""
    major, minor, revision = case["metadata_version"].removeprefix("IBP_").split("_")
    return KraftRules(
        level=level_of(f"{major}.{minor}-{revision}@{release}"),
        elr_enabled=case["elr_enabled"],
        min_isr=case["min_isr"],
        use_last_known_leader=case["use_last_known_leader"],
        zk_migration=case["zk_migration"],
    )


def targets_of(case: Case) -> Targets:
    """The targets of the case."""
    return Targets(
        isr=_brokers(case["target_isr"]),
        replicas=_brokers(case["target_replicas"]),
        removing_replicas=_brokers(case["target_removing"]),
        adding_replicas=_brokers(case["target_adding"]),
        leader_recovery_state=0 if case["target_recovered"] else None,
        directories={case["set_dir_broker"]: Uuid(case["set_dir"])} if case["set_dir"] else {},
        unclean_shutdown=case["unclean_shutdown"] or (),
    )


def may_lead(case: Case) -> set[int]:
    """The brokers that may lead: not one that is being fenced; one that is being unfenced
    (generateLeaderAndIsrUpdates).
    """
    subject = {case["subject"]}
    acceptable = set(case["acceptable"]) | (subject if case["op"] == "unfence" else set())
    return acceptable - (subject if case["op"] in EXCLUDED else set())


def change_of(out: Case | None) -> PartitionChange | None:
    """The recorded PartitionChangeRecord."""
    return out and PartitionChange(
        isr=_brokers(out["isr"]),
        leader=out["leader"],
        replicas=_brokers(out["replicas"]),
        removing_replicas=_brokers(out["removing"]),
        adding_replicas=_brokers(out["adding"]),
        leader_recovery_state=out["leader_recovery_state"],
        eligible_leader_replicas=_brokers(out["elr"]),
        last_known_elr=_brokers(out["last_known_elr"]),
        directories=None if out["directories"] is None else tuple(map(Uuid, out["directories"])),
    )


def _brokers(ids: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)
