"""The members of an ISR whose directory their broker has not registered (KIP-858).

A broker with a replaced disk finds no replica in the assigned directory. It creates the replica in another directory,
follows the leader at once, and sends AssignReplicasToDirs. The leader may add it to the ISR before this assignment is
committed: Kafka's controller checks no directory in AlterPartition.

Source: Partition.createLogInAssignedDirectoryId, ReplicaManager.maybeUpdateTopicAssignment, ineligibleReplicasForIsr.
"""

from collections.abc import Mapping
from typing import Any, Final

from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.sim.cluster.committed_cluster import NO_LEADER, Broker, Partition, PartitionId
from kcore.types import Uuid

_UNKNOWN: Final = (UNASSIGNED_UUID, MIGRATING_UUID)  # Directories that the controller does not know yet.


class MisplacedMembers:
    """Decides which members may be misplaced: those that joined the ISR in this state under their present incarnation.

    A directory that the incarnation has registered, and that then goes offline, allows nothing.
    """

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        """`brokers`: the registered brokers, by id; the caller changes them."""
        self._brokers = brokers
        self._registered: dict[int, tuple[Uuid, ...]] = {}  # By broker id: the directories of its last registration.
        self._allowed: dict[PartitionId, set[int]] = {}
        self._isrs: dict[PartitionId, tuple[int, ...]] = {}  # At the last call of `allowed`.

    def on_registered(self, broker_id: int, broker: Broker) -> None:
        """A registration of the broker is committed."""
        self._registered[broker_id] = broker.directories

    def allowed(self, key: PartitionId, partition: Partition) -> set[int]:
        """The members that may be misplaced; never the leader. Call it after each committed batch.

        If the partition has no leader, its ISR stays as it is, so all misplaced members may stay.
        """
        misplaced = {each for each in partition.isr if self._is_misplaced(each, partition.directory_of(each))}
        if partition.leader != NO_LEADER:
            joined = {*partition.isr}.difference(self._isrs.get(key, ()))
            misplaced &= joined | self._allowed.get(key, set())
        self._allowed[key], self._isrs[key] = misplaced, partition.isr
        return misplaced - {partition.leader}

    def _is_misplaced(self, broker_id: int, directory: Uuid | None) -> bool:
        """Whether the broker's incarnation has never registered the directory."""
        broker = self._brokers.get(broker_id)
        return broker is not None and directory not in self._registered[broker_id] and not is_online(broker, directory)


def is_online(broker: Broker, directory: Any) -> bool:
    """Whether the replica's directory is registered, or not known yet; a broker that lists none may have any."""
    if directory in _UNKNOWN:
        return True
    return directory != LOST_UUID and (not broker.directories or directory in broker.directories)
