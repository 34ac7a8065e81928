"""Bulk elections against the recorded decisions, the slow twin, and bad input."""

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from kcore.errors import LevelError, TableError
from kcore.replication.election import elect
from recorded_elections import kraft_acceptable, kraft_level, plain_kraft_cases, zookeeper_cases, zookeeper_live
from reference import election as reference
from small_tables import Partition, as_dicts, state_of, table_of

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
    """Each case has brokers of its own, so that all fit one table. Tables have no partition without replicas or state."""
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
    """All but those whose ISR is set from outside: AlterPartition and recovery have one-partition rules only."""
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
    """Every partition of at most `width` replicas 0, 1, 2 .. with any ordered ISR of them and an outsider, any leader."""
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
