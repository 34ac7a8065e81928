"""Elections in bulk: who leads, with which ISR and epochs, after an event, for all partitions that it touches.

`election_rules.py` states the same rules for one partition, without the columns. The table is never changed here.
"""

from collections.abc import Sequence

import numpy.typing as npt

from kcore.errors import LevelError
from kcore.metadata.partition_table import PartitionTable
from kcore.replication import kraft_elections, zookeeper_elections
from kcore.replication.elections import Elections, checked_rows
from kcore.replication.levels import RELEASES, ZOOKEEPER_RELEASE, Level, level_of
from kcore.replication.policy import ElectionPolicy

_PASSES = 12
_ONE_AT_A_TIME = ("controlled-shutdown", "online", "unclean")


def elect(
    table: PartitionTable,
    kind: str | ElectionPolicy,
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Sequence[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str = "3.9.1",
) -> Elections:
    """What an event or an election changes, for every partition it concerns; changed rows only.

    Of ZooKeeper levels `partition_epochs` are the versions that the writes must find (ZooKeeperElections), of KRaft
    levels those that the partitions then have (KraftElections); `written()` of either is what a table takes.

    ZooKeeper levels know the kinds "offline", "reassign", "preferred" and "controlled-shutdown", and an election policy
    in place of "offline"; KRaft levels "online", "unclean", "preferred". `leaving`: ids of the brokers that fail
    ("offline"), ask to shut down ("controlled-shutdown") or are fenced (KRaft). `unclean`: whether topics allow unclean
    elections, one bool or one a partition of the table (p); None is Kafka's default, no. "offline" and "online" ask it.

    With `rows` (partition rows, ascending) exactly these partitions elect, as Kafka's election function does by itself.
    Without, those elect that Kafka's controller would act on:

    - "offline" with `leaving`, as KafkaController.onBrokerFailure leaves it: of the partitions with a replica on them,
      those without an online leader elect; where that fails, and in all others, they are taken out of the ISR.
    - "controlled-shutdown", as doControlledShutdown leaves it, for one broker: partitions that it leads elect, others
      take it out of the ISR; those with a single replica are let be.
    - "online" with `leaving`, as ReplicationControlManager.handleBrokerFenced does, for one broker.
    - "offline" and "online" without: every partition whose leader is not online. "unclean": every one without a leader.
    - "preferred": every partition whose leader is not its first replica. "reassign": every one being reassigned.

    LevelError: a kind the level lacks, or too many `leaving`. TableError: rows or brokers that are not the table's.
    """
    rules = level_of(level)
    policy = kind if isinstance(kind, ElectionPolicy) else None
    name = "offline" if isinstance(kind, ElectionPolicy) else kind
    if name not in (zookeeper_elections.KINDS if rules.zookeeper else kraft_elections.KINDS):
        raise LevelError(f"no election {name!r} at level {level}")
    if len(leaving) > 1 and name in _ONE_AT_A_TIME:
        raise LevelError(f"{len(leaving)} brokers leave; {name!r} handles one at a time, as Kafka does")
    leaving_rows = [table.brokers.row(broker) for broker in leaving]
    chosen = None if rows is None else checked_rows(rows, len(table))
    if not rules.zookeeper:
        return kraft_elections.elect_kraft(name, table, chosen, leaving_rows, unclean, rules)
    if name == "offline":
        return zookeeper_elections.offline(table, chosen, leaving_rows, unclean, rules, policy)
    if name == "preferred":
        return zookeeper_elections.preferred(table, chosen, leaving_rows)
    if name == "reassign":
        return zookeeper_elections.reassign(table, chosen, leaving_rows)
    return zookeeper_elections.controlled_shutdown(table, chosen, leaving_rows)


def _warm_up() -> None:
    """Elect of one partition: a process whose first election is a failed broker's is not slow then of all times.

    Python specialises code in its first dozen passes; they are paid here, some 600 us.
    """
    table = PartitionTable.from_arrays([[0, 1]])
    for kind, level in (("offline", ZOOKEEPER_RELEASE), ("online", next(reversed(RELEASES)))):
        for _ in range(_PASSES):
            elect(table, kind, leaving=[0], level=level)


_warm_up()
