"""A partition that a broker holds, in the state that it last received."""

from dataclasses import dataclass, field
from typing import TypeAlias

from kcore.constants import RECOVERED
from kcore.types import Uuid

Key: TypeAlias = tuple[str, int]  # A partition: its topic's name and its index.


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition's state as this broker last accepted it. Brokers are ids."""

    topic_id: Uuid
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    stopped: bool = False  # With its log kept: it neither leads nor follows until a newer state comes.
    controller_epoch: int = -1  # Of the controller that decided so.
    leader_recovery_state: int = RECOVERED
    is_new: bool = field(default=False, compare=False)  # The controller has never had it on this broker before.
