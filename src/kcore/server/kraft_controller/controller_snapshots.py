"""Writes the snapshots of a KRaft controller when they are due (SnapshotGenerator)."""

import asyncio

from kcore.controller.kraft.controller import KraftController
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.raft.snapshots import ends_within_a_batch
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.server.clock import wall_ms
from kcore.server.quorum_node.quorum_runtime import QuorumRuntime
from kcore.server.quorum_node.snapshot_writing import SNAPSHOT_CHECK_S, write_due_snapshot


async def write_snapshots(runtime: QuorumRuntime, controller: KraftController) -> None:
    """Writes snapshots of the committed state when they are due. A failed one is not repeated before the next."""
    while True:
        await asyncio.sleep(SNAPSHOT_CHECK_S)
        time_ms, log = wall_ms(), runtime.node.log
        why = controller.snapshots.why(controller.stable, time_ms) or _why_a_better_one(runtime, controller)
        if why is None or (offset := controller.snapshot_offset()) is None or log.end_offset < offset:
            continue
        controller.snapshots.begin(offset, time_ms)
        snapshot = OffsetAndEpoch(offset, log.epoch_at(offset - 1))
        controller.hold(offset)
        release = controller.config.node.release
        image, epoch = controller.snapshot_image, snapshot.epoch
        slices = snapshot_slices(image, offset, epoch, time_ms, controller.release, release)
        try:
            is_written = await write_due_snapshot(runtime, snapshot, time_ms, slices, why)
        finally:
            controller.release()
        if is_written:
            controller.snapshots.has_size(runtime.metrics.snapshots.latest_bytes)


def _why_a_better_one(runtime: QuorumRuntime, controller: KraftController) -> str | None:
    """Why a new snapshot is due: Kafka's followers cannot go on if the last one ends within a batch. Or None."""
    log = runtime.node.log
    latest = log.latest_snapshot
    if latest is None or controller.epoch is None or controller.stable <= controller.snapshots.offset:
        return None
    is_within = ends_within_a_batch(log, latest)
    return f"the last one, up to offset {latest.offset}, ends within a batch" if is_within else None
