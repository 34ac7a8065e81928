"""The single-partition rules against what Kafka's own classes decided."""

from typing import Any

import pytest

import cases
from kcore.replication.election_rules import (
    elect_one,
    leader_and_isr_recipients,
    partition_change,
)
from replication.recorded_elections import (
    PLAIN_KRAFT_CASES,
    as_state,
    kraft_acceptable,
    kraft_level,
    plain_kraft_cases,
    zookeeper_cases,
    zookeeper_live,
)


@pytest.mark.recorded
def test_zookeeper_elections_are_kafkas() -> None:
    for case in zookeeper_cases():
        live = zookeeper_live(case)
        brokers = {"live": live, "shutting_down": case["shutting_down"], "removing": case["removing"]}
        state = None if case["no_leader_and_isr"] else as_state(case)
        level = "3.9.1" if case["recovery_supported"] else "zookeeper:3.1-IV0"
        got = elect_one(case["kind"], case["replicas"], state, **brokers, unclean=case["unclean"], level=level)
        assert got == (as_state(case["out"]) if case["out"] else None), case["i"]
        assert leader_and_isr_recipients(case["kind"], case["replicas"], **brokers) == tuple(case["out_live_replicas"])


@pytest.mark.recorded
@pytest.mark.parametrize("release", ["3.9.1", "4.1.2"])
def test_kraft_elections_are_kafkas(release: str) -> None:
    chosen = plain_kraft_cases(release)
    if cases.directory == cases.DATA:
        assert len(chosen) == PLAIN_KRAFT_CASES[release]
    assert chosen
    for case in chosen:
        before = as_state(case["partition"])
        change = partition_change(
            case["election"].lower(),
            case["partition"]["replicas"],
            before,
            acceptable=kraft_acceptable(case),
            target_isr=case["target_isr"],
            target_recovery=0 if case["target_recovered"] else None,
            level=kraft_level(case, release),
        )
        expected: dict[str, Any] | None = case["out"]
        if expected is None:
            assert change is None, case["i"]
            continue
        assert change is not None, case["i"]
        isr = None if change.isr is None else list(change.isr)
        fields = {"isr": isr, "leader": change.leader, "leader_recovery_state": change.leader_recovery_state}
        assert fields == {name: expected[name] for name in fields}, case["i"]
        assert change.applied_to(before) == as_state(case["merged"]), case["i"]
