"""Divergence: end offsets for epochs in leaders' logs, and the offsets to which followers truncate."""

import numpy as np

from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.measure import Operation
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.divergence import end_offset_for_epoch, truncation_offsets
from kcore.replication.epochs import EpochTables
from kcore.types import Int32s, Int64s

EPOCHS_A_LOG = 20
MOST_RECORDS_AN_EPOCH = 1_000
# The least bytes of a question: for each log its row offset, its end and one of its entries.
A_LOG = 8 + 8 + 12
A_HIGH_WATERMARK = 8
AN_ANSWER = 12


def setup(cell: Cell, cluster: PartitionTable | None) -> list[Operation]:
    """Leaders with 20 epochs each, and followers that diverge from them. A real cluster has no logs: it is ignored."""
    random = np.random.default_rng(cell.seed)
    leader = leaders(cell.partitions, random)
    follower = followers(leader, random)
    requested = _requested(leader, random)
    columns = (leader.epochs, leader.starts, leader.row_offsets, leader.log_ends)
    return [
        Operation(
            "logs: end offsets for epochs",
            lambda: end_offset_for_epoch(*columns, requested),
            list,
            cell.partitions,
            cell.partitions * (A_LOG + requested.itemsize + AN_ANSWER),
        ),
        Operation(
            "logs: truncation offsets",
            lambda: truncation_offsets(leader, follower),
            list,
            cell.partitions,
            cell.partitions * (2 * A_LOG + A_HIGH_WATERMARK + AN_ANSWER),
        ),
    ]


def leaders(partitions: int, random: np.random.Generator) -> EpochTables:
    """Logs in which every epoch has some records; some epochs are skipped, as by lost elections."""
    shape = (partitions, EPOCHS_A_LOG)
    epochs = np.cumsum(random.integers(1, 3, shape), axis=1)
    starts = np.cumsum(random.integers(1, MOST_RECORDS_AN_EPOCH, shape), axis=1) - 1
    log_ends = starts[:, -1] + random.integers(1, MOST_RECORDS_AN_EPOCH, partitions)
    return EpochTables(epochs.ravel().astype(np.int32), starts.ravel(), _row_offsets(partitions), log_ends)


def followers(leader: EpochTables, random: np.random.Generator) -> EpochTables:
    """Logs that follow the leaders' up to an epoch drawn for each, then have epochs of a lost leader."""
    partitions = len(leader)
    epochs, starts = (column.reshape(partitions, EPOCHS_A_LOG) for column in (leader.epochs, leader.starts))
    parted = random.integers(EPOCHS_A_LOG // 2, EPOCHS_A_LOG + 1, partitions)[:, None]
    own = np.arange(EPOCHS_A_LOG) >= parted
    # These epochs are larger by one. The leader has some of them, too, at other offsets.
    epochs = np.where(own, epochs + 1, epochs)
    starts = np.where(own, starts + random.integers(1, MOST_RECORDS_AN_EPOCH, (partitions, 1)), starts)
    keep = np.concatenate([np.ones((partitions, 1), np.bool_), np.diff(epochs, axis=1) > 0], axis=1)
    sizes = keep.sum(axis=1)
    log_ends = starts[:, -1] + random.integers(1, MOST_RECORDS_AN_EPOCH, partitions)
    high_watermarks = np.minimum(leader.starts.reshape(partitions, EPOCHS_A_LOG)[:, EPOCHS_A_LOG // 2], log_ends)
    row_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return EpochTables(epochs[keep].astype(np.int32), starts[keep], row_offsets, log_ends, high_watermarks)


def _requested(leader: EpochTables, random: np.random.Generator) -> Int32s:
    """One epoch for each leader, drawn from the range of their epochs; the leader has it or not."""
    return random.integers(0, 2 * EPOCHS_A_LOG, len(leader)).astype(np.int32)


def _row_offsets(partitions: int) -> Int64s:
    return np.arange(partitions + 1, dtype=np.int64) * EPOCHS_A_LOG
