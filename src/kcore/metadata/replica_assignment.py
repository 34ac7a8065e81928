"""The replicas of a partition, and which of them a reassignment adds or removes (KIP-455)."""

from typing import NamedTuple


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition; `replicas` includes those that are being added and removed (KIP-455)."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
