"""Elects the leader of one partition, for readers and as the tests' reference; `elect.py` has the same rules in bulk.

Brokers are given by id. ZooKeeper mode follows kafka.controller.Election and ReplicaStateMachine. KRaft's elections
use `partition_change.py`, for partitions without directories, eligible leader replicas or a reassignment.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kcore.constants import NO_LEADER, RECOVERED, RECOVERING
from kcore.errors import LevelError
from kcore.metadata.table.directory_table import MIGRATING_UUID as MIGRATING
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.replication.levels import Level, level_of
from kcore.replication.partition_change import KraftRules, partition_change


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The decided state of a partition. The ISR is in Kafka's order."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    # ZooKeeper mode: the state znode's version. A decision keeps it; the write of the decision raises it.
    partition_epoch: int
    leader_recovery_state: int = RECOVERED


def elect_one(
    kind: str,
    replicas: Sequence[int],
    state: LeaderAndIsr | None,
    *,
    live: Collection[int],
    shutting_down: Collection[int] = (),
    removing: Collection[int] = (),
    unclean: bool = False,
    level: Level | str = ZOOKEEPER_RELEASE,
) -> LeaderAndIsr | None:
    """The partition's next state by one election, or None if nothing changes.

    `replicas`: in assignment order. `live`: registered brokers, even shutting down, that have this partition's log
    directory online. `removing`: replicas that a reassignment removes. A partition that never had a state (None) keeps
    None. `unclean` allows "offline" and "online" to elect uncleanly. LevelError for unknown kinds. Source:
    kafka.controller.Election of 3.9.1, and PartitionChangeBuilder for KRaft.
    """
    rules = level_of(level)
    online = [broker for broker in live if broker not in shutting_down]
    if state is None:
        return None
    if not rules.zookeeper:
        return _elect_kraft(kind, replicas, state, online, unclean, rules)
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


def _elect_kraft(
    kind: str, replicas: Sequence[int], state: LeaderAndIsr, online: Collection[int], unclean: bool, rules: Level
) -> LeaderAndIsr | None:
    before = PartitionRegistration(
        replicas=tuple(replicas),
        directories=(MIGRATING,) * len(replicas),
        isr=state.isr,
        removing_replicas=(),
        adding_replicas=(),
        elr=(),
        last_known_elr=(),
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
    )
    election = "unclean" if kind == "online" and unclean else kind
    change = partition_change(before, KraftRules(rules), may_lead=online.__contains__, election=election)
    if change is None:
        return None
    after = change.applied_to(before)
    return LeaderAndIsr(after.leader, after.isr, after.leader_epoch, after.partition_epoch, after.leader_recovery_state)


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

    The last member stays in the ISR, since it has the data; the leader epoch still rises. Source:
    ReplicaStateMachine.removeReplicasFromIsr.
    """
    if broker not in state.isr:
        return None
    leader = NO_LEADER if broker == state.leader else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(member for member in state.isr if member != broker)
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
