"""The rules of one KRaft partition against what Kafka's PartitionChangeBuilder decided, and where releases differ."""

from dataclasses import replace
from typing import Any

import pytest

from kcore.errors import LevelError
from kcore.metadata.table.directory_table import MIGRATING_UUID as MIGRATING
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.replication.levels import level_of
from kcore.replication.partition_change import (
    KraftRules,
    PartitionChange,
    Targets,
    partition_change,
)
from kcore.types import Uuid
from replication.recorded_partition_changes import (
    RELEASES,
    change_of,
    may_lead,
    recorded_changes,
    registration_of,
    rules_of,
    targets_of,
)

UNASSIGNED = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.mark.recorded
@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_change_is_kafkas(release: str) -> None:
    for case in recorded_changes(release):
        before = registration_of(case["partition"])
        if case["error"]:  # Kafka has no target to cancel the reassignment with.
            continue
        defaults = {int(broker): Uuid(directory) for broker, directory in case["default_dirs"].items()}
        change = partition_change(
            before,
            rules_of(case, release),
            may_lead=may_lead(case).__contains__,
            election=case["election"].lower(),
            targets=targets_of(case),
            default_directory=lambda broker, defaults=defaults: defaults.get(broker, UNASSIGNED),
        )
        assert change == change_of(case["out"]), case["i"]
        if change is not None:
            assert change.applied_to(before) == registration_of(case["merged"]), case["i"]


def partition(**fields: Any) -> PartitionRegistration:
    """Replicas 1, 2 and 3, in sync, led by 1, changed by the options."""
    replicas = fields.get("replicas", (1, 2, 3))
    given = {
        "replicas": replicas,
        "directories": (MIGRATING,) * len(replicas),
        "isr": replicas,
        "removing_replicas": (),
        "adding_replicas": (),
        "elr": (),
        "last_known_elr": (),
        "leader": 1,
        "leader_recovery_state": 0,
        "leader_epoch": 5,
        "partition_epoch": 9,
    }
    return PartitionRegistration(**given | fields)


def change(
    before: PartitionRegistration, live: set[int], level: str = "4.3.1", **options: Any
) -> PartitionChange | None:
    """The change while `live` may lead; options of KraftRules and of `partition_change`."""
    names = ("elr_enabled", "min_isr", "use_last_known_leader", "zk_migration")
    rules = KraftRules(level_of(level), **{name: options.pop(name) for name in names if name in options})
    return partition_change(before, rules, may_lead=live.__contains__, **options)


def test_a_shrunk_isr_raises_the_leader_epoch_before_kafka_15021_only() -> None:
    shrunk = Targets(isr=(1, 2))
    assert change(partition(), {1, 2}, "3.5-IV2", targets=shrunk) == PartitionChange(isr=(1, 2), leader=1)
    assert change(partition(), {1, 2}, "3.6-IV0", targets=shrunk) == PartitionChange(isr=(1, 2))
    migrating = change(partition(), {1, 2}, "3.6-IV0@3.9.1", targets=shrunk, zk_migration=True)
    assert migrating == PartitionChange(isr=(1, 2), leader=1)
    assert PartitionChange(isr=(1, 2), leader=1).applied_to(partition()).leader_epoch == 6
    assert PartitionChange(isr=(1, 2)).applied_to(partition()).leader_epoch == 5


def test_the_isr_below_the_minimum_leaves_eligible_leaders_behind() -> None:
    """KIP-966: a member that leaves an ISR below min.insync.replicas has all acknowledged records."""
    one_left = change(partition(), {1}, targets=Targets(isr=(1,)), elr_enabled=True, min_isr=2)
    assert one_left == PartitionChange(isr=(1,), eligible_leader_replicas=(2, 3))
    crashed = Targets(isr=(1,), unclean_shutdown=(3,))
    assert change(partition(), {1}, targets=crashed, elr_enabled=True, min_isr=2) == PartitionChange(
        isr=(1,), eligible_leader_replicas=(2,)
    )
    back = partition(isr=(1,), elr=(2, 3))
    whole = change(back, {1, 2, 3}, targets=Targets(isr=(1, 2)), elr_enabled=True, min_isr=2)
    assert whole == PartitionChange(isr=(1, 2), eligible_leader_replicas=())


def test_the_elr_leads_only_where_the_isr_is_empty() -> None:
    fields = {"elr": (2, 3), "leader": -1}
    elected = change(partition(isr=(), **fields), {3}, elr_enabled=True, min_isr=2)
    assert elected == PartitionChange(isr=(3,), leader=3, eligible_leader_replicas=(2,))
    assert change(partition(isr=(1,), **fields), {3}, elr_enabled=True, min_isr=2) is None


def test_the_last_known_leader_leads_where_isr_and_elr_are_empty() -> None:
    """Unclean: the last leader may have lost records."""
    before = partition(isr=(), last_known_elr=(2,), leader=-1)
    elected = change(before, {1, 2}, elr_enabled=True)
    assert elected == PartitionChange(isr=(2,), leader=2, leader_recovery_state=1, last_known_elr=())
    assert change(before, {1}, elr_enabled=True) is None
    assert change(before, {1, 2}, elr_enabled=True, use_last_known_leader=False) is None
    assert change(before, {1}, "4.0-IV1@3.9.1", elr_enabled=True) == elected  # 3.9.1 does not check that it is live.


@pytest.mark.covers("B11")
@pytest.mark.parametrize("level", ["3.9.1", "4.1.2", "4.3.1"])
def test_a_reassignment_completes_by_the_rule_of_the_release(level: str) -> None:
    """KAFKA-15665. From [1, 2, 3] to [4, 2, 3]: 4.3.1 waits for the added replicas, others for all that stay."""
    level = {"3.9.1": "3.9-IV0@3.9.1"}.get(level, level)
    before = partition(replicas=(4, 2, 3, 1), removing_replicas=(1,), adding_replicas=(4,), isr=(1, 2))
    live = {1, 2, 3, 4}
    none_added = change(before, live, level, targets=Targets(isr=(1, 2, 3)))
    assert none_added == PartitionChange(isr=(1, 2, 3))
    one_of_two_stayed = change(before, live, level, targets=Targets(isr=(1, 2, 4)))
    done = PartitionChange(leader=4, replicas=(4, 2, 3), removing_replicas=(), adding_replicas=())
    done = replace(done, directories=(MIGRATING,) * 3)
    assert one_of_two_stayed == (replace(done, isr=(2, 4)) if level == "4.3.1" else PartitionChange(isr=(1, 2, 4)))
    all_there = change(before, live, level, targets=Targets(isr=(1, 2, 3, 4)))
    assert all_there == replace(done, isr=(2, 3, 4))


def test_fewer_replicas_wait_for_all_that_stay() -> None:
    """4.3.1: from [1, 2, 3, 4, 5] to [2, 3, 6] with [1, 6] in sync: completing would leave [6] alone in sync."""
    before = partition(replicas=(2, 3, 6, 1, 4, 5), removing_replicas=(1, 4, 5), adding_replicas=(6,), isr=(1,))
    assert change(before, {1, 6}, targets=Targets(isr=(1, 6))) == PartitionChange(isr=(1, 6))


def test_a_replica_that_goes_raises_the_leader_epoch() -> None:
    """It may not read its log any more, so the others must fence it."""
    before = partition(removing_replicas=(3,), isr=(1, 2, 3))
    gone = change(before, {1, 2, 3}, "3.6-IV0", targets=Targets(isr=(1, 2, 3)))
    assert gone == PartitionChange(isr=(1, 2), leader=1, replicas=(1, 2), removing_replicas=())


def test_directories_follow_the_replicas() -> None:
    """KIP-858: a replica that stays keeps its directory, a new one gets its broker's default."""
    here, there, new = (Uuid(bytes([byte]) * 16) for byte in (1, 2, 3))
    before = partition(replicas=(1, 2), directories=(here, there))
    moved = change(before, {1, 2}, targets=Targets(replicas=(2, 1, 3)), default_directory=lambda broker: new)
    assert moved == PartitionChange(replicas=(2, 1, 3), directories=(there, here, new))
    assigned = change(before, {1, 2}, targets=Targets(directories={2: new, 7: new}))
    assert assigned == PartitionChange(directories=(here, new))
    assert change(before, {1, 2}, "3.7-IV1", targets=Targets(directories={2: new})) is None


def test_replicas_without_directories_are_migrating() -> None:
    """C6, KAFKA-16583: a change of a level without directories leaves all of them MIGRATING."""
    grown = PartitionChange(replicas=(1, 2, 3, 4)).applied_to(partition())
    assert grown.directories == (MIGRATING,) * 4


def test_java_orders_the_elr_by_hash() -> None:
    before = partition(replicas=(33, 17, 40, 1), isr=(33, 17, 40, 1), leader=33)
    left = change(before, {33, 17}, targets=Targets(isr=(33,)), elr_enabled=True, min_isr=2)
    assert left is not None and left.eligible_leader_replicas == (17, 1, 40)  # Buckets 1, 1 and 8 of 16.


@pytest.mark.parametrize(("election", "level"), [("offline", "4.3.1"), ("", "4.3.1"), ("online", "3.9.1")])
def test_an_election_that_there_is_not(election: str, level: str) -> None:
    with pytest.raises(LevelError):
        change(partition(), {1}, level, election=election)


@pytest.mark.parametrize("removed_restarts", (False, True))
def test_a_removed_replica_in_the_elr_keeps_the_last_known_leader_from_leading(removed_restarts: bool) -> None:
    """As in Kafka: the last known leader leads only if the ELR is empty, and no removed replica may lead.

    Source: PartitionChangeBuilder.maybePopulateTargetElr, isValidNewLeader and canElectLastKnownLeader.
    """
    state = partition(replicas=(3, 1), isr=(1, 3), removing_replicas=(1,))
    rules = KraftRules(level_of("4.3.1"), elr_enabled=True, min_isr=2)
    steps: list[tuple[Targets, set[int]]] = [
        (Targets(isr=(1, 3)), {1, 3}),  # The reassignment completes.
        (Targets(isr=()), {1}),  # Broker 3 is fenced.
        (Targets(unclean_shutdown=(3,)), {1}),  # Its next incarnation registers.
        (Targets(), {1, 3}),  # It is unfenced.
    ]
    if removed_restarts:
        steps.append((Targets(unclean_shutdown=(1,)), {3}))
    for targets, active in steps:
        change = partition_change(state, rules, may_lead=active.__contains__, targets=targets)
        state = state if change is None else change.applied_to(state)
    assert (state.replicas, state.elr) == ((3,), () if removed_restarts else (1,))
    assert state.leader == (3 if removed_restarts else -1)
