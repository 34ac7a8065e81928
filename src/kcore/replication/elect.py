"""Elections in bulk: who leads, with which ISR and epochs, after an event, for all partitions that it touches.

`elect_one.py` states the same rules for one partition, without the columns. The table is never changed here.

Without `rows`, these partitions elect:

- "offline" with `leaving`, as KafkaController.onBrokerFailure does: partitions without an online leader elect. Where no
  election succeeds, and in all other partitions with a replica on these brokers, the brokers leave the ISR.
- "controlled-shutdown" in ZooKeeper mode, as doControlledShutdown does, for one broker: partitions that it leads elect.
  Other partitions remove the broker from the ISR, unless they have a single replica.
- "online" with `leaving` and KRaft's "controlled-shutdown", as ReplicationControlManager.handleBrokerFenced does.
  Kafka fences one broker after the other. Several brokers at once cause one change for each partition, and none of them
  is elected. An ISR of only these brokers stays, and the partition has no leader; with `elr` it becomes the ELR.
- "offline" and "online" without `leaving`: partitions whose leader is not online. "unclean": those without a leader.
- "preferred": partitions whose leader is not their first replica. "reassign": partitions that are being reassigned.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy.typing as npt

from kcore.errors import ArgumentError, LevelError, TableError
from kcore.metadata.metadata_version import VERSIONS_BY_RELEASE
from kcore.metadata.table.partition_table import PartitionTable
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.replication import kraft_elections, zookeeper_elections
from kcore.replication.bulk_elections import ZooKeeperElections, checked_rows
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_results import KraftElections
from kcore.replication.levels import LEVELS, Level, level_of
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
_NEWEST: Final = next(reversed(VERSIONS_BY_RELEASE))


def zookeeper_elect(
    table: PartitionTable,
    kind: ZooKeeperKind | ElectionPolicy = "offline",
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str = ZOOKEEPER_RELEASE,
) -> ZooKeeperElections:
    """The changes that an election of ZooKeeper mode makes; changed rows only, and the table stays as it is.

    - `kind`: "offline", "reassign", "preferred", "controlled-shutdown", or an election policy in place of "offline".
    - `rows`: partition rows, ascending: exactly these elect. Without `rows`, those that the module's docstring lists.
    - `leaving`: ids of the brokers that fail ("offline") or ask to shut down ("controlled-shutdown").
    - `unclean`: whether topics allow unclean elections: one bool, or one a partition (p); by default no.
    - `level`: a release of ZooKeeper mode, see `levels.py`.

    The `partition_epochs` of the result are the versions that the writes must find; a table applies `written()`.
    TableError: rows or brokers that are not the table's. LevelError: a level of KRaft, or too many `leaving`.
    Source: kafka.controller.Election, KafkaController of 3.9.1.
    """
    _check(kind, level)
    name, policy = ("offline", kind) if isinstance(kind, ElectionPolicy) else (kind, None)
    if not isinstance(table, PartitionTable):
        raise ArgumentError(f"an election of ZooKeeper mode takes a PartitionTable, not {type(table).__name__}")
    gone = _broker_rows(table, leaving)
    name, rules = _rules_of(name, level, len(gone))
    if not rules.zookeeper:
        raise LevelError(f"{rules.version} is a level of KRaft: use kcore.kraft.elect")
    chosen = None if rows is None else checked_rows(rows, len(table))
    if name == "offline":
        return zookeeper_elections.offline(table, chosen, gone, unclean, rules, policy)
    return _ZOOKEEPER[name](table, chosen, gone)


def kraft_elect(
    table: "PartitionTable | ClusterImage",
    kind: KraftKind = "online",
    *,
    rows: npt.ArrayLike | None = None,
    leaving: Iterable[int] = (),
    unclean: bool | npt.ArrayLike | None = None,
    level: Level | str | None = None,
    min_isr: int | npt.ArrayLike | None = None,
    elr: bool | None = None,
) -> KraftElections:
    """The changes that an election of a KRaft controller makes; changed rows only, and the table stays as it is.

    For a ClusterImage `level`, `elr`, `min_isr` and `unclean` are the image's own unless they are given.

    - `kind`: "online", "unclean", "preferred" or "controlled-shutdown".
    - `rows`: partition rows, ascending: exactly these elect. Without `rows`, those that the module's docstring lists.
    - `leaving`: ids of the brokers that are fenced.
    - `unclean`: whether topics allow unclean elections: one bool, or one a partition (p); for a table no.
    - `level`: a release or a metadata.version of KRaft, see `levels.py`; for a table the newest release.
    - `elr`: whether eligible leader replicas are enabled (KIP-966); for a table no.
    - `min_isr`: min.insync.replicas, one or one a partition; for a table 1.

    A leader's broker must be registered, neither fenced nor shutting down, and the replica's log directory online. The
    epochs of the result are those that the partitions then have; a table applies `written()`.
    TableError: rows or brokers that are not the table's. LevelError: a level of ZooKeeper mode.
    Source: ReplicationControlManager, PartitionChangeBuilder.
    """
    _check(kind, level)
    if not (elr is None or isinstance(elr, bool)):
        raise TableError(f"elr is a bool or None, not {elr!r:.60}")
    table, image = (table, None) if isinstance(table, PartitionTable) else _parts_of(table)
    if level is None:
        level = _NEWEST if image is None else level_of_cluster(image)
    gone = _broker_rows(table, leaving)
    name, rules = _rules_of(kind, level, len(gone))
    if rules.zookeeper:
        raise LevelError(f"{rules.version} is a level of ZooKeeper mode: use kcore.zk.elect")
    chosen = None if rows is None else checked_rows(rows, len(table))
    if image is None:
        least = 1 if min_isr is None else min_isr
        settings = kraft_elections.settings_of(table, rules, unclean, least, bool(elr))
    else:
        settings = settings_of_cluster(image, rules, unclean, min_isr, elr)
    return kraft_elections.elect_kraft(name, table, chosen, gone, settings)


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
    """Deprecated: `zookeeper_elect` or `kraft_elect`, by the level, the kind, and the type of `table`.

    Without a level, an image elects at its own level, and a kind that only KRaft has elects at the newest release.
    Everything else elects at 3.9.1 in ZooKeeper mode.
    """
    _check(kind, level)
    if level is None:
        of_image = None if isinstance(table, PartitionTable) else _parts_of(table)[1]
        level = _default_level(kind) if of_image is None else level_of_cluster(of_image)
    if not level_of(level).zookeeper:
        chosen: Any = "online" if kind is None else kind
        return kraft_elect(
            *(table, chosen), rows=rows, leaving=leaving, unclean=unclean, level=level, min_isr=min_isr, elr=elr
        )
    if not (elr is None or isinstance(elr, bool)):
        raise TableError(f"elr is a bool or None, not {elr!r:.60}")
    table = table if isinstance(table, PartitionTable) else _parts_of(table)[0]
    chosen = "offline" if kind is None else kind
    return zookeeper_elect(table, chosen, rows=rows, leaving=leaving, unclean=unclean, level=level)


def _default_level(kind: object) -> str:
    is_kraft_alone = kind in kraft_elections.KINDS and kind not in zookeeper_elections.KINDS
    return _NEWEST if is_kraft_alone else ZOOKEEPER_RELEASE


def _check(kind: object, level: object) -> None:
    if not (kind is None or isinstance(kind, (str, ElectionPolicy))):
        raise LevelError(f"no election {kind!r:.60}: a kind is a text, or an election policy")
    if not (level is None or isinstance(level, (str, Level))):
        raise LevelError(f"a level is a text such as '4.3.1' or '3.9-IV0', not {level!r:.60}")


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
def _rules_of(kind: str, level: Level | str, leaving: int) -> tuple[str, Level]:
    """The kind and the level; LevelError if controllers of that level have no election of that kind."""
    rules = level_of(level)
    kinds = zookeeper_elections.KINDS if rules.zookeeper else kraft_elections.KINDS
    if kind not in kinds:
        mode, name = "ZooKeeper" if rules.zookeeper else "KRaft", level if isinstance(level, str) else level.version
        raise LevelError(f"no election {kind!r} at level {name}, which is {mode}'s: it has {', '.join(kinds)}")
    if leaving > 1 and kind == "controlled-shutdown" and rules.zookeeper:
        raise LevelError(f"{leaving} brokers leave; {kind!r} handles one at a time, as Kafka does")
    return kind, rules


def level_of_cluster(image: "ClusterImage") -> Level | str:
    """The image's own level; the newest release if the image has no metadata.version."""
    from kcore.replication.topic_settings import level_of_image  # Modules for images are loaded with the first image.

    return level_of_image(image) or _NEWEST


def settings_of_cluster(
    image: "ClusterImage",
    rules: Level,
    unclean: bool | npt.ArrayLike | None,
    min_isr: int | npt.ArrayLike | None,
    elr: bool | None,
) -> KraftSettings:
    """The given settings; settings that are left out are the image's."""
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
    """Elect a leader of one partition at import, so that the first real election of a process is fast.

    Python specialises code in its first dozen passes. With the rules of all levels this takes some 3 ms.
    """
    table = PartitionTable.from_arrays([[0, 1]])
    for _ in range(_PASSES):
        zookeeper_elect(table, leaving=[0])
        kraft_elect(table, leaving=[0])
    for rules in LEVELS:  # Caches the features: 30 us that the first election at that level saves.
        if not rules.zookeeper:
            _ = kraft_elections.settings_of(table, rules, None, 1, False).features


_warm_up()
