"""End offsets and truncation of 100,000 partitions with 20 epochs each: Cython, which ships, against Numba."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import divergence_numba
from kcore._ext.raft import divergence as divergence_cython
from kcore.replication.divergence import end_offset_for_epoch, truncation_offsets
from kcore.replication.epochs import EpochTables

PARTITIONS, EPOCHS = 100_000, 20
KERNELS = pytest.mark.parametrize("kernels", [divergence_cython, divergence_numba], ids=["cython", "numba"])


def diverged(seed: int = 1) -> tuple[EpochTables, EpochTables]:
    """Leaders, and followers that went their own way after 8 to 19 epochs."""
    random, rows = np.random.default_rng(seed), np.arange(PARTITIONS + 1) * EPOCHS
    shape, own = (PARTITIONS, EPOCHS), np.arange(EPOCHS) >= random.integers(8, EPOCHS, (PARTITIONS, 1))
    epoch_steps, start_steps = random.integers(1, 3, shape), random.integers(1, 50, shape)
    own_epoch_steps = np.where(own, random.integers(1, 3, shape), epoch_steps)
    own_start_steps = np.where(own, random.integers(1, 50, shape), start_steps)

    def table(epochs: Any, starts: Any, watermarks: Any = None) -> EpochTables:
        return EpochTables(epochs.astype(np.int32).ravel(), starts.ravel(), rows, starts[:, -1] + 10, watermarks)

    leader = table(epoch_steps.cumsum(1), start_steps.cumsum(1))
    own_starts = own_start_steps.cumsum(1)
    return leader, table(own_epoch_steps.cumsum(1), own_starts, own_starts[:, 4].copy())


LEADER, FOLLOWER = diverged()
REQUESTED = np.random.default_rng(2).integers(0, 2 * EPOCHS, PARTITIONS, dtype=np.int32)


@KERNELS
def test_end_offsets(benchmark: Any, kernels: ModuleType) -> None:
    epochs__p, end_offsets__p = np.empty(PARTITIONS, np.int32), np.empty(PARTITIONS, np.int64)
    benchmark(kernels.end_offsets, *LEADER.columns, REQUESTED, epochs__p, end_offsets__p)
    expected = end_offset_for_epoch(*LEADER.columns, REQUESTED)
    assert (epochs__p == expected[0]).all() and (end_offsets__p == expected[1]).all()


@KERNELS
def test_truncation_rounds(benchmark: Any, kernels: ModuleType) -> None:
    offsets__p, rounds__p = np.empty(PARTITIONS, np.int64), np.empty(PARTITIONS, np.int32)
    tables = *LEADER.columns, *FOLLOWER.columns, FOLLOWER.high_watermarks
    benchmark(kernels.truncation_rounds, *tables, offsets__p, rounds__p)
    expected = truncation_offsets(LEADER, FOLLOWER)
    assert (offsets__p == expected.offsets).all() and (rounds__p == expected.rounds).all()
    assert rounds__p.max() > 3


def test_end_offset_for_epoch(benchmark: Any) -> None:
    benchmark(end_offset_for_epoch, *LEADER.columns, REQUESTED)


def test_truncation_offsets(benchmark: Any) -> None:
    benchmark(truncation_offsets, LEADER, FOLLOWER)


def test_epoch_tables(benchmark: Any) -> None:
    """The cost of validating once."""
    benchmark(EpochTables, *LEADER.columns)
