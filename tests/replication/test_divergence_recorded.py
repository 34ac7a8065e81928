"""Epoch caches and the truncation exchange against the recorded answers of Kafka's own classes."""

from typing import Any

import numpy as np
import pytest

import cases
from kcore.replication.divergence import end_offset_for_epoch, exchange, truncation_offsets
from kcore.replication.epochs import EpochCache, EpochTables

VERSIONS = ["3.9.1", "4.1.2"]


def lists(cache: EpochCache) -> list[list[int]]:
    return [list(entry) for entry in cache.entries]


def neighbours(cache: EpochCache, epoch: int) -> list[Any]:
    """The recorded line of an epoch: itself, the epoch before, the one after, the entry before, its own entry."""
    before, after, own = cache.previous_entry(epoch), cache.next_entry(epoch), cache.entry(epoch)
    return [epoch, before and before.epoch, after and after.epoch, before and list(before), own and list(own)]


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_epoch_cache(version: str) -> None:
    for case in cases.load(f"epoch_cache_{version}"):
        cache = EpochCache(map(tuple, case["assign"]))
        assert lists(cache) == case["table"], f"case {case['i']}"
        for requested, *answer in case["end_offset_for"]:
            assert list(cache.end_offset_for(requested, case["log_end_offset"])) == answer, f"case {case['i']}"
        for offset, epoch in case["epoch_for_offset"]:
            assert cache.epoch_for_offset(offset) == epoch, f"case {case['i']}"
        for recorded in case["prev_next"]:
            assert neighbours(cache, recorded[0]) == recorded, f"case {case['i']}"


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_epoch_cache_truncated_from_both_ends(version: str) -> None:
    for case in cases.load(f"epoch_cache_{version}"):
        cache = EpochCache(map(tuple, case["assign"]))
        cuts = [(cache.truncate_from_start, case["truncate_start"]), (cache.truncate_from_end, case["truncate_end"])]
        for (cut, offset), after in zip(cuts[:: -1 if case["end_first"] else 1], ("after1", "after2"), strict=True):
            cut(offset)
            assert lists(cache) == case[after], f"case {case['i']}"


@pytest.mark.recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_end_offsets_in_bulk(version: str) -> None:
    """Every recorded question of every case is a row of one call."""
    recorded = cases.load(f"epoch_cache_{version}")
    questions = [(case, *question) for case in recorded for question in case["end_offset_for"]]
    tables = EpochTables.of([case["table"] for case, *_ in questions], [q[0]["log_end_offset"] for q in questions])
    epochs, end_offsets = end_offset_for_epoch(*tables.columns, np.array([q[1] for q in questions]))
    assert epochs.tolist() == [q[2] for q in questions]
    assert end_offsets.tolist() == [q[3] for q in questions]


@pytest.mark.recorded
def test_exchange_round_by_round() -> None:
    for case in cases.load("kip101_truncation_3.9.1"):
        seen = exchange(
            EpochCache(map(tuple, case["leader_table"])),
            case["leader_end_offset"],
            EpochCache(map(tuple, case["follower_table"])),
            case["follower_end_offset"],
            case["high_watermark"],
        )
        assert [[asked, *answer] for asked, answer in seen.requests] == case["requests"], f"case {case['i']}"
        assert [list(state) for state in seen.truncations] == case["truncations"], f"case {case['i']}"
        assert len(seen.truncations) == case["rounds"], f"case {case['i']}"
        assert seen.truncations[-1].offset == case["fetch_offset"], f"case {case['i']}"
        assert (seen.log_end_offset, lists(seen.cache)) == (case["after_end_offset"], case["after_table"])


@pytest.mark.recorded
def test_truncation_in_bulk() -> None:
    recorded = cases.load("kip101_truncation_3.9.1")

    def values(name: str) -> list[Any]:
        return [case[name] for case in recorded]

    leader = EpochTables.of(values("leader_table"), values("leader_end_offset"))
    follower = EpochTables.of(values("follower_table"), values("follower_end_offset"), values("high_watermark"))
    truncations = truncation_offsets(leader, follower)
    assert truncations.offsets.tolist() == values("fetch_offset")
    assert truncations.rounds.tolist() == values("rounds")
