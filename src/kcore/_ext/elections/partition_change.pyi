from typing import Final

from kcore.types import Int8s, Int16s, Int32s, Int64s, UInt8s, UInt16s

LEAVING_ISR_ONLY: Final[int]
LEAVING_ONLY: Final[int]
ELR_ENABLED: Final[int]
LAST_KNOWN_LEADER: Final[int]
MARKS_RECOVERY: Final[int]
BUMPS_ON_SHRINK: Final[int]
HAS_DIRECTORIES: Final[int]
DEAD_LAST_KNOWN_LEADER: Final[int]
REMEMBERS_ON_EMPTY_ISR: Final[int]
AWAITS_ALL_REPLICAS: Final[int]

LISTS: Final[int]

Columns = tuple[Int16s, Int16s, Int16s, Int32s, Int32s, Int8s, Int32s, Int32s | None, Int16s | None]
"""replicas__ps, isr__pi, leader__p, leader_epoch__p, partition_epoch__p, leader_recovery_state__p, topic_row__p,
directories__ps and owner__d; C-contiguous. The last two are None if every replica's directory is MIGRATING."""

Lists = tuple[Int16s | None, Int16s | None, Int16s | None, Int16s | None, bool]
"""ELR, last known ELR, removing and adding replicas, as broker rows padded with -1; None if no partition has members.
The lists of removing and adding replicas have one row per candidate if the bool is True, otherwise per partition."""

Rule = tuple[int, UInt8s, int, Int32s, int, Int32s, Int32s, int]
"""In order:
- the election: 0 online, 1 unclean, 2 preferred, 3 online or unclean by the topic's configuration;
- unclean.leader.election.enable, and whether it has one value (0), one per partition (1) or one per topic (2);
- min.insync.replicas, and the same code for its values;
- the row of each topic's partition 0, whose replication factor limits min.insync.replicas, and by topic a number above
  0 if the topic has partition 0;
- the features as bits."""

Targets = tuple[
    Int16s | None, Int16s | None, Int16s | None, Int16s | None, Int8s | None, Int32s | None, int, Int32s | None
]
"""By candidate: ISR, replicas, removing and adding replicas as padded broker rows, -2 first to keep the partition's;
leader recovery state, -1 to keep the partition's; the directory to which the replica on one broker moves. Then that
broker's row, and by broker the directory of a new replica. None in place of an array: no partition has this target."""

def decide(
    columns: Columns,
    lists: Lists,
    rule: Rule,
    targets: Targets | None,
    brokers__b: Int64s,
    rows__r: Int32s,
    heads__kr: Int32s,
    step: int,
    isr: Int32s,
    recovery__r: Int8s,
    fields__r: UInt16s,
    sparse__kl: Int32s | None,
) -> tuple[int, int, int, list[tuple[int, int]]]:
    """PartitionChangeBuilder for every candidate; returns the numbers of changes, ISR members and failures, list sizes.

    `brokers__b`, `heads__kr`, `step` and `recovery__r` are as for `election.zookeeper`. `isr` has room for the widest
    ISR of every candidate. `fields__r` receives the fields that each record sets, as bits. `sparse__kl` has one row for
    each of the lists replicas, removing, adding, ELR, last known ELR and directories. A row has room for one place per
    candidate, one offset more than candidates, and the values. `sparse__kl` may be None if there are neither lists nor
    targets and ELR is disabled. A list size is the number of lists and the number of their values. Nothing is checked:
    arrays must be contiguous and of these types, with valid rows and lengths.
    """

def rows_without_active_leader(
    replicas__ps: Int16s,
    leader__p: Int16s,
    directories__ps: Int32s | None,
    owner__d: Int16s | None,
    brokers__b: Int64s,
    rows__r: Int32s,
) -> int:
    """Write the ascending rows of partitions without a leader that may lead to `rows__r`; returns their number.

    A leader in an offline directory may not lead. Rows without replicas are skipped.
    """

def leaderless_rows(replicas__ps: Int16s, leader__p: Int16s, rows__r: Int32s) -> int:
    """Write the ascending rows of partitions with replicas but no leader to `rows__r`; returns their number."""

def rows_with_member(lists__pi: Int16s, broker_row: int, rows__r: Int32s) -> int:
    """Write the ascending rows whose list has the broker to `rows__r`; returns their number."""
