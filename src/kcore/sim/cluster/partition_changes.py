"""The rules of Kafka for one change of a partition, which the invariants I5 and I9 check.

Source: PartitionChangeBuilder, PartitionReassignmentReplicas.
"""

from collections.abc import Callable

from kcore.sim.cluster.committed_cluster import NO_LEADER, Partition


def ends_reassignment(before: Partition, after: Partition) -> bool:
    """Whether the change completes or cancels a reassignment."""
    return bool(before.adding or before.removing) and not (after.adding or after.removing)


def leads_as_it_joins(before: Partition, after: Partition, may_lead: Callable[[int], bool]) -> bool:
    """Whether the new leader joined the ISR by the change that completes a reassignment.

    The old leader proposes the ISR with the last added replica. The change completes the reassignment, and removes
    the old leader. The first replica in the ISR that `may_lead` becomes the leader. So the leader must be the first
    one, the old leader must be a removing replica, and no other replica than the removing ones may go.

    Source: ReplicationControlManager.alterPartition ("if there is an ongoing partition reassignment and the ISR change
    completes it, then the leader may change"), PartitionChangeBuilder.completeReassignmentIfNeeded and electAnyLeader.
    """
    if not ends_reassignment(before, after) or before.leader not in before.removing:
        return False
    kept = tuple(each for each in before.replicas if each not in before.removing)
    able = (each for each in after.replicas if each in after.isr and may_lead(each))
    return after.replicas == kept and {*before.adding} <= {*after.isr} and after.leader == next(able, NO_LEADER)


def wrong_replicas(before: Partition, after: Partition) -> str | None:
    """A description of a replica that has gone although the change ends no reassignment; None without one."""
    gone = {*before.replicas}.difference(after.replicas)
    if gone and (after.adding or after.removing):
        return f"replicas {sorted(gone)} go before the reassignment ends"
    return None


def wrong_eligible(before: Partition, after: Partition, min_isr: int) -> str | None:
    """A description of an eligible leader replica that Kafka's rule does not give; None without one.

    The ELR is a part of the last ISR and the last ELR. It may have a replica that the change removes, but only if the
    ISR becomes smaller than `min_isr`, the effective min.insync.replicas: Kafka does not compare it with the replicas.
    A leader that is elected from the ELR joins the empty ISR after this comparison.

    Source: PartitionChangeBuilder.maybePopulateTargetElr ("we first union the current ISR and current elr, then filter
    out the target ISR and unclean shutdown Replicas") and tryElection.
    """
    new = {*after.elr}.difference(before.isr, before.elr)
    if new:
        return f"brokers {sorted(new)} join the ELR, and were neither in the ISR nor in the ELR"
    removed = {*after.elr}.intersection(before.replicas).difference(after.replicas)
    is_from_elr = after.leader in before.elr and after.isr == (after.leader,)
    size = 0 if is_from_elr else len(after.isr)
    if removed and size >= min_isr:
        return f"removed replicas {sorted(removed)} are in the ELR, and the ISR has {size} members of {min_isr}"
    return None
