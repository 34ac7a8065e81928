"""Narrow views of `ReplicaManager`, so that the handlers of requests state what they use and do not import it."""

from typing import Protocol

from kcore.broker.replicas.outputs import Output
from kcore.broker.replicas.partition import Partition
from kcore.broker.replicas.replica import Key


class HeldPartitions(Protocol):
    """Finds the partitions that this broker holds."""

    def partition(self, key: Key) -> Partition:
        """ApiException if this broker does not serve the partition."""


class StoredPartitions(HeldPartitions, Protocol):
    """The partitions, and the report of a disk that fails."""

    def log_failed(self, key: Key, error: Exception) -> None:
        """Takes the partition offline, and asks the server to take its log directory offline."""


class AnsweringReplicas(StoredPartitions, Protocol):
    """The partitions, and the outputs and waiting requests of their broker."""

    def output(self, output: Output) -> None:
        """Adds an output for the server."""

    def wake(self, key: Key) -> None:
        """Checks the requests that wait for the partition."""
