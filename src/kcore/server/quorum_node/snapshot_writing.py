"""Writes snapshots of a node's state, slice by slice (SnapshotGenerator)."""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Final

from kcore.errors import StorageError
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.server.quorum_node.quorum_runtime import QuorumRuntime

logger = logging.getLogger(__name__)
SNAPSHOT_SLICE: Final = "snapshot slice written"  # The kind of this event in the metrics.
SNAPSHOT_CHECK_S: Final = 1.0  # The interval of checks whether a snapshot is due.


async def write_snapshot(
    runtime: QuorumRuntime, snapshot: OffsetAndEpoch, last_contained_log_timestamp: int, slices: Iterable[bytes]
) -> bool:
    """Writes a snapshot of the state at `snapshot`. `slices`: whole batches; other events run after each slice.

    False if the log has this snapshot, can have none at this offset, or begins after the offset in the end.
    """
    first_s = begin_s = time.monotonic()
    writer = runtime.node.begin_snapshot(snapshot, last_contained_log_timestamp, runtime.clock.now_ms())
    if writer is None:
        return False
    nbytes = 0
    try:
        for batches in slices:
            writer.add(batches)
            nbytes += len(batches)
            runtime.measure(SNAPSHOT_SLICE, begin_s)
            await asyncio.sleep(0)
            begin_s = time.monotonic()
        await asyncio.get_running_loop().run_in_executor(None, writer.flush())
        begin_s, is_written = time.monotonic(), writer.freeze()
        runtime.measure("snapshot frozen", begin_s)
        if is_written:
            runtime.metrics.snapshots.add(nbytes, first_s, time.monotonic())
        return is_written
    finally:
        writer.drop()


async def write_due_snapshot(
    runtime: QuorumRuntime,
    snapshot: OffsetAndEpoch,
    last_contained_log_timestamp: int,
    slices: Iterable[bytes],
    why: str,
) -> bool:
    """As `write_snapshot`; logs why the snapshot was due, or what failed. False also after a failure."""
    try:
        is_written = await write_snapshot(runtime, snapshot, last_contained_log_timestamp, slices)
    except StorageError as error:  # The disk is full, or gone.
        logger.error("the snapshot %s-%s was not written: %s", snapshot.offset, snapshot.epoch, error)
        return False
    except Exception:
        logger.exception("the snapshot %s-%s was not written", snapshot.offset, snapshot.epoch)
        return False
    if is_written:
        logger.info("snapshot %s-%s is written: %s", snapshot.offset, snapshot.epoch, why)
    return is_written
