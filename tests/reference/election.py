"""The slow twin of `kcore._ext.elections.election` and `kcore._ext.elections.policies`: plain dicts.

A partition is a dict: replicas, isr, removing, leader, leader_epoch, partition_epoch, recovery. Brokers are ids.
Every function gives the new partition, or None where nothing changes. They change nothing themselves.
"""

from collections.abc import Callable, Iterable
from typing import Any

Partition = dict[str, Any]


def zookeeper_election(
    kind: str, p: Partition, live: set[int], shutting: set[int], unclean: bool, recovery: bool
) -> Partition | None:
    """Election.leaderFor... of one partition."""
    online = live - shutting
    new = dict(p, leader_epoch=p["leader_epoch"] + 1)
    if kind == "preferred":
        order = p["replicas"][:1]
    elif kind == "reassign":
        order = [r for r in p["replicas"] if r not in p["removing"]]
    else:
        order = p["replicas"]
    for replica in order:
        if replica in online and replica in p["isr"]:
            new["leader"] = replica
            if kind == "offline":
                new["isr"] = [m for m in p["isr"] if m in online]
            if kind == "controlled-shutdown":
                new["isr"] = [m for m in p["isr"] if m not in shutting]
            return new
    if kind == "offline" and unclean:
        for replica in order:
            if replica in online:
                new["leader"] = replica
                new["isr"] = [replica]
                if recovery:
                    new["recovery"] = 1
                return new
    return None


def offline_replica(p: Partition, broker: int) -> Partition | None:
    """ReplicaStateMachine, transition to OfflineReplica: the replica goes out of the ISR."""
    if broker not in p["isr"]:
        return None
    new = dict(p, leader_epoch=p["leader_epoch"] + 1)
    if p["leader"] == broker:
        new["leader"] = -1
    if len(p["isr"]) > 1:
        new["isr"] = [m for m in p["isr"] if m != broker]
    return new


def broker_failure(
    p: Partition, dead: Iterable[int], live: set[int], shutting: set[int], unclean: bool, recovery: bool
) -> Partition | None:
    """KafkaController.onBrokerFailure for a partition that has a replica on a dead broker."""
    live = live - set(dead)
    online = live - shutting
    state = p
    if p["leader"] not in online:
        clean_possible = any(m in online for m in p["isr"])
        elected = zookeeper_election("offline", p, live, shutting, unclean and not clean_possible, recovery)
        if elected is not None:
            state = elected
    for broker in sorted(dead):
        if broker in p["replicas"] or any(b in p["replicas"] for b in dead):
            shrunk = offline_replica(state, broker)
            if shrunk is not None:
                state = shrunk
    return state if state is not p else None


def controlled_shutdown(p: Partition, broker: int, live: set[int], shutting: set[int]) -> Partition | None:
    """KafkaController.doControlledShutdown for a partition that has a replica on the broker."""
    if len(p["replicas"]) < 2:
        return None
    if p["leader"] == broker:
        return zookeeper_election("controlled-shutdown", p, live, shutting | {broker}, False, False)
    return offline_replica(p, broker)


def kraft_change(
    election: str, p: Partition, target_isr: list[int], acceptable: set[int], recovery: bool, bump_on_shrink: bool
) -> Partition | None:
    """PartitionChangeBuilder.build and PartitionRegistration.merge."""
    new = dict(p, partition_epoch=p["partition_epoch"] + 1)

    def valid(replica: int) -> bool:
        return replica in target_isr and replica in acceptable

    order = [p["leader"], *p["replicas"]]
    if election == "preferred":
        order = [p["replicas"][0], *order]
    leader = -1
    unclean = False
    for candidate in order:
        if leader == -1 and valid(candidate):
            leader = candidate
    if leader == -1 and election == "unclean":
        for candidate in p["replicas"]:
            if leader == -1 and candidate in acceptable:
                leader = candidate
                unclean = True
    leader_named = False
    isr_named = False
    if leader != p["leader"]:
        new["leader"] = leader
        leader_named = True
        if unclean:
            new["isr"] = [leader]
            isr_named = True
            if recovery:
                new["recovery"] = 1
    if not isr_named and target_isr != [] and target_isr != p["isr"]:
        new["isr"] = target_isr
        isr_named = True
        if bump_on_shrink and any(m not in target_isr for m in p["isr"]):
            leader_named = True
    if not leader_named and not isr_named:
        return None
    if leader_named:
        new["leader_epoch"] = p["leader_epoch"] + 1
    return new


def policy_election(p: Partition, live: set[int], choose: Callable[[list[int], int, int], int]) -> Partition | None:
    """A policy in place of Election.leaderForOffline: it sees broker ids here, and picks a slot."""
    in_sync = sum(1 << slot for slot, replica in enumerate(p["replicas"]) if replica in p["isr"])
    online = sum(1 << slot for slot, replica in enumerate(p["replicas"]) if replica in live)
    slot = choose(p["replicas"], in_sync, online)
    if slot == -1:
        return None
    leader = p["replicas"][slot]
    new = dict(p, leader=leader, leader_epoch=p["leader_epoch"] + 1)
    new["isr"] = [m for m in p["isr"] if m in live]
    if leader not in p["isr"]:
        new["isr"] = [leader]
        new["recovery"] = 1
    return new
