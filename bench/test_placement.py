"""Placing a million partitions, RF 3: the kinds side by side, and NumPy against the kernel for the plain one."""

from typing import Any

import numpy as np
import pytest

from kcore.replication.placement import place

PARTITIONS, BROKERS, FACTOR = 1_000_000, 1_000, 3
RACKS = [f"rack{broker % 5}" for broker in range(BROKERS)]


KINDS = [("article", None), ("kafka-3.9", None), ("kafka-3.9", RACKS), ("striped", None), ("striped", RACKS)]


@pytest.mark.parametrize(("kind", "racks"), KINDS, ids=[f"{kind}{' on racks' * bool(racks)}" for kind, racks in KINDS])
def test_place(benchmark: Any, kind: str, racks: list[str] | None) -> None:
    placed = benchmark(place, kind, range(BROKERS), PARTITIONS, FACTOR, racks=racks)
    assert placed.shape == (PARTITIONS, FACTOR)


def test_shifted_round_robin_in_numpy(benchmark: Any) -> None:
    """The loser: Kafka's rack-unaware rule with whole-array operations."""

    def shifted() -> np.ndarray:
        p = np.arange(PARTITIONS)
        shift = p // BROKERS
        distance = 1 + (shift[:, None] + np.arange(FACTOR - 1)) % (BROKERS - 1)
        return np.column_stack([p % BROKERS, (p[:, None] + distance) % BROKERS]).astype(np.int32)

    placed = benchmark(shifted)
    assert (placed == place("kafka-3.9", range(BROKERS), PARTITIONS, FACTOR, start=0)).all()
