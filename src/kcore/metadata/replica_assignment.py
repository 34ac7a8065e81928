"""Which brokers hold the replicas of a partition, and which of them come or go (KIP-455)."""

from typing import NamedTuple


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition; `replicas` holds those that are being added and removed too (KIP-455)."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
