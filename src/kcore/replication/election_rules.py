"""Elections one partition at a time, to read and to test by; `election.py` has the same rules in bulk.

Brokers are ids here. The ZooKeeper-mode half follows kafka.controller.Election and ReplicaStateMachine,
the KRaft half PartitionChangeBuilder without eligible leader replicas.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kcore.constants import NO_LEADER, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERED, RECOVERING
from kcore.errors import LevelError
from kcore.replication.levels import Level, level_of


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """What is decided of a partition. The ISR is in Kafka's order."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int  # ZooKeeper mode: the version of the state node; it counts writes, so decisions leave it.
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The fields of a PartitionChangeRecord that an election can set; the defaults mean "unchanged"."""

    isr: tuple[int, ...] | None = None
    leader: int = NO_LEADER_CHANGE
    leader_recovery_state: int = NO_RECOVERY_CHANGE

    def applied_to(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """The state after this change; naming a leader, even the same one, raises the leader epoch."""
        stays = self.leader == NO_LEADER_CHANGE
        recovery_stays = self.leader_recovery_state == NO_RECOVERY_CHANGE
        return LeaderAndIsr(
            leader=state.leader if stays else self.leader,
            isr=state.isr if self.isr is None else self.isr,
            leader_epoch=state.leader_epoch if stays else state.leader_epoch + 1,
            partition_epoch=state.partition_epoch + 1,
            leader_recovery_state=state.leader_recovery_state if recovery_stays else self.leader_recovery_state,
        )


def elect_one(
    kind: str,
    replicas: Sequence[int],
    state: LeaderAndIsr | None,
    *,
    live: Collection[int],
    shutting_down: Collection[int] = (),
    removing: Collection[int] = (),
    unclean: bool = False,
    level: Level | str = "3.9.1",
) -> LeaderAndIsr | None:
    """The partition's next state by one election, or None if nothing changes.

    `replicas` in assignment order; `live` the registered brokers that have this partition's log directory online, those
    shutting down included; `removing` the replicas that a reassignment takes away. A partition that never had a state
    (None) gets none here. LevelError for a kind that the level lacks. Source: kafka.controller.Election of 3.9.1, and
    PartitionChangeBuilder for KRaft.
    """
    rules = level_of(level)
    online = [broker for broker in live if broker not in shutting_down]
    if state is None:
        return None
    if not rules.zookeeper:
        change = partition_change(kind, replicas, state, acceptable=online, unclean=unclean, level=rules)
        return change.applied_to(state) if change else None
    if kind == "offline":
        return _leader_for_offline(replicas, state, online, unclean, rules)
    if kind == "reassign":
        targets = [replica for replica in replicas if replica not in removing]
        return _new_leader(state, _first_in_sync(targets, state, online))
    if kind == "preferred":
        return _new_leader(state, _first_in_sync(replicas[:1], state, online))
    if kind == "controlled-shutdown":
        stayers = tuple(member for member in state.isr if member not in shutting_down)
        return _new_leader(replace(state, isr=stayers), _first_in_sync(replicas, state, online))
    raise LevelError(f"no election {kind!r} in ZooKeeper mode")


def _first_in_sync(candidates: Sequence[int], state: LeaderAndIsr, online: Collection[int]) -> int | None:
    return next((broker for broker in candidates if broker in online and broker in state.isr), None)


def _new_leader(state: LeaderAndIsr, leader: int | None) -> LeaderAndIsr | None:
    return None if leader is None else replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)


def _leader_for_offline(
    replicas: Sequence[int], state: LeaderAndIsr, online: Collection[int], unclean: bool, rules: Level
) -> LeaderAndIsr | None:
    leader = _first_in_sync(replicas, state, online)
    if leader is not None:
        return _new_leader(replace(state, isr=tuple(member for member in state.isr if member in online)), leader)
    leader = next((broker for broker in replicas if broker in online), None) if unclean else None
    if leader is None:
        return None
    recovery = RECOVERING if rules.leader_recovery_supported else state.leader_recovery_state
    return _new_leader(replace(state, isr=(leader,), leader_recovery_state=recovery), leader)


def remove_from_isr(broker: int, state: LeaderAndIsr) -> LeaderAndIsr | None:
    """ZooKeeper mode: the state once the broker's replica is offline, or None if it was not in the ISR.

    The last member stays, so that the partition knows who has its data; the leader epoch rises all the same.
    Source: ReplicaStateMachine.removeReplicasFromIsr.
    """
    if broker not in state.isr:
        return None
    leader = NO_LEADER if broker == state.leader else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(member for member in state.isr if member != broker)
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)


def leader_and_isr_recipients(
    kind: str,
    replicas: Sequence[int],
    *,
    live: Collection[int],
    shutting_down: Collection[int] = (),
    removing: Collection[int] = (),
) -> tuple[int, ...]:
    """ZooKeeper mode: the replicas that the LeaderAndIsr request after such an election is meant for.

    Source: ElectionResult.liveReplicas, which holds offline replicas too after two of the four kinds.
    """
    if kind == "offline":
        return tuple(replica for replica in replicas if replica in live and replica not in shutting_down)
    if kind == "controlled-shutdown":
        return tuple(replica for replica in replicas if replica in live)
    return tuple(replica for replica in replicas if kind != "reassign" or replica not in removing)


def partition_change(
    kind: str,
    replicas: Sequence[int],
    state: LeaderAndIsr,
    *,
    acceptable: Collection[int],
    target_isr: Sequence[int] | None = None,
    target_recovery: int | None = None,
    unclean: bool = False,
    level: Level | str = "4.1.2",
) -> PartitionChange | None:
    """KRaft: what changes when the partition gets a new target, or None.

    `kind` is the election: "online", "unclean" or "preferred"; `unclean` turns "online" into "unclean", as the topic's
    configuration does. `acceptable` are the brokers that may lead: unfenced, not shutting down, directory online.
    Targets left out mean the state as it is. Source: PartitionChangeBuilder, eligible leader replicas disabled.
    """
    rules = level_of(level)
    if rules.zookeeper or kind not in ("online", "unclean", "preferred"):
        raise LevelError(f"no election {kind!r} at level {rules}")
    isr = state.isr if target_isr is None else tuple(target_isr)
    kind = "unclean" if kind == "online" and unclean else kind
    leader, is_unclean = _elect(kind, replicas, state.leader, isr, acceptable)
    change = PartitionChange(isr=isr if isr and isr != state.isr else None)
    if leader != state.leader:
        change = replace(change, leader=leader)
        if is_unclean:
            change = replace(change, isr=(leader,))
            if rules.leader_recovery_supported and state.leader_recovery_state != RECOVERING:
                change = replace(change, leader_recovery_state=RECOVERING)
    elif change.isr is not None and rules.epoch_bump_on_isr_shrink and not set(state.isr) <= set(change.isr):
        change = replace(change, leader=leader)  # Named although it stays: that raises the leader epoch (KAFKA-15021).
    if target_recovery is not None and target_recovery != state.leader_recovery_state:
        change = replace(change, leader_recovery_state=target_recovery)
    return change if change != PartitionChange() else None


def _elect(
    kind: str, replicas: Sequence[int], leader: int, isr: Sequence[int], acceptable: Collection[int]
) -> tuple[int, bool]:
    """The leader, and whether it is unclean. A leader that still qualifies stays, unless the preferred one can lead."""
    valid = [broker for broker in replicas if broker in isr and broker in acceptable]
    if kind == "preferred" and valid and valid[0] == replicas[0]:
        return valid[0], False
    if leader in isr and leader in acceptable:
        return leader, False
    if valid:
        return valid[0], False
    if kind == "unclean":
        return next(((broker, True) for broker in replicas if broker in acceptable), (NO_LEADER, False))
    return NO_LEADER, False
