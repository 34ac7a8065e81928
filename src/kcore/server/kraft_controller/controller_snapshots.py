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
        snapshots, log, time_ms = controller.snapshots, runtime.node.log, wall_ms()
        why = snapshots.need.why(controller.stable, time_ms) or _why_a_better_one(runtime, controller)
        if why is None or (offset := controller.snapshot_offset()) is None:
            continue
        # While a large decision is being applied, the offset may be below `stable`: the last snapshot may end there.
        if not snapshots.need.offset < offset <= log.end_offset:
            continue
        snapshots.need.begin(offset, time_ms)
        snapshot = OffsetAndEpoch(offset, log.epoch_at(offset - 1))
        release_journal = snapshots.hold(offset)
        image, release = snapshots.image(controller.image), controller.config.node.release
        slices = snapshot_slices(image, offset, snapshot.epoch, time_ms, release_journal, release)
        try:
            is_written = await write_due_snapshot(runtime, snapshot, time_ms, slices, why)
        finally:
            release_journal()
        if is_written:
            snapshots.need.has_size(runtime.metrics.snapshots.latest_bytes)


def _why_a_better_one(runtime: QuorumRuntime, controller: KraftController) -> str | None:
    """Why a new snapshot is due: Kafka's followers cannot go on if the last one ends within a batch. Or None."""
    log = runtime.node.log
    latest = log.latest_snapshot
    if latest is None or not controller.is_active or controller.stable <= controller.snapshots.need.offset:
        return None
    is_within = ends_within_a_batch(log, latest)
    return f"the last one, up to offset {latest.offset}, ends within a batch" if is_within else None
