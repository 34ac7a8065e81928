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
"""replicas__ps, isr__pi, leader__p, leader_epoch__p, partition_epoch__p, leader_recovery_state__p, topic_row__p, then
directories__ps and owner__d, None where every directory is MIGRATING; C-contiguous."""

Lists = tuple[Int16s | None, Int16s | None, Int16s | None, Int16s | None, bool]
"""ELR, last known ELR, removing and adding replicas, as broker rows padded with -1, None where no partition has any;
the last two have a row a candidate if the bool is True, else a row a partition."""

Rule = tuple[int, UInt8s, int, Int32s, int, Int32s, Int32s, int]
"""The election (0 online, 1 unclean, 2 preferred, 3 online or unclean as the topic is configured); whether topics allow
unclean elections, and what there is a value for (0 all, 1 a partition, 2 a topic); min.insync.replicas and what there
is a value for; the row of each topic's partition 0, whose replication factor caps it, and a number above 0 if the topic
has one; the features, or-ed."""

Targets = tuple[
    Int16s | None, Int16s | None, Int16s | None, Int16s | None, Int8s | None, Int32s | None, int, Int32s | None
]
"""By candidate: ISR, replicas, removing and adding replicas as padded broker rows, with -2 first where the target is
what the partition has; leader recovery state, -1 likewise; the directory to which the replica on one broker moves, and
that broker's row. By broker: the directory of a new replica. None: all as it is."""

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
    """PartitionChangeBuilder for every candidate; returns (changes, ISR members, failures, list sizes).

    `brokers__b`, `heads__kr`, `step`, `isr` and `recovery__r` are as for `election.zookeeper`; `isr` has room for the
    widest ISR a candidate. `fields__r` takes the record's tags as bits. `sparse__kl` has a row each for the lists
    replicas, removing, adding, ELR, last known ELR and directories. Each row has room for the places of all candidates,
    one more offset and the values. `sparse__kl` may be None if there are neither lists nor targets and ELR is disabled.
    List sizes are (lists, values) each. Nothing is checked: arrays must be contiguous and of these types, with valid
    rows and lengths.
    """

def rows_in_directories(
    replicas__ps: Int16s,
    directories__ps: Int32s,
    broker_row: int,
    is_meant__d: UInt8s,
    rows__r: Int32s,
    found__r: Int32s,
) -> int:
    """Keep the rows of `rows__r` whose replica on that broker is in one of the directories; returns how many."""

def rows_without_active_leader(
    replicas__ps: Int16s,
    leader__p: Int16s,
    directories__ps: Int32s | None,
    owner__d: Int16s | None,
    brokers__b: Int64s,
    rows__r: Int32s,
) -> int:
    """Partitions with replicas whose leader may not lead or is in an offline directory, or that have no leader."""

def leaderless_rows(replicas__ps: Int16s, leader__p: Int16s, rows__r: Int32s) -> int:
    """Write the partitions with replicas and without a leader, ascending, to `rows__r`; returns how many."""

def rows_with_member(lists__pi: Int16s, broker_row: int, rows__r: Int32s) -> int:
    """Write the rows that have the broker in their list, ascending, to `rows__r`; returns how many."""
