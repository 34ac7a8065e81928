"""The fenced members that an ISR may have: they were its last members, and were fenced in one decision.

Kafka's controller removes a fenced broker from each ISR. An ISR without another member stays without ELR, and the
partition has no leader. With ELR such an ISR becomes empty (KIP-966). If several sessions end together, kcore fences
the brokers in one decision, and Kafka does not ("fences-one-by-one"). So an ISR of several members stays if all of
them are fenced at once. One of them may return and lead before the others leave.

Source: ReplicationControlManager.handleBrokerFenced, and PartitionChangeBuilder.build ("If ELR is enabled, the ISR is
allowed to be empty").
"""

from collections.abc import Collection, Mapping
from typing import Final

from kcore.sim.cluster.committed_cluster import NO_LEADER, Broker, Partition, PartitionId
from kcore.sim.cluster.partition_changes import ends_reassignment

_NONE: Final[frozenset[int]] = frozenset()


class FencedMembers:
    """Decides which fenced members each ISR may have. A broker that is not registered counts as fenced."""

    def __init__(self, brokers: Mapping[int, Broker], *, has_elr: bool) -> None:
        """`brokers`: the registered brokers, by id; the caller changes them. `has_elr`: ELR is in effect."""
        self._brokers, self._has_elr = brokers, has_elr
        self._allowed: dict[PartitionId, Collection[int]] = {}
        self._known: dict[PartitionId, Partition] = {}  # At the last call of `allowed`.

    def allowed(self, key: PartitionId, partition: Partition) -> Collection[int]:
        """The fenced members that the ISR may have. Call it after each committed batch."""
        fenced = self._fenced(partition)
        allowed = fenced.intersection(self._allowed.get(key, _NONE))
        if fenced and not allowed and self._may_keep_all(key, partition, fenced):
            allowed = fenced
        self._allowed[key], self._known[key] = allowed, partition
        return allowed

    def _fenced(self, partition: Partition) -> set[int]:
        brokers = self._brokers
        return {each for each in partition.isr if each not in brokers or brokers[each].fenced}

    def _may_keep_all(self, key: PartitionId, partition: Partition, fenced: Collection[int]) -> bool:
        """Whether the ISR may keep its members, all of which have been fenced in the last batch."""
        if partition.leader != NO_LEADER or {*partition.isr} != fenced:
            return False
        return not self._has_elr or self._is_reverted(key, partition)

    def _is_reverted(self, key: PartitionId, partition: Partition) -> bool:
        """Whether the batch canceled a reassignment whose ISR had added replicas only.

        The first replica becomes the ISR, even if it is fenced. Source: PartitionReassignmentRevert.
        """
        known = self._known.get(key)
        return known is not None and ends_reassignment(known, partition) and partition.isr == partition.replicas[:1]
