"""A leader whose snapshot ends within a batch writes a better one: Kafka's followers cannot go on from the first."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.raft.snapshots import ends_within_a_batch
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema import TopicRecord
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.server.kraft_controller import controller_snapshots
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.snapshot import SnapshotId, write_snapshot
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_values
from net.loops import until
from server.compiled_cluster import LEVELS, active


def topic(number: int) -> bytes:
    return encode_metadata_record(TopicRecord(name=f"t{number}", topic_id=Uuid(bytes([number] * 16))), 0)


def with_a_snapshot_within_a_batch(folder: Path) -> OffsetAndEpoch:
    with DiskRaftLog(folder / "__cluster_metadata-0") as log:
        epoch, end = log.last_epoch, log.end_offset
        data = encode_values([topic(1), topic(2)], base_offset=end, timestamp=0, partition_leader_epoch=epoch)
        log.append_as_leader(data, epoch)
    features = [FeatureLevelRecord(name=name, feature_level=level) for name, level in LEVELS["4.3.1"].items()]
    values = [*(encode_metadata_record(each, 0) for each in features), topic(1)]
    where = folder / "__cluster_metadata-0"
    write_snapshot(where, SnapshotId(end + 1, epoch), values, time_ms=0, last_contained_log_timestamp=0)
    return OffsetAndEpoch(end + 1, epoch)


def test_a_leader_writes_a_snapshot_that_ends_with_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_snapshots, "SNAPSHOT_CHECK_S", 0.01)

    async def run() -> None:
        async with active(tmp_path):
            pass
        within = with_a_snapshot_within_a_batch(tmp_path)
        async with active(tmp_path) as server:
            log = server.node.log
            assert ends_within_a_batch(log, within)
            await until(lambda: log.latest_snapshot != within)
            assert not ends_within_a_batch(log, log.latest_snapshot or within)
            assert [*server.controller.image.topic_ids] == ["t1", "t2"]
            latest = log.latest_snapshot
            for _ in range(5):
                await asyncio.sleep(0.01)
            assert log.latest_snapshot == latest, "one is enough"

    asyncio.run(run())


class Ended(Exception):
    """The test has seen enough."""


def test_no_snapshot_begins_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large decision that is being applied keeps the offset below `stable`, at the end of the last snapshot."""
    monkeypatch.setattr(controller_snapshots, "SNAPSHOT_CHECK_S", 0)
    offsets, begun = [10, 10], list[int]()

    def snapshot_offset() -> int:
        if not offsets:
            raise Ended
        return offsets.pop()

    need = SimpleNamespace(why=lambda offset, now_ms: "many bytes", offset=10, begin=lambda offset, now_ms: None)
    snapshots = SimpleNamespace(need=need, hold=begun.append)
    controller: Any = SimpleNamespace(snapshots=snapshots, stable=12, snapshot_offset=snapshot_offset)
    log = SimpleNamespace(end_offset=12, epoch_at=lambda offset: 1)
    runtime: Any = SimpleNamespace(node=SimpleNamespace(log=log))
    with pytest.raises(Ended):
        asyncio.run(controller_snapshots.write_snapshots(runtime, controller))
    assert begun == []
