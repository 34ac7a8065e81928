"""Elections in bulk: who leads, with which ISR and epochs, after an event, for all partitions that it touches.

`election_rules.py` states the same rules for one partition, without the columns. The table is never changed here.
"""

from collections.abc import Sequence
from typing import Final

import numpy.typing as npt

from kcore.errors import LevelError
from kcore.metadata.partition_table import PartitionTable
from kcore.replication import kraft_elections, zookeeper_elections
from kcore.replication.elections import ZooKeeperElections, checked_rows
from kcore.replication.kraft_results import KraftElections
from kcore.replication.levels import LEVELS, RELEASES, ZOOKEEPER_RELEASE, Level, level_of
from kcore.replication.policy import ElectionPolicy

_PASSES = 12
_ZOOKEEPER: Final = {
    "preferred": zookeeper_elections.preferred,
    "reassign": zookeeper_elections.reassign,
    "controlled-shutdown": zookeeper_elections.controlled_shutdown,
}
_NEWEST: Final = next(reversed(RELEASES))


def elect(
    table: PartitionTable,
    kind: str | ElectionPolicy,
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Sequence[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
    min_isr: int | npt.ArrayLike = 1,
    elr: bool = False,
) -> ZooKeeperElections | KraftElections:
    """What an event or an election changes, for every partition it concerns; changed rows only.

    ZooKeeper levels know the kinds "offline", "reassign", "preferred" and "controlled-shutdown", and an election policy
    in place of "offline"; their `partition_epochs` are the versions that the writes must find. KRaft levels know
    "online", "unclean", "preferred" and "controlled-shutdown"; their epochs are those that the partitions then have.
    `written()` of either is what a table takes. `level`: see `levels.py`; None is "3.9.1", ZooKeeper mode, but the
    newest release for kinds that KRaft alone has. `leaving`: ids of the brokers that fail ("offline"), ask to shut down
    ("controlled-shutdown") or are fenced (KRaft). `unclean`: whether topics allow unclean elections, one bool or one a
    partition of the table (p); None is Kafka's default, no. "offline", "online" and KRaft's "controlled-shutdown" ask
    it. KRaft alone: `elr`, whether eligible leader replicas are enabled (KIP-966), and `min_isr`, min.insync.replicas,
    one or one a partition.

    With `rows` (partition rows, ascending) exactly these partitions elect, as Kafka's election function does by itself.
    Without, those elect that Kafka's controller would act on:

    - "offline" with `leaving`, as KafkaController.onBrokerFailure leaves it: of the partitions with a replica on them,
      those without an online leader elect; where that fails, and in all others, they are taken out of the ISR.
    - "controlled-shutdown" in ZooKeeper mode, as doControlledShutdown leaves it, for one broker: partitions that it
      leads elect, others take it out of the ISR; those with a single replica are let be.
    - "online" with `leaving` and KRaft's "controlled-shutdown", as ReplicationControlManager.handleBrokerFenced does.
      Kafka fences one broker after the other. Several at once make one change a partition, for which none of them is
      elected: an ISR of these brokers alone stays as it is, without a leader (or, with `elr`, becomes the ELR).
    - "offline" and "online" without: every partition whose leader is not online. "unclean": every one without a leader.
    - "preferred": every partition whose leader is not its first replica. "reassign": every one being reassigned.

    KRaft asks of a leader that its broker is registered, neither fenced nor shutting down, and that the replica's log
    directory is online; ZooKeeper mode that its broker is live. TableError: rows or brokers that are not the table's.
    LevelError: a kind the level lacks, or too many `leaving`.
    """
    name, policy = ("offline", kind) if isinstance(kind, ElectionPolicy) else (kind, None)
    rules = _rules_of(name, level, len(leaving))
    leaving_rows = [table.brokers.row(broker) for broker in leaving]
    chosen = None if rows is None else checked_rows(rows, len(table))
    if not rules.zookeeper:
        settings = kraft_elections.settings_of(table, rules, unclean, min_isr, elr)
        return kraft_elections.elect_kraft(name, table, chosen, leaving_rows, settings)
    if name == "offline":
        return zookeeper_elections.offline(table, chosen, leaving_rows, unclean, rules, policy)
    return _ZOOKEEPER[name](table, chosen, leaving_rows)


def _rules_of(kind: str, level: Level | str | None, leaving: int) -> Level:
    """The level, or the one that None stands for; LevelError where its controllers know no such election."""
    if level is None:
        level = ZOOKEEPER_RELEASE if kind in zookeeper_elections.KINDS or kind not in kraft_elections.KINDS else _NEWEST
    rules = level_of(level)
    if kind not in (zookeeper_elections.KINDS if rules.zookeeper else kraft_elections.KINDS):
        mode = "ZooKeeper" if rules.zookeeper else "KRaft"
        raise LevelError(f"no election {kind!r} at level {level}, which is {mode}'s")
    if leaving > 1 and kind == "controlled-shutdown" and rules.zookeeper:
        raise LevelError(f"{leaving} brokers leave; {kind!r} handles one at a time, as Kafka does")
    return rules


def _warm_up() -> None:
    """Elect of one partition: a process whose first election is a failed broker's is not slow then of all times.

    Python specialises code in its first dozen passes; they are paid here, with the rules of all levels some 3 ms.
    """
    table = PartitionTable.from_arrays([[0, 1]])
    for kind, level in (("offline", ZOOKEEPER_RELEASE), ("online", _NEWEST)):
        for _ in range(_PASSES):
            elect(table, kind, leaving=[0], level=level)
    for rules in LEVELS:  # 30 us each, which the first election at that level would take longer.
        if not rules.zookeeper:
            _ = kraft_elections.settings_of(table, rules, None, 1, False).features


_warm_up()
