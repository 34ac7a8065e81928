"""One partition as an object: for tests, debugging and error messages; the table has columns."""

from typing import NamedTuple

from kcore.types import Uuid


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition; `replicas` includes adding and removing replicas (KIP-455)."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class PartitionState(NamedTuple):
    """One partition, with brokers as ids."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    leader_recovery_state: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionRegistration(NamedTuple):
    """One partition in KRaft mode, brokers as ids (Kafka's PartitionRegistration)."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
