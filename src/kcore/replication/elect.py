"""Elects in bulk after an event: leader, ISR and epochs of all partitions that the event touches.

`elect_one.py` states the same rules for one partition, without columns. Nothing here changes the table.

Without `rows`, these partitions elect:

- "offline" with `leaving`, as after KafkaController.onBrokerFailure: of the partitions with a replica on these brokers,
  those without an online leader elect. If that fails, and in all others, the brokers are removed from the ISR.
- "controlled-shutdown" in ZooKeeper mode, as in doControlledShutdown, for one broker: partitions that it leads elect,
  others remove it from the ISR; those with a single replica do not change.
- "online" with `leaving` and KRaft's "controlled-shutdown", as in ReplicationControlManager.handleBrokerFenced. Kafka
  fences one broker after the other. Several at once make one change a partition, for which none of them is elected. An
  ISR of only these brokers stays as it is, without a leader (or, with `elr`, becomes the ELR).
- "offline" and "online" without `leaving`: every partition whose leader is not online. "unclean": every partition
  without a leader.
- "preferred": every partition whose leader is not its first replica. "reassign": every partition being reassigned.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, overload

import numpy.typing as npt

from kcore.errors import ArgumentError, LevelError, TableError
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication import kraft_elections, zookeeper_elections
from kcore.replication.bulk_elections import ZooKeeperElections, checked_rows
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_results import KraftElections
from kcore.replication.levels import LEVELS, RELEASES, ZOOKEEPER_RELEASE, Level, level_of
from kcore.replication.policy import ElectionPolicy

if TYPE_CHECKING:
    from kcore.metadata.image.image import ClusterImage

ZooKeeperKind = Literal["offline", "reassign", "preferred", "controlled-shutdown"]
KraftKind = Literal["online", "unclean", "preferred", "controlled-shutdown"]
Kind = Literal[ZooKeeperKind, KraftKind]

_PASSES = 12
_ZOOKEEPER: Final = {
    "preferred": zookeeper_elections.preferred,
    "reassign": zookeeper_elections.reassign,
    "controlled-shutdown": zookeeper_elections.controlled_shutdown,
}
_NEWEST: Final = next(reversed(RELEASES))


@overload
def elect(
    table: "ClusterImage",
    kind: KraftKind | None = None,
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
    min_isr: int | npt.ArrayLike | None = None,
    elr: bool | None = None,
) -> KraftElections: ...
@overload
def elect(
    table: PartitionTable,
    kind: Literal["online", "unclean"],
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
    min_isr: int | npt.ArrayLike | None = None,
    elr: bool | None = None,
) -> KraftElections: ...
@overload
def elect(
    table: PartitionTable,
    kind: Literal["offline", "reassign"] | ElectionPolicy,
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
) -> ZooKeeperElections: ...
@overload
def elect(
    table: "PartitionTable | ClusterImage",
    kind: Kind | ElectionPolicy | None = None,
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
    min_isr: int | npt.ArrayLike | None = None,
    elr: bool | None = None,
) -> ZooKeeperElections | KraftElections: ...
def elect(
    table: "PartitionTable | ClusterImage",
    kind: Kind | ElectionPolicy | None = None,
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
    min_isr: int | npt.ArrayLike | None = None,
    elr: bool | None = None,
) -> ZooKeeperElections | KraftElections:
    """The changes of an event or an election, for every partition that it concerns; changed rows only.

    `table` may be a ClusterImage: `level`, `elr`, `min_isr` and `unclean` are then the image's own unless they are
    given, and the kinds are KRaft's. Without a kind, leaders that are not online are replaced: "offline" at ZooKeeper
    levels and "online" at KRaft's.

    ZooKeeper levels have the kinds "offline", "reassign", "preferred" and "controlled-shutdown", and an election policy
    in place of "offline"; their `partition_epochs` are the versions that the writes must find. KRaft levels have
    "online", "unclean", "preferred" and "controlled-shutdown"; their epochs are those after the change. `written()` of
    either is the input of a table. Optional arguments:

    - `level`, see `levels.py`: for a table "3.9.1", ZooKeeper mode, but the newest release for kinds that only KRaft
      has.
    - `leaving`: ids of the brokers that fail ("offline"), shut down ("controlled-shutdown") or are fenced (KRaft).
    - `unclean`: whether topics allow unclean elections, one bool or one a partition of the table (p); by default no, as
      in Kafka. "offline", "online" and KRaft's "controlled-shutdown" use it.
    - KRaft only: `elr`, whether eligible leader replicas are enabled (KIP-966), by default no; `min_isr`,
      min.insync.replicas, one or one a partition, by default 1.

    With `rows` (partition rows, ascending) exactly these partitions elect, as by Kafka's election function alone.
    Without, those elect that Kafka's controller would act on: the module docstring lists them.

    A KRaft leader's broker must be registered, neither fenced nor shutting down, and the replica's log directory
    online; a ZooKeeper-mode leader's broker must be live. TableError: rows or brokers that are not the table's.
    LevelError: a kind that the level lacks, or too many `leaving`.
    """
    if not (kind is None or isinstance(kind, (str, ElectionPolicy))):
        raise LevelError(f"no election {kind!r:.60}: a kind is a text, or an election policy")
    if not (elr is None or isinstance(elr, bool)):
        raise TableError(f"elr is a bool or None, not {elr!r:.60}")
    if not (level is None or isinstance(level, (str, Level))):
        raise LevelError(f"a level is a text such as '4.3.1' or '3.9-IV0', not {level!r:.60}")
    return _elect(table, kind, rows, leaving, unclean, level, min_isr, elr)


def _elect(
    table: "PartitionTable | ClusterImage",
    kind: str | ElectionPolicy | None,
    rows: npt.ArrayLike | None,
    leaving: Iterable[int],
    unclean: bool | npt.ArrayLike | None,
    level: Level | str | None,
    min_isr: int | npt.ArrayLike | None,
    elr: bool | None,
) -> ZooKeeperElections | KraftElections:
    image = None
    if not isinstance(table, PartitionTable):
        table, image = _parts_of(table)
        level = _level_of(image) if level is None else level
    name, policy = ("offline", kind) if isinstance(kind, ElectionPolicy) else (kind, None)
    gone = _broker_rows(table, leaving)
    name, rules = _rules_of(name, level, len(gone))
    chosen = None if rows is None else checked_rows(rows, len(table))
    if not rules.zookeeper:
        if image is None:
            least = 1 if min_isr is None else min_isr
            settings = kraft_elections.settings_of(table, rules, unclean, least, bool(elr))
        else:
            settings = _settings_of(image, rules, unclean, min_isr, elr)
        return kraft_elections.elect_kraft(name, table, chosen, gone, settings)
    if name == "offline":
        return zookeeper_elections.offline(table, chosen, gone, unclean, rules, policy)
    return _ZOOKEEPER[name](table, chosen, gone)


def _parts_of(image: "ClusterImage") -> tuple[PartitionTable, "ClusterImage"]:
    table = getattr(image, "table", None)
    if not isinstance(table, PartitionTable):
        raise ArgumentError(f"elect takes a PartitionTable or a ClusterImage, not {type(image).__name__}")
    return table, image


def _broker_rows(table: PartitionTable, leaving: Iterable[int]) -> list[int]:
    try:
        ids = [*leaving]
    except TypeError:
        raise TableError(f"leaving is a list of broker ids, not {leaving!r}") from None
    return [table.brokers.row(broker) for broker in ids]


@lru_cache(maxsize=512)
def _rules_of(kind: str | None, level: Level | str | None, leaving: int) -> tuple[str, Level]:
    """The kind and the level, with defaults for None; LevelError if the level's controllers have no such election."""
    if level is None:
        level = (
            _NEWEST if kind in kraft_elections.KINDS and kind not in zookeeper_elections.KINDS else ZOOKEEPER_RELEASE
        )
    rules = level_of(level)
    kinds = zookeeper_elections.KINDS if rules.zookeeper else kraft_elections.KINDS
    kind = kinds[0] if kind is None else kind
    if kind not in kinds:
        mode, name = "ZooKeeper" if rules.zookeeper else "KRaft", level if isinstance(level, str) else level.version
        raise LevelError(f"no election {kind!r} at level {name}, which is {mode}'s: it has {', '.join(kinds)}")
    if leaving > 1 and kind == "controlled-shutdown" and rules.zookeeper:
        raise LevelError(f"{leaving} brokers leave; {kind!r} handles one at a time, as Kafka does")
    return kind, rules


def _level_of(image: "ClusterImage") -> Level | str:
    # The modules for images are loaded with the first image.
    from kcore.replication.topic_settings import level_of_image

    return level_of_image(image) or _NEWEST


def _settings_of(
    image: "ClusterImage",
    rules: Level,
    unclean: bool | npt.ArrayLike | None,
    min_isr: int | npt.ArrayLike | None,
    elr: bool | None,
) -> KraftSettings:
    """The settings as given, else the image's."""
    from kcore.replication.topic_settings import settings_of_image

    known = settings_of_image(image, rules, elr)
    given = kraft_elections.settings_of(
        image.table, rules, unclean, 1 if min_isr is None else min_isr, known.elr_enabled
    )
    return replace(
        known,
        unclean=known.unclean if unclean is None else given.unclean,
        min_isr=known.min_isr if min_isr is None else given.min_isr,
    )


def _warm_up() -> None:
    """Elect for one partition, so that the first election after a broker failure is not slow.

    Python specialises code in its first dozen passes; these passes run here, for the rules of all levels, in some 3 ms.
    """
    table = PartitionTable.from_arrays([[0, 1]])
    kinds: tuple[tuple[Kind, str], ...] = ("offline", ZOOKEEPER_RELEASE), ("online", _NEWEST)
    for kind, level in kinds:
        for _ in range(_PASSES):
            elect(table, kind, leaving=[0], level=level)
    for rules in LEVELS:  # 30 us each, which the first election at that level would otherwise take longer.
        if not rules.zookeeper:
            _ = kraft_elections.settings_of(table, rules, None, 1, False).features


_warm_up()
