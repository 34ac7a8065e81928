"""Narrow views of `ReplicaManager`, so that the handlers of requests state what they use and do not import it."""

from typing import Protocol

from kcore.broker.replicas.partition import Partition
from kcore.broker.replicas.replica import Key


class HeldPartitions(Protocol):
    """Finds the partitions that this broker holds."""

    def partition(self, key: Key) -> Partition:
        """ApiException if this broker does not serve the partition."""


class StoredPartitions(HeldPartitions, Protocol):
    """The partitions, and the report of a disk that fails."""

    def log_failed(self, key: Key, error: Exception) -> None:
        """Takes the partition offline, and asks the edge to take its log directory offline."""
