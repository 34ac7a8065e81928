from collections.abc import Sequence
from typing import Final

from kcore.types import Bools, Int8s, Int16s, Int32s, Int64s, UInt8s

MAY_LEAD: Final[int]
STAYS: Final[int]
CALLS: Final[int]
LEAVES: Final[int]
CRASHED: Final[int]
NO_DIRECTORIES: Final[int]

ISR_OFFSETS: Final[int]
FAILED: Final[int]
HEADS: Final[int]

Columns = tuple[Int16s, Int16s, Int16s, Int32s, Int32s, Int8s]
"""replicas__ps, isr__pi, leader__p, leader_epoch__p, partition_epoch__p, leader_recovery_state__p; C-contiguous."""

def zookeeper(
    columns: Columns,
    brokers__b: Int64s,
    rows__r: Int32s,
    unclean__p: UInt8s,
    choices__r: Int8s,
    electable: int,
    shrinks_failed: bool,
    spares_live_isr: bool,
    marks_recovery: bool,
    heads__kr: Int32s,
    step: int,
    isr: Int32s,
    recovery__r: Int8s,
) -> tuple[int, int, int]:
    """Elect as the ZooKeeper-mode controller, then shrink ISRs; returns (changes, ISR members, failures).

    `unclean__p` has one entry for all or one a partition; `choices__r` has the slots that a policy chose, or is empty;
    `electable` masks the slots that may win. A partition without an eligible leader still loses its leaving ISR members
    if `shrinks_failed`; `spares_live_isr`: no unclean election while any ISR member stays. Outputs: the HEADS rows of
    `heads__kr`, each of `step` entries, more than there are candidates, take the partition rows, leaders, leader
    epochs, partition epochs, ISR_OFFSETS and FAILED; `isr` has room for every candidate's ISR in full width and one
    more; `recovery__r`. Nothing is checked: arrays must be contiguous and of these types, with valid rows and lengths.
    """

def kraft(
    columns: Columns,
    brokers__b: Int64s,
    rows__r: Int32s,
    unclean__p: UInt8s,
    preferred: bool,
    fences: bool,
    marks_recovery: bool,
    bumps_on_shrink: bool,
    heads__kr: Int32s,
    step: int,
    isr: Int32s,
    recovery__r: Int8s,
) -> tuple[int, int, int]:
    """Elect as PartitionChangeBuilder; as above. `fences`: only partitions with a leaving ISR member."""

def describe_brokers(
    ids__b: Int32s,
    live__b: Bools,
    shutting_down__b: Bools,
    flags_by_state: int,
    flags_without_leader: int,
    leaving: Sequence[int],
    leaving_flags: int,
    brokers__b: Int64s,
) -> None:
    """Fill `brokers__b`: a broker's flags are byte 2 * shutting down + live of `flags_by_state`.
    Brokers in the rows `leaving` have `leaving_flags` instead.
    """

def rows_that_call(replicas__ps: Int16s, leader__p: Int16s, brokers__b: Int64s, rows__r: Int32s) -> int:
    """Write the partitions with replicas whose leader's flags hold CALLS, ascending, to `rows__r`; returns how many."""

def rows_not_led_by_first(replicas__ps: Int16s, leader__p: Int16s, rows__r: Int32s) -> int:
    """Write the partitions whose leader is not their first replica, ascending, to `rows__r`; returns how many."""

def ascends(rows__r: Int32s) -> bool:
    """True if every row is larger than the one before it."""
