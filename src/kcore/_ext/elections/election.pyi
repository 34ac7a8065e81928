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
    """Elect as the ZooKeeper-mode controller, then shrink ISRs; returns the numbers of changes, ISR members, failures.

    Inputs: `unclean__p` has one entry for all partitions or one for each. `choices__r` has the slots that a policy
    chose, or is empty. `electable` masks the slots that may win. `shrinks_failed`: a partition without an eligible
    leader still loses its leaving ISR members. `spares_live_isr`: no unclean election while any ISR member stays.

    Outputs: `heads__kr` has HEADS rows: partition row, leader, leader epoch, partition epoch, offset of the ISR in
    `isr`, and the rows of partitions that got no leader (failures). Each row has `step` entries, at least one more than
    candidates. `isr` has room for every candidate's ISR in full width and for one more member. `recovery__r` receives
    the leader recovery states. Nothing is checked: arrays must be contiguous and of these types, with valid rows and
    lengths.
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
    """Elect as PartitionChangeBuilder; arguments and result as for `zookeeper`.

    `fences`: change only partitions with a leaving ISR member.
    """

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
    """Fill `brokers__b` with ids and flags: byte `2 * shutting_down + live` of `flags_by_state` is a broker's flags.

    Brokers in the rows `leaving` have `leaving_flags` instead. `flags_without_leader`: the flags of entry 0.
    """

def rows_that_call(replicas__ps: Int16s, leader__p: Int16s, brokers__b: Int64s, rows__r: Int32s) -> int:
    """Write the ascending rows of partitions whose leader has the flag CALLS to `rows__r`; returns their number.

    Rows without replicas are skipped.
    """

def rows_not_led_by_first(replicas__ps: Int16s, leader__p: Int16s, rows__r: Int32s) -> int:
    """Write the ascending rows of partitions not led by their first replica to `rows__r`; returns their number."""

def ascends(rows__r: Int32s) -> bool:
    """True if every row is larger than the one before it."""
