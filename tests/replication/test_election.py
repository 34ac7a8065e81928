"""Bulk elections against the recorded decisions, the slow twin, and bad input."""

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from kcore.errors import LevelError, TableError
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.metadata.table.column_list import PARTITION_COLUMNS
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.bulk_elections import checked_rows, rows_of
from kcore.replication.elect import elect
from reference import election as reference
from replication.recorded_elections import (
    kraft_acceptable,
    kraft_level,
    plain_kraft_cases,
    zookeeper_cases,
    zookeeper_live,
)
from replication.small_tables import Partition, as_dicts, state_of, table_of

RECOVERY_LEVELS = {True: "3.9.1", False: "zookeeper:3.1-IV0"}


def _as_partition(case: dict[str, Any], ids: dict[int, int]) -> Partition:
    return {
        "replicas": [ids[b] for b in case["replicas"]],
        "isr": [ids[b] for b in case["isr"]],
        "adding": [ids[b] for b in case["adding"]],
        "removing": [ids[b] for b in case["removing"]],
        "leader": ids[case["leader"]],
        "leader_epoch": case["leader_epoch"],
        "partition_epoch": case["partition_epoch"],
        "recovery": case["recovery"],
    }


@pytest.mark.recorded
@pytest.mark.parametrize("recovery", [True, False])
@pytest.mark.parametrize("kind", ["offline", "reassign", "preferred", "controlled-shutdown"])
def test_all_recorded_zookeeper_elections_in_one_table(kind: str, recovery: bool) -> None:
    """Each case has brokers of its own, so that all fit one table. No table has one without replicas or state."""
    chosen = [
        case
        for case in zookeeper_cases()
        if case["kind"] == kind
        and case["recovery_supported"] == recovery
        and case["replicas"]
        and not case["no_leader_and_isr"]
    ]
    partitions, live, shutting_down, expected, known = [], set(), set(), {}, 0
    for row, case in enumerate(chosen):
        own = sorted({*case["replicas"], *case["isr"], *case["live"], *case["shutting_down"]} - {-1})
        ids = {-1: -1} | {broker: known + at for at, broker in enumerate(own)}
        known += len(own)
        partitions.append(_as_partition(case, ids))
        live |= {ids[broker] for broker in zookeeper_live(case)}
        shutting_down |= {ids[broker] for broker in case["shutting_down"]}
        if case["out"]:
            after = {name: case["out"][name] for name in ("leader_epoch", "partition_epoch", "recovery")}
            expected[row] = after | {"leader": ids[case["out"]["leader"]], "isr": [ids[b] for b in case["out"]["isr"]]}
    table = table_of(partitions, range(known), live, shutting_down)
    unclean = np.array([case["unclean"] for case in chosen])
    rows = np.arange(len(chosen))
    elections = elect(table, kind, rows=rows, unclean=unclean, level=RECOVERY_LEVELS[recovery])
    assert as_dicts(elections) == expected
    assert elections.failed.tolist() == [row for row in rows if row not in expected]


@pytest.mark.recorded
@pytest.mark.parametrize("release", ["3.9.1", "4.1.2"])
def test_recorded_kraft_elections(release: str) -> None:
    """All cases for `elect`, without ELR, directories and moves; test_kraft_changes_recorded has the others."""
    tested = 0
    for case in plain_kraft_cases(release):
        if case["op"] in ("alter_isr", "recover"):
            continue
        before = case["partition"] | {"recovery": case["partition"]["leader_recovery_state"]}
        fenced = [case["subject"]] if case["op"] == "fence" else []
        acceptable = kraft_acceptable(case) | set(fenced)
        ids = sorted({*before["replicas"], *case["brokers"], case["subject"]})
        table = table_of([before], ids, acceptable, set())
        kind = case["election"].lower()
        options = {"leaving": fenced} if fenced else {"rows": [0]}
        elections = elect(table, kind, level=kraft_level(case, release), **options)
        merged = case["merged"]
        expected = {0: state_of(merged | {"recovery": merged["leader_recovery_state"]})} if merged else {}
        if fenced and case["subject"] not in before["isr"]:
            expected = {}  # generateLeaderAndIsrUpdates is given partitions with the broker in the ISR, no others.
        assert as_dicts(elections) == expected, case["i"]
        tested += 1
    assert tested


def _small_partitions(width: int = 3) -> Iterator[Partition]:
    """Every partition of at most `width` replicas 0, 1, 2 .. and any ordered ISR of them and an outsider."""
    for count in range(1, width + 1):
        members = [*range(count), width]
        for size in range(count + 1):
            for isr in permutations(members, size):
                for leader in (-1, *members):
                    yield {"replicas": list(range(count)), "isr": list(isr), "leader": leader}


def _numbered(partitions: Iterator[Partition]) -> list[Partition]:
    epochs = {"adding": [], "removing": []}
    return [
        p | epochs | {"leader_epoch": 3 * row, "partition_epoch": 5 * row, "recovery": row % 2}
        for row, p in enumerate(partitions)
    ]


BROKERS = (0, 1, 2, 3)
BROKER_STATES = [
    ({b for b in BROKERS if states[b] != "down"}, {b for b in BROKERS if states[b] == "shutting down"})
    for states in product(("down", "live", "shutting down"), repeat=len(BROKERS))
]


def _expect(decided: dict[int, Partition | None]) -> dict[int, Partition]:
    return {row: state_of(p) for row, p in decided.items() if p is not None}


@pytest.mark.parametrize("kind", ["offline", "reassign", "preferred", "controlled-shutdown"])
def test_every_small_zookeeper_election(kind: str) -> None:
    partitions = _numbered(_small_partitions())
    unclean = np.arange(len(partitions)) % 3 == 0
    for live, shutting_down in BROKER_STATES:
        table = table_of(partitions, BROKERS, live, shutting_down)
        got = elect(table, kind, rows=range(len(partitions)), unclean=unclean)
        decided = {
            row: reference.zookeeper_election(kind, p, live, shutting_down, bool(unclean[row]), True)
            for row, p in enumerate(partitions)
        }
        assert as_dicts(got) == _expect(decided), (live, shutting_down)
        assert got.failed.tolist() == [row for row, after in decided.items() if after is None]


def test_reassignment_elects_from_the_replicas_that_stay() -> None:
    partitions = [
        p | {"removing": [p["replicas"][row % len(p["replicas"])]]} if row % 3 else p
        for row, p in enumerate(_numbered(_small_partitions()))
    ]
    for live, shutting_down in BROKER_STATES[::7]:
        table = table_of(partitions, BROKERS, live, shutting_down)
        decided = {
            row: reference.zookeeper_election("reassign", p, live, shutting_down, False, True)
            for row, p in enumerate(partitions)
            if p["removing"]
        }
        got = elect(table, "reassign")
        assert as_dicts(got) == _expect(decided)
        assert got.failed.tolist() == [row for row, after in decided.items() if after is None]


@pytest.mark.parametrize("leaving", [(0,), (1,), (1, 0), (3,)])
def test_every_small_broker_failure(leaving: tuple[int, ...]) -> None:
    partitions = _numbered(_small_partitions())
    unclean = np.arange(len(partitions)) % 3 == 0
    for live, shutting_down in BROKER_STATES:
        table = table_of(partitions, BROKERS, live, shutting_down)
        decided = {
            row: reference.broker_failure(p, leaving, live, shutting_down, bool(unclean[row]), True)
            for row, p in enumerate(partitions)
            if set(leaving) & set(p["replicas"])
        }
        got = elect(table, "offline", leaving=leaving, unclean=unclean)
        assert as_dicts(got) == _expect(decided), (live, shutting_down)


@pytest.mark.parametrize("broker", [0, 1])
def test_every_small_controlled_shutdown(broker: int) -> None:
    partitions = _numbered(_small_partitions())
    for live, shutting_down in BROKER_STATES:
        table = table_of(partitions, BROKERS, live, shutting_down)
        decided = {
            row: reference.controlled_shutdown(p, broker, live, shutting_down)
            for row, p in enumerate(partitions)
            if broker in p["replicas"]
        }
        assert as_dicts(elect(table, "controlled-shutdown", leaving=[broker])) == _expect(decided), (
            live,
            shutting_down,
        )


@pytest.mark.parametrize("level", ["3.1-IV0@3.9.1", "3.5-IV2", "4.1.2"])
@pytest.mark.parametrize("kind", ["online", "unclean", "preferred"])
def test_every_small_kraft_election(kind: str, level: str) -> None:
    partitions = _numbered(_small_partitions())
    unclean = np.arange(len(partitions)) % 3 == 0
    recovery, bump = level != "3.1-IV0@3.9.1", level != "4.1.2"
    for live, shutting_down in BROKER_STATES:
        table = table_of(partitions, BROKERS, live, shutting_down)
        elections = ["unclean" if kind == "online" and unclean[row] else kind for row in range(len(partitions))]
        decided = {
            row: reference.kraft_change(elections[row], p, p["isr"], live - shutting_down, recovery, bump)
            for row, p in enumerate(partitions)
        }
        got = elect(table, kind, rows=range(len(partitions)), unclean=unclean, level=level)
        assert as_dicts(got) == _expect(decided), (live, shutting_down)
        if kind == "preferred":
            continue
        fenced = {
            row: reference.kraft_change(
                elections[row], p, [m for m in p["isr"] if m != 1], live - shutting_down - {1}, recovery, bump
            )
            for row, p in enumerate(partitions)
            if 1 in p["isr"] and 1 in p["replicas"]
        }
        got = elect(table, kind, leaving=[1], unclean=unclean, level=level)
        assert as_dicts(got) == _expect(fenced), (live, shutting_down)


def _random_partitions(seed: int, brokers: int, widest: int, count: int) -> list[Partition]:
    dice = np.random.default_rng(seed)
    partitions = []
    for _ in range(count):
        replicas = dice.permutation(brokers)[: dice.integers(1, widest + 1)].tolist()
        isr = dice.permutation(replicas)[: dice.integers(0, len(replicas) + 1)].tolist()
        if len(isr) < widest and dice.random() < 0.1:
            isr.append(int(dice.choice([b for b in range(brokers) if b not in isr])))
        leader = int(dice.choice(isr)) if isr and dice.random() < 0.9 else -1
        partitions.append({"replicas": replicas, "isr": isr, "leader": leader, "adding": [], "removing": []})
    return _numbered(iter(partitions))


@pytest.mark.parametrize(("widest", "brokers"), [(2, 5), (3, 7), (5, 9), (32, 40)])
def test_random_elections_of_any_width(widest: int, brokers: int) -> None:
    for seed in range(20):
        partitions = _random_partitions(seed, brokers, widest, 150)
        dice = np.random.default_rng(seed + 1000)
        live = set(np.flatnonzero(dice.random(brokers) < 0.8).tolist())
        shutting_down = set(np.flatnonzero(dice.random(brokers) < 0.1).tolist())
        unclean = dice.random(len(partitions)) < 0.5
        leaving = dice.permutation(brokers)[: 1 + seed % 3].tolist()
        table = table_of(partitions, range(brokers), live, shutting_down, widths=(widest, widest))
        failed = {
            row: reference.broker_failure(p, leaving, live, shutting_down, bool(unclean[row]), True)
            for row, p in enumerate(partitions)
            if set(leaving) & set(p["replicas"])
        }
        assert as_dicts(elect(table, "offline", leaving=leaving, unclean=unclean)) == _expect(failed)
        shut = {
            row: reference.controlled_shutdown(p, leaving[0], live, shutting_down)
            for row, p in enumerate(partitions)
            if leaving[0] in p["replicas"]
        }
        assert as_dicts(elect(table, "controlled-shutdown", leaving=leaving[:1])) == _expect(shut)
        kraft = {
            row: reference.kraft_change("preferred", p, p["isr"], live - shutting_down, True, False)
            for row, p in enumerate(partitions)
            if p["leader"] != p["replicas"][0]
        }
        assert as_dicts(elect(table, "preferred", level="4.1.2")) == _expect(kraft)


def test_without_rows_those_elect_whose_leader_is_not_online() -> None:
    partitions = _numbered(_small_partitions())
    for live, shutting_down in BROKER_STATES:
        table = table_of(partitions, BROKERS, live, shutting_down)
        rows = [row for row, p in enumerate(partitions) if p["leader"] not in live - shutting_down]
        decided = {row: reference.broker_failure(partitions[row], (), live, shutting_down, True, True) for row in rows}
        assert as_dicts(elect(table, "offline", unclean=True)) == _expect(decided)
        explicit = elect(table, "online", rows=rows, level="4.1.2")
        assert as_dicts(elect(table, "online", level="4.1.2")) == as_dicts(explicit)
        leaderless = [row for row in rows if partitions[row]["leader"] == -1]
        explicit = elect(table, "unclean", rows=leaderless, level="4.1.2")
        assert as_dicts(elect(table, "unclean", level="4.1.2")) == as_dicts(explicit)


def test_preferred_without_rows_looks_at_partitions_that_another_leads() -> None:
    partitions = _numbered(_small_partitions())
    table = table_of(partitions, BROKERS, {0, 1, 2}, set())
    rows = [row for row, p in enumerate(partitions) if p["leader"] != 0]
    for level in ("3.9.1", "4.1.2"):
        got, explicit = elect(table, "preferred", level=level), elect(table, "preferred", rows=rows, level=level)
        assert as_dicts(got) == as_dicts(explicit)
        assert got.failed.tolist() == explicit.failed.tolist()


def test_an_election_waits_for_a_live_isr_member_unless_rows_are_named() -> None:
    """The controller starts an unclean election only if no ISR member is live, replica or not."""
    partition = {"replicas": [0, 1], "isr": [0, 2], "leader": 0}
    table = table_of(_numbered(iter([partition])), BROKERS, {1, 2}, set())
    assert as_dicts(elect(table, "offline", unclean=True)) == {}
    assert elect(table, "offline", rows=[0], unclean=True).leaders.tolist() == [1]


def test_a_removed_topic_has_nothing_to_elect() -> None:
    partitions = _numbered(iter([{"replicas": [0, 1], "isr": [0, 1], "leader": 0}] * 3))
    table = table_of(partitions, BROKERS, set(), set())
    table.remove_topic("topic")
    for kind, level in (("offline", "3.9.1"), ("preferred", "3.9.1"), ("unclean", "4.1.2"), ("online", "4.1.2")):
        elections = elect(table, kind, unclean=True, level=level)
        assert len(elections) == 0 and elections.failed.tolist() == []


def test_a_decision_changes_nothing_and_applying_it_settles_it() -> None:
    partitions = _random_partitions(7, 9, 3, 200)
    table = table_of(partitions, range(9), set(range(9)), set())
    table.apply(elect(table, "offline").written())  # Partitions without a leader although they could have one.
    before = [table.state(row) for row in range(len(table))]
    elections = elect(table, "offline", leaving=[4])
    assert [table.state(row) for row in range(len(table))] == before
    table.apply(elections.written())
    table.brokers.set_gone(int(table.brokers.ids[4]))
    assert len(elect(table, "offline")) == 0
    for row in elections.rows.tolist():
        assert table.state(row).partition_epoch == before[row].partition_epoch + 1


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("online", {"level": "3.9.1"}, LevelError),
        ("online", {"level": "4.3.1", "min_isr": 0}, TableError),
        ("online", {"level": "4.3.1", "min_isr": [1]}, TableError),
        ("online", {"level": "4.3.1", "min_isr": 1.5}, TableError),
        ("offline", {"level": "4.1.2"}, LevelError),
        ("sideways", {}, LevelError),
        ("offline", {"level": "5.0"}, LevelError),
        ("controlled-shutdown", {}, LevelError),
        ("controlled-shutdown", {"leaving": [0, 1]}, LevelError),
        ("controlled-shutdown", {"level": "4.1.2"}, LevelError),
        ("offline", {"leaving": [77]}, TableError),
        ("offline", {"rows": [0, 0]}, TableError),
        ("offline", {"rows": [1, 0]}, TableError),
        ("offline", {"rows": [-1]}, TableError),
        ("offline", {"rows": [2]}, TableError),
        ("offline", {"rows": [2**32]}, TableError),
        ("offline", {"rows": [[0, 1]]}, TableError),
        ("offline", {"rows": [0.5]}, TableError),
        ("offline", {"unclean": [True]}, TableError),
        ("offline", {"unclean": [1, 0]}, TableError),
    ],
)
def test_what_cannot_be_elected_says_so(kind: str, options: dict[str, Any], error: type[Exception]) -> None:
    partitions = _numbered(iter([{"replicas": [0, 1], "isr": [0, 1], "leader": 0}] * 2))
    with pytest.raises(error):
        elect(table_of(partitions, BROKERS, {0, 1}, set()), kind, **options)


@pytest.mark.parametrize("others", [0, 5_000])
def test_partitions_of_several_brokers_are_found_once_each(others: int) -> None:
    """Whether they are many of the table's, or few."""
    dice = np.random.default_rng(others)
    few = [dice.permutation(9)[:3].tolist() for _ in range(100)]
    table = PartitionTable.from_arrays(few + [[20, 21, 22]] * others)
    leaving = [table.brokers.row(broker) for broker in (1, 4, 7)]
    wanted = [row for row, replicas in enumerate(few) if {1, 4, 7} & {*replicas}]
    found = rows_of(table, leaving)
    assert found.tolist() == wanted
    assert found.dtype == np.int32


def test_no_candidates_no_changes() -> None:
    empty = elect(table_of([], BROKERS, {0}, set()), "offline")
    assert len(empty) == 0 and empty.isr_offsets.tolist() == [0] and empty.failed.tolist() == []


def test_kernel_inputs_are_copied_or_read_only() -> None:
    """Rows are copied before they are checked, and only its methods write a table's columns."""
    rows = np.arange(3, dtype=np.int32)
    assert not np.shares_memory(checked_rows(rows, 3), rows)
    table = PartitionTable.from_arrays([[0, 1], [1, 2]])
    for column in PARTITION_COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(table, column.name)[0] = 7
    table.apply(elect(table, "offline", leaving=[0]).written())
    table.add_topic("more", [[0, 1, 2]])
    assert not any(getattr(table, column.name).flags.writeable for column in PARTITION_COLUMNS)


@pytest.mark.parametrize(("kind", "level"), [("offline", "3.9.1"), ("online", "3.9-IV0"), ("online", "4.1.2")])
def test_an_election_that_is_applied_raises_the_partition_epoch_by_one(kind: str, level: str) -> None:
    """ZooKeeper's elections have the version that the write must find, KRaft's the epoch after the change."""
    table = PartitionTable.from_arrays([[0, 1]], partition_epochs=[7])
    elections = elect(table, kind, leaving=[0], level=level)
    is_written = isinstance(elections, PartitionChanges)
    assert is_written == (kind == "online") != isinstance(elections, UnwrittenChanges)
    assert elections.partition_epochs.tolist() == [8 if is_written else 7]
    table.apply(elections.written())
    assert table.partition_epoch__p.tolist() == [8] and table.state(0).leader == 1


def test_what_is_not_written_is_not_applied() -> None:
    table = PartitionTable.from_arrays([[0, 1]])
    with pytest.raises(TableError, match="not written"):
        table.apply(elect(table, "offline", leaving=[0]))  # type: ignore[arg-type]
    assert table.state(0).leader == 0
