"""The key and the received state of a replica."""

from dataclasses import dataclass, field
from typing import TypeAlias

from kcore.constants import RECOVERED
from kcore.types import Uuid

Key: TypeAlias = tuple[str, int]  # A partition: its topic's name and its index.


@dataclass(frozen=True, slots=True)
class Replica:
    """The last accepted state of a partition that this broker holds. Brokers are ids."""

    topic_id: Uuid
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    stopped: bool = False  # Stopped with its log kept: it neither leads nor follows until a newer state arrives.
    controller_epoch: int = -1  # The epoch of the controller that sent the state.
    leader_recovery_state: int = RECOVERED
    is_new: bool = field(default=False, compare=False)  # The partition was not on this broker before.
