"""KRaft's changes in bulk against the slow twin: every small partition, and random ones of all kinds."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from kcore._ext.elections.election import CALLS, CRASHED, LEAVES, MAY_LEAD
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.kraft_changes import (
    CONFIGURED,
    ONLINE,
    PREFERRED,
    UNCLEAN,
    BulkTargets,
    KraftSettings,
    decide,
    described_brokers,
)
from kcore.replication.kraft_results import KraftElections
from reference import partition_change as twin
from replication.kraft_tables import (
    Partition,
    broker_rows,
    brokers_of,
    kraft_table,
    records_of,
    settings_of,
    states_of,
)
from replication.random_partitions import IDS, NOBODY, RELEASES, Dice, rule_of
from seeds import seeds

ELECTIONS = {"online": ONLINE, "unclean": UNCLEAN, "preferred": PREFERRED, "configured": CONFIGURED}


def expected(
    partitions: Sequence[Partition],
    cluster: dict[str, Any],
    rule: dict[str, Any],
    election: str,
    targets: Sequence[dict[str, Any]] | None = None,
    defaults: dict[int, int] | None = None,
) -> dict[int, Partition]:
    """By row, what the twin changes."""
    decided = {
        row: twin.change(p, cluster, rule, election, targets[row] if targets else None, defaults)
        for row, p in enumerate(partitions)
    }
    return {row: record for row, record in decided.items() if record}


def compare(got: KraftElections, wanted: dict[int, Partition], partitions: Sequence[Partition], story: object) -> None:
    """Records, states after them, and partitions without a leader."""
    assert records_of(got) == wanted, story
    after = {row: twin.after(partitions[row], record) for row, record in wanted.items()}
    named = ("isr", "leader", "leader_epoch", "partition_epoch", "recovery")
    assert states_of(got) == {row: {name: p[name] for name in named} for row, p in after.items()}, story
    leaders = [after[row]["leader"] if row in after else p["leader"] for row, p in enumerate(partitions)]
    assert got.failed.tolist() == [row for row, leader in enumerate(leaders) if leader == -1], story


def flags_of(table: PartitionTable, cluster: dict[str, Any]) -> Any:
    """`described_brokers` with several kinds of exceptions."""
    brokers__b = described_brokers(table)
    for name, flags in (("leaving", CALLS | LEAVES), ("crashed", CALLS | LEAVES | CRASHED), ("arriving", MAY_LEAD)):
        for broker in cluster[name]:
            row = table.brokers.row(broker)
            kept = int(brokers__b[row + 1]) & ~(MAY_LEAD | CALLS)
            brokers__b[row + 1] = kept | flags
    return brokers__b


def decided(
    partitions: Sequence[Partition],
    cluster: dict[str, Any],
    rule: dict[str, Any],
    election: str,
    ids: Sequence[int],
    targets: BulkTargets | None = None,
) -> tuple[KraftElections, PartitionTable]:
    """The kernel's changes of all partitions."""
    table = kraft_table(partitions, brokers_of(ids, cluster["active"], cluster["directories"]))
    rows = np.arange(len(partitions), dtype=np.int32)
    options = {"election": ELECTIONS[election], "targets": targets}
    return decide(table, settings_of(partitions, rule), rows, flags_of(table, cluster), **options), table


def small_partitions() -> Iterator[Partition]:
    """Replicas 0, 1 and 2: each in the ISR, in the ELR or in none; every leader and most last known ELRs."""
    for members in product(("isr", "elr", ""), repeat=3):
        isr = [broker for broker in range(3) if members[broker] == "isr"]
        elr = [broker for broker in range(3) if members[broker] == "elr"]
        for leader, last_known in product([-1, *isr], ([], [0], [1], [2], [1, 2])):
            yield {"isr": isr, "elr": elr, "leader": leader, "last_known_elr": last_known}


def completed(partitions: Iterator[Partition]) -> list[Partition]:
    """With epochs, settings and a topic each."""
    rest = {"replicas": [0, 1, 2], "directories": [0, 0, 0], "removing": [], "adding": [], "index": 0, "factor": 3}
    return [
        rest
        | {"topic": row, "leader_epoch": 3 * row, "partition_epoch": 5 * row, "recovery": row % 2}
        | {"min_isr": 1 + row // 2 % 4, "unclean": row % 3 == 0}
        | p
        for row, p in enumerate(partitions)
    ]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("elr", [True, pytest.param(False, marks=pytest.mark.long)])
def test_every_small_partition(release: str, elr: bool) -> None:
    partitions = completed(small_partitions())
    events = [NOBODY, NOBODY | {"leaving": {0}}, NOBODY | {"crashed": {1}}, NOBODY | {"leaving": {0, 1}}]
    events.append(NOBODY | {"arriving": {2}})
    for at, (event, election) in enumerate(product(events, ("configured", "preferred"))):
        for size in range(8):
            active = {broker for broker in range(3) if size >> broker & 1}
            cluster = {"active": active, "directories": {}} | event
            rule = rule_of(release, elr=elr, last_known_leader=(at + size) % 3 > 0)
            got, _ = decided(partitions, cluster, rule, election, range(3))
            compare(got, expected(partitions, cluster, rule, election), partitions, (cluster, rule, election))


@pytest.mark.parametrize("election", ["online", "unclean", "preferred"])
def test_every_small_set_of_directories(election: str) -> None:
    """KIP-858: a broker whose replica is in an offline directory cannot lead."""
    kinds = list(product((0, 1, 2, 3, 4), repeat=3))
    small = [p for p in small_partitions() if p["last_known_elr"] in ([], [1])][::7]
    partitions = completed({**p, "directories": list(kind)} for kind in kinds for p in small)
    directories = {0: [3], 1: [4, 5], 2: []}
    for at, active in enumerate([{0, 1, 2}, {0, 1}, {2}]):
        cluster = {"active": active, "directories": directories} | NOBODY
        rule = rule_of("4.3.1", elr=at != 1)
        got, _ = decided(partitions, cluster, rule, election, range(3))
        compare(got, expected(partitions, cluster, rule, election), partitions, (cluster, rule))


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_random_events(seed: int) -> None:
    dice = Dice(seed, strange_isrs=True)
    partitions = dice.partitions(IDS, (3, 6)[seed % 2], 60)
    cluster, rule = dice.cluster(IDS), dice.rule()
    for name in ("leaving", "crashed", "arriving"):
        if dice.chance(0.5):
            cluster[name] = {*dice.some(IDS, 3)} - cluster["leaving"] - cluster["crashed"]
    election = ("configured", "preferred", "unclean", "online")[seed % 4]
    got, _ = decided(partitions, cluster, rule, election, IDS)
    compare(got, expected(partitions, cluster, rule, election), partitions, seed)


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_random_targets(seed: int) -> None:
    dice = Dice(1000 + seed)
    partitions = dice.partitions(IDS, (3, 6)[seed % 2], 60)
    cluster, rule = dice.cluster(IDS), dice.rule()
    targets: list[dict[str, Any]] = []
    mover = int(dice.random.choice(IDS))
    for p in partitions:
        wanted: dict[str, Any] = {"directory": (mover, int(dice.random.integers(0, 30)))}
        if dice.chance(0.6):
            wanted["isr"] = dice.some(p["replicas"])
        if dice.chance(0.4):
            wanted["replicas"] = dice.some(IDS, 7, 1)
        for name in ("removing", "adding"):
            if dice.chance(0.3):
                wanted[name] = dice.some(IDS, 3)
        if dice.chance(0.3):
            wanted["recovery"] = int(dice.chance(0.5))
        targets.append(wanted)
    brokers = brokers_of(IDS, cluster["active"], cluster["directories"])
    defaults = {broker: int(dice.random.integers(0, 30)) for broker in IDS}
    bulk = BulkTargets(
        isr=broker_rows(brokers, [each.get("isr") for each in targets]),
        replicas=broker_rows(brokers, [each.get("replicas") for each in targets]),
        removing=broker_rows(brokers, [each.get("removing") for each in targets]),
        adding=broker_rows(brokers, [each.get("adding") for each in targets]),
        recovery=np.array([each.get("recovery", -1) for each in targets], np.int8),
        directories=np.array([each["directory"][1] for each in targets], np.int32),
        directory_broker=brokers.row(mover),
        default_directories=np.array([defaults[broker] for broker in IDS], np.int32),
    )
    election = ("configured", "preferred", "unclean", "online")[seed % 4]
    got, _ = decided(partitions, cluster, rule, election, IDS, bulk)
    compare(got, expected(partitions, cluster, rule, election, targets, defaults), partitions, seed)


def test_wide_partitions_and_long_elrs() -> None:
    """As many replicas as fit, and ELRs in many buckets of a HashSet."""
    for seed in range(12):
        dice = Dice(2000 + seed)
        ids = [*range(20), *range(64, 84)]
        partitions = dice.partitions(ids, 32, 12)
        cluster, rule = dice.cluster(ids), rule_of("4.3.1")
        cluster["leaving"] = {*dice.some(ids, 20)}
        got, _ = decided(partitions, cluster, rule, "configured", ids)
        compare(got, expected(partitions, cluster, rule, "configured"), partitions, seed)


def test_settings_are_of_all_of_a_partition_or_of_a_topic() -> None:
    dice = Dice(7)
    partitions = dice.partitions(IDS, 3, 40)
    cluster, rule = dice.cluster(IDS), rule_of("4.3.1")
    by_partition, table = decided(partitions, cluster, rule, "configured", IDS)
    per_row = settings_of(partitions, rule)
    firsts = np.unique(table.topic_row__p, return_index=True)[1]
    per_topic = {
        name: type(per_row.unclean).by_topic(getattr(per_row, name).values[firsts]) for name in ("unclean", "min_isr")
    }
    rows, brokers__b = np.arange(len(partitions), dtype=np.int32), flags_of(table, cluster)
    by_topic = decide(table, KraftSettings(per_row.level, elr_enabled=True, **per_topic), rows, brokers__b)
    assert records_of(by_topic) == records_of(by_partition)
    alike = [p | {"unclean": True, "min_isr": 2} for p in partitions]
    settings = settings_of(alike, rule)
    one = {name: type(per_row.unclean)(getattr(settings, name).values[:1]) for name in ("unclean", "min_isr")}
    same = decide(table, KraftSettings(per_row.level, elr_enabled=True, **one), rows, brokers__b)
    assert records_of(same) == expected(alike, cluster, rule, "configured")


def test_records_leave_out_what_stays() -> None:
    """`records()` has the log's fields: the names of KraftChanges, null for unset fields."""
    dice = Dice(11)
    partitions = dice.partitions(IDS, 4, 80)
    cluster = dice.cluster(IDS) | {"leaving": {3, 5}}
    got, _ = decided(partitions, cluster, rule_of("4.3.1"), "configured", IDS)
    log, wanted = got.records(), records_of(got)
    lists = {
        name: getattr(log, name)
        for name in ("isr", "replicas", "removing", "adding", "directories", "elr", "last_known_elr")
    }
    assert len(log) == len(wanted) > 20 and lists["elr"] is not None
    for place, row in enumerate(log.rows.tolist()):
        named = {
            name: each[place].tolist() for name, each in lists.items() if each is not None and each[place] is not None
        }
        if log.leaders[place] != -2:
            named["leader"] = int(log.leaders[place])
        if log.recovery[place] != -1:
            named["recovery"] = int(log.recovery[place])
        assert named == wanted[row]
