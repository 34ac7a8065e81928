"""Changes one KRaft partition, for readers and tests: all of Kafka's PartitionChangeBuilder.

The controller sets targets (another ISR, other replicas, another directory). The result is the fields of a
PartitionChangeRecord, or None. The steps come in Kafka's order, and the order matters:

1. a reassignment that the target ISR completes is completed;

2. replicas that leave the ISR while it is below the minimum become eligible leader replicas (ELR, KIP-966);

3. a leader is elected: the ISR first, then the ELR, then the last known leader, then, if unclean, any replica;

4. the leader is set although it stays, where Kafka wants a new leader epoch;

5. fields that differ from the partition are set.

`_ext/elections/partition_change.pyx` states the same rules for many partitions. Brokers are given by id.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from kcore.constants import NO_LEADER, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERING
from kcore.errors import LevelError
from kcore.metadata.table.directory_table import MIGRATING_UUID as MIGRATING
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.replication.java_random import hash_map_order
from kcore.replication.levels import Level
from kcore.types import Uuid

T = TypeVar("T")
Brokers = tuple[int, ...]
ELECTIONS: Final = ("online", "unclean", "preferred")


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The fields of a PartitionChangeRecord; the defaults mean "unchanged"."""

    isr: Brokers | None = None
    leader: int = NO_LEADER_CHANGE
    replicas: Brokers | None = None
    removing_replicas: Brokers | None = None
    adding_replicas: Brokers | None = None
    leader_recovery_state: int = NO_RECOVERY_CHANGE
    eligible_leader_replicas: Brokers | None = None
    last_known_elr: Brokers | None = None
    directories: tuple[Uuid, ...] | None = None

    def applied_to(self, partition: PartitionRegistration) -> PartitionRegistration:
        """The partition after this change; naming a leader, even the same one, raises the leader epoch.

        Source: PartitionRegistration.merge.
        """
        stays = self.leader == NO_LEADER_CHANGE
        recovery_stays = self.leader_recovery_state == NO_RECOVERY_CHANGE
        replicas = _given(self.replicas, partition.replicas)
        directories = _given(self.directories, partition.directories)
        if all(directory == MIGRATING for directory in directories):
            directories = (MIGRATING,) * len(replicas)  # A level without directories names none.
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=_given(self.isr, partition.isr),
            removing_replicas=_given(self.removing_replicas, partition.removing_replicas),
            adding_replicas=_given(self.adding_replicas, partition.adding_replicas),
            elr=_given(self.eligible_leader_replicas, partition.elr),
            last_known_elr=_given(self.last_known_elr, partition.last_known_elr),
            leader=partition.leader if stays else self.leader,
            leader_recovery_state=partition.leader_recovery_state if recovery_stays else self.leader_recovery_state,
            leader_epoch=partition.leader_epoch if stays else partition.leader_epoch + 1,
            partition_epoch=partition.partition_epoch + 1,
        )


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of a partition; None keeps the partition's value."""

    isr: Brokers | None = None
    replicas: Brokers | None = None
    removing_replicas: Brokers | None = None
    adding_replicas: Brokers | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[int, Uuid] = field(default_factory=dict)  # New directories of replicas.
    unclean_shutdown: Collection[int] = ()  # Replicas that may have lost acknowledged records.


@dataclass(frozen=True, slots=True)
class KraftRules:
    """The level whose rules decide, and the settings that the rules need."""

    level: Level
    elr_enabled: bool = False  # The feature eligible.leader.replicas.version is 1 or more.
    min_isr: int = 1  # The topic's min.insync.replicas, at most the replication factor of its partition 0.
    # unclean.recovery.strategy "balanced": elect the last leader if nothing else works.
    use_last_known_leader: bool = True
    zk_migration: bool = False  # 3.9.1: a migration from ZooKeeper may be in progress.


@dataclass(frozen=True, slots=True)
class _Target:
    """The targets, with the partition's values where there is no target, and the resulting ELRs."""

    isr: Brokers
    replicas: Brokers
    removing: Brokers
    adding: Brokers
    elr: Brokers
    last_known_elr: Brokers


def partition_change(
    partition: PartitionRegistration,
    rules: KraftRules,
    *,
    may_lead: Callable[[int], bool],
    election: str = "online",
    targets: Targets = Targets(),
    default_directory: Callable[[int], Uuid] = lambda broker: MIGRATING,
) -> PartitionChange | None:
    """The change of a partition with these targets and this election; None if nothing changes.

    `election`: "online" elects cleanly, "unclean" any replica if needed, "preferred" the first replica if possible.
    `may_lead`: whether a broker is active (unfenced, not shutting down) and its replica's directory online.
    `default_directory`: the directory of a broker's new replica. LevelError for another election or a ZooKeeper level.
    Source: PartitionChangeBuilder.build.
    """
    if rules.level.zookeeper or election not in ELECTIONS:
        raise LevelError(f"no election {election!r} at level {rules.level}")
    target = _completed(_target(partition, targets), rules.level)
    if rules.elr_enabled:
        target = _with_eligible_leaders(partition, target, rules, targets.unclean_shutdown)
    leader, is_unclean = _elected(partition, target, election, may_lead, rules)
    change = PartitionChange()
    if leader != partition.leader:
        change = replace(change, leader=leader)
        if leader in target.elr:
            target = replace(target, isr=(leader,), elr=_without(target.elr, (leader,)))
        if is_unclean:
            change = replace(change, isr=(leader,))
            if partition.leader_recovery_state != RECOVERING and rules.level.leader_recovery_supported:
                change = replace(change, leader_recovery_state=RECOVERING)
    if change.leader == NO_LEADER_CHANGE and not set(partition.replicas) <= set(target.replicas):
        change = replace(change, leader=partition.leader)  # A replica is removed: the new leader epoch fences it.
    change = _with_elr(change, partition, target, rules)
    if change.isr is None and (target.isr or rules.elr_enabled) and target.isr != partition.isr:
        change = replace(change, isr=target.isr)  # Without ELR the ISR never becomes empty.
    change = _with_epoch_for_shrunk_isr(change, partition, rules)
    change = _with_last_known_leader(change, partition, rules)
    change = _with_assignment(change, partition, target, targets, rules, default_directory)
    if targets.leader_recovery_state not in (None, partition.leader_recovery_state):
        change = replace(change, leader_recovery_state=targets.leader_recovery_state)
    return change if change != PartitionChange() else None


def _target(partition: PartitionRegistration, targets: Targets) -> _Target:
    return _Target(
        isr=_given(targets.isr, partition.isr),
        replicas=_given(targets.replicas, partition.replicas),
        removing=_given(targets.removing_replicas, partition.removing_replicas),
        adding=_given(targets.adding_replicas, partition.adding_replicas),
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
    )


def _completed(target: _Target, level: Level) -> _Target:
    """The target without the replicas being removed, if the target ISR allows it.

    Source: PartitionReassignmentReplicas.maybeCompleteReassignment.
    """
    if not target.removing and not target.adding:
        return target
    isr, replicas = _without(target.isr, target.removing), _without(target.replicas, target.removing)
    if target.removing and not (isr and replicas):
        return target
    # 4.3.1 awaits all replicas only if their number falls: completing earlier could shrink the ISR needlessly.
    if level.reassignment_awaits_all_replicas:
        awaited = {*replicas}
    elif len(target.adding) < len(target.removing):
        awaited = {*replicas, *target.adding}
    else:
        awaited = {*target.adding}
    if not awaited <= {*isr}:
        return target
    return replace(target, isr=isr, replicas=replicas, removing=(), adding=())


def _with_eligible_leaders(
    partition: PartitionRegistration, target: _Target, rules: KraftRules, unclean_shutdown: Collection[int]
) -> _Target:
    """If the ISR is below the minimum, replicas that left it have every acknowledged record: they become eligible.

    Java keeps both lists in the order of a HashSet. Source: PartitionChangeBuilder.maybePopulateTargetElr.
    """
    if len(target.isr) >= rules.min_isr:
        return replace(target, elr=(), last_known_elr=())
    candidates = _hash_set(*target.elr, *partition.isr)
    elr = _without(_without(candidates, target.isr), unclean_shutdown)
    known = _hash_set(*target.elr, *partition.isr, *target.last_known_elr)
    return replace(target, elr=elr, last_known_elr=_without(_without(known, target.isr), elr))


def _hash_set(*members: int) -> Brokers:
    """The members in the iteration order of a HashSet of them."""
    distinct = list(dict.fromkeys(members))
    return tuple(distinct[place] for place in hash_map_order(member & 0xFFFFFFFF for member in distinct))


def _elected(
    partition: PartitionRegistration,
    target: _Target,
    election: str,
    may_lead: Callable[[int], bool],
    rules: KraftRules,
) -> tuple[int, bool]:
    """The leader, NO_LEADER for none, and whether its election is unclean.

    A leader that still qualifies stays, unless the preferred replica is wanted and can lead. Source: electLeader.
    """
    electable = target.isr or target.elr  # ELR members count only if the ISR is empty.

    def is_valid(replica: int) -> bool:
        return replica in electable and may_lead(replica)

    if election == "preferred" and is_valid(target.replicas[0]):
        return target.replicas[0], False
    for replica in (partition.leader, *target.replicas):
        if is_valid(replica):
            return replica, False
    if _last_known_leader_may_lead(partition, target, may_lead, rules):
        return partition.last_known_elr[0], True
    if election == "unclean":
        return next(((replica, True) for replica in target.replicas if may_lead(replica)), (NO_LEADER, False))
    return NO_LEADER, False


def _last_known_leader_may_lead(
    partition: PartitionRegistration, target: _Target, may_lead: Callable[[int], bool], rules: KraftRules
) -> bool:
    """True if the last known leader may be elected (PartitionChangeBuilder.canElectLastKnownLeader)."""
    if not rules.elr_enabled or not rules.use_last_known_leader or target.isr or target.elr:
        return False
    if len(partition.last_known_elr) != 1:
        return False  # Several members are a last known ELR, not a last known leader.
    return rules.level.elects_dead_last_known_leader or may_lead(partition.last_known_elr[0])


def _with_elr(
    change: PartitionChange, partition: PartitionRegistration, target: _Target, rules: KraftRules
) -> PartitionChange:
    """Set the ELRs (PartitionChangeBuilder.maybeUpdateRecordElr)."""
    is_clean = change.isr is None  # At this step only an unclean election has set the ISR.
    keeps = is_clean and rules.elr_enabled
    elr, last_known_elr = (target.elr, target.last_known_elr) if keeps else ((), ())
    if elr != partition.elr:
        change = replace(change, eligible_leader_replicas=elr)
    if not rules.use_last_known_leader and last_known_elr != partition.last_known_elr:
        change = replace(change, last_known_elr=last_known_elr)
    return change


def _with_epoch_for_shrunk_isr(
    change: PartitionChange, partition: PartitionRegistration, rules: KraftRules
) -> PartitionChange:
    """Before 3.6-IV0 and during a migration from ZooKeeper, a smaller ISR needs a new leader epoch (KAFKA-15021)."""
    wanted = rules.level.epoch_bump_on_isr_shrink or rules.zk_migration
    if not wanted or change.leader != NO_LEADER_CHANGE or change.isr is None or set(partition.isr) <= set(change.isr):
        return change
    return replace(change, leader=partition.leader)


def _with_last_known_leader(
    change: PartitionChange, partition: PartitionRegistration, rules: KraftRules
) -> PartitionChange:
    """Store the last leader of a leaderless partition in its last known ELR. Source: maybeUpdateLastKnownLeader."""
    if not rules.elr_enabled or not rules.use_last_known_leader:
        return change
    known = partition.last_known_elr
    if rules.level.last_known_leader_of_empty_isr:
        has_leader = change.leader >= 0 or (partition.leader != NO_LEADER and change.leader != NO_LEADER)
        remembers = change.isr == () and known != (partition.leader,)
    else:
        has_leader = change.leader >= 0
        remembers = change.leader == NO_LEADER and not known
    if remembers:
        return replace(change, last_known_elr=(partition.leader,))
    return replace(change, last_known_elr=()) if has_leader and known else change


def _with_assignment(
    change: PartitionChange,
    partition: PartitionRegistration,
    target: _Target,
    targets: Targets,
    rules: KraftRules,
    default_directory: Callable[[int], Uuid],
) -> PartitionChange:
    """Set replicas and their directories. Source: PartitionChangeBuilder.setAssignmentChanges."""
    if target.replicas and rules.level.directory_assignment_supported:
        known = {**dict(zip(partition.replicas, partition.directories, strict=True)), **targets.directories}
        directories = tuple(
            known[replica] if replica in known else default_directory(replica) for replica in target.replicas
        )
        if directories != partition.directories:
            change = replace(change, directories=directories)
    if target.replicas and target.replicas != partition.replicas:
        change = replace(change, replicas=target.replicas)
    if target.removing != partition.removing_replicas:
        change = replace(change, removing_replicas=target.removing)
    if target.adding != partition.adding_replicas:
        change = replace(change, adding_replicas=target.adding)
    return change


def _without(brokers: Sequence[int], these: Collection[int]) -> Brokers:
    return tuple(broker for broker in brokers if broker not in these)


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
