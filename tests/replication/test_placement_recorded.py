"""Placement against recorded results of Kafka's own AdminUtils and StripedReplicaPlacer."""

import re
from typing import Any

import pytest

import cases
from kcore.errors import PlacementError
from kcore.replication.placement import place

# Kafka's error, and ours for it: (start of the recorded text, our pattern, filled with the recorded numbers).
ERRORS = [
    ("InvalidPartitionsException: Number of partitions must be larger", "partitions must be larger than 0"),
    ("InvalidReplicationFactorException: Replication factor must be larger", "factor must be larger than 0"),
    ("InvalidReplicationFactorException: Replication factor: ", "factor {} is larger than the {} available"),
    ("AdminOperationException: Not all brokers have rack information", "rack of every broker"),
    ("InvalidReplicationFactorException: All brokers are currently fenced", "brokers are fenced"),
    ("InvalidReplicationFactorException: Invalid replication factor ", "invalid replication factor {}"),
    ("InvalidReplicationFactorException: The target replication factor ", "factor {} is larger than the {} available"),
]


def our_error(recorded: str) -> str:
    [ours] = [ours for kafkas, ours in ERRORS if recorded.startswith(kafkas)]
    return ours.format(*re.findall(r"-?\d+", recorded))


def check(case: dict[str, Any], expected: list[list[int]], *request: Any, **options: Any) -> None:
    __tracebackhide__ = True
    if case["error"] is None:
        assert place(*request, **options).tolist() == expected, f"case {case['i']}"
    else:
        with pytest.raises(PlacementError, match=our_error(case["error"])):
            place(*request, **options)


@pytest.mark.recorded
def test_admin_utils() -> None:
    for case in cases.load("placement_adminutils_3.9.1"):
        first = case["start_partition_id"]
        expected = [(case["out"] or {}).get(str(first + p)) for p in range(case["partitions"])]
        check(case, expected, "kafka-3.9", case["brokers"], case["partitions"], case["rf"],
              racks=case["racks"], start=case["fixed_start_index"], start_partition=first)  # fmt: skip


@pytest.mark.recorded
@pytest.mark.parametrize("version", ["3.9.1", "4.1.2"])
def test_striped_replica_placer(version: str) -> None:
    for case in cases.load(f"placement_striped_{version}"):
        options = {"fenced": case["fenced"], "seed": case["java_random_seed"]}
        check(case, case["out"], "striped", case["brokers"], case["partitions"], case["rf"],
              racks=case["racks"], start_partition=case["start_partition"], **options)  # fmt: skip
