"""Finds the cause of a PartitionChangeRecord from the partition's state before it, as a pure function.

Sources: PartitionChangeBuilder, ReplicationControlManager, PartitionReassignmentReplicas.
"""

from collections.abc import Collection
from enum import Enum
from typing import Final

from kcore.constants import RECOVERING
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema.metadata_records_topics import PartitionChangeRecord

NO_LEADER: Final = -1
NO_CHANGE: Final = -2  # PartitionChangeRecord's leader if the record does not set it.


class PartitionCause(Enum):
    """Why a partition changed; the value is the name of a consequence."""

    ISR = "ISR change"
    REASSIGNMENT = "reassignment"
    CANCELLATION = "cancelled reassignment"
    PREFERRED_ELECTION = "election"
    UNCLEAN_ELECTION = "unclean election"
    DIRECTORIES = "directory report"
    LEAVING = "a broker leaves"
    RETURNING = "a broker returns"
    OTHER = "another decision"


CONSEQUENCES: Final = (PartitionCause.LEAVING, PartitionCause.RETURNING, PartitionCause.OTHER)


def cause_of(
    before: PartitionRegistration,
    record: PartitionChangeRecord,
    leaving: Collection[int],
    gone: Collection[int],
    returning: Collection[int],
) -> PartitionCause:
    """The cause of a change.

    `leaving`: brokers that the same batch fences, registers or unregisters, or that lose a directory in it. `gone`:
    brokers that are fenced already. `returning`: brokers that the same batch unfences.
    """
    moves = record.replicas is not None or record.adding_replicas is not None or record.removing_replicas is not None
    if moves:
        return _of_moves(before, record)
    if record.directories is not None:
        return PartitionCause.DIRECTORIES
    is_led_again = before.leader == NO_LEADER and record.leader >= 0
    if (is_led_again or record.leader_recovery_state == RECOVERING) and not leaving and not returning:
        return PartitionCause.UNCLEAN_ELECTION
    if _is_leaving(before, record, {*leaving, *gone}):
        return PartitionCause.LEAVING
    if is_led_again and record.leader in returning:
        return PartitionCause.RETURNING
    is_same_leader = record.leader in (NO_CHANGE, before.leader)
    if before.leader != NO_LEADER and is_same_leader and (record.isr is not None or record.leader_recovery_state >= 0):
        return PartitionCause.ISR
    is_preferred = record.leader == before.replicas[0] != before.leader
    if is_preferred and before.leader != NO_LEADER and record.isr is None:
        return PartitionCause.PREFERRED_ELECTION
    return PartitionCause.OTHER


def target_of(before: PartitionRegistration, record: PartitionChangeRecord) -> tuple[int, ...]:
    """The replicas that a reassignment wants: the record's replicas without those that it removes."""
    replicas = before.replicas if record.replicas is None else record.replicas
    removing = record.removing_replicas or ()
    return tuple(each for each in replicas if each not in removing)


def isr_of(before: PartitionRegistration, record: PartitionChangeRecord) -> tuple[int, ...]:
    """The ISR that the leader requested. A completed reassignment lacks the members that were removed."""
    isr = before.isr if record.isr is None else tuple(record.isr)
    return (*isr, *(each for each in before.isr if each in before.removing_replicas and each not in isr))


def _is_leaving(before: PartitionRegistration, record: PartitionChangeRecord, leaving: Collection[int]) -> bool:
    """True if the change takes a leaving broker out of the ISR, the ELR or the leadership, and adds no ISR member."""
    isr = before.isr if record.isr is None else record.isr
    if set(isr) - set(before.isr) and record.leader_recovery_state != RECOVERING:
        return False
    gone = {each for each in before.isr if each not in isr}
    if gone and gone <= set(leaving):
        return True
    if record.leader not in (NO_CHANGE, before.leader) and before.leader in leaving:
        return True
    elr = before.elr if record.eligible_leader_replicas is None else record.eligible_leader_replicas
    changes_only_elr = record.isr is None and record.leader == NO_CHANGE
    return changes_only_elr and any(each in leaving for each in before.elr if each not in elr)


def _of_moves(before: PartitionRegistration, record: PartitionChangeRecord) -> PartitionCause:
    """The cause of changed replicas: a reassignment that begins, is cancelled, or is completed by the leader's ISR."""
    adding = before.adding_replicas if record.adding_replicas is None else record.adding_replicas
    removing = before.removing_replicas if record.removing_replicas is None else record.removing_replicas
    was_moving = bool(before.adding_replicas or before.removing_replicas)
    if not was_moving or adding or removing:
        return PartitionCause.REASSIGNMENT
    replicas = set(before.replicas if record.replicas is None else record.replicas)
    if replicas == set(before.replicas) - set(before.removing_replicas) and record.isr is not None:
        return PartitionCause.ISR
    if replicas == set(before.replicas) - set(before.adding_replicas):
        return PartitionCause.CANCELLATION
    return PartitionCause.REASSIGNMENT
