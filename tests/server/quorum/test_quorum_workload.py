"""The results of a measurement: the records that a leader appends, counted and timed."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from kcore.raft.log.accumulator import max_records
from kcore.raft.state_machine import Append, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.server.quorum_node.workload import BUCKETS, BUCKETS_A_MS, AppendWorkload, Stats, no_op_of, stats_of
from kcore.wire.metadata_frames import decode_metadata_record
from net.loops import story


class Leader:
    """A node whose log takes everything."""

    def __init__(self) -> None:
        self.end, self.epochs = 0, set[int]()

    def submit(self, outputs: Sequence[Append]) -> None:
        for append in outputs:
            assert {len(each) for each in append.records} == {100}
            assert append.expected_offset == self.end
            self.epochs.add(append.epoch)
            self.end += len(append.records)


@pytest.mark.parametrize("size", [4, 5, 6, 7, 100, 133, 134, 135, 256, 1024, 16_384, 16_392, 70_000])
def test_its_records_are_no_ops_of_any_size(size: int) -> None:
    """Real controllers replay what kcore appends in their quorum."""
    record = no_op_of(size)
    assert len(record) in ((4,) if size < 7 else (size, size - 1))
    decoded, version = decode_metadata_record(record)
    assert (type(decoded), version) == (NoOpRecord, 0)


def test_the_line_is_that_of_kafkas_tool() -> None:
    counts = np.zeros(BUCKETS, np.int64)
    counts[: 1000 * BUCKETS_A_MS : BUCKETS_A_MS] = 1  # One each of 0 to 999 ms.
    stats = stats_of(counts, 100, 2.0)
    assert stats == Stats(500.0, 50_000.0, 500.0, 750.0, 990.0, 999.0)
    assert str(stats).startswith(
        "Throughput (bytes/second): 50000.00, Latency (ms): 750.0 p75 990.0 p99 999.0 p999, 500.0 p50, 500 records"
    )
    assert stats_of(np.zeros(BUCKETS, np.int64), 100, 2.0) is None


@story
async def test_records_go_to_the_log_at_the_rate_while_the_node_leads() -> None:
    leader = Leader()
    workload = AppendWorkload(2_000, 100, lambda stats: None)
    running = asyncio.create_task(workload.run(leader.submit))
    await asyncio.sleep(0.05)
    assert leader.end == 0
    began = asyncio.get_running_loop().time()
    leader.end = 3
    workload.on_leader(5, 3)
    while leader.end < 200:
        await asyncio.sleep(0.001)
        assert leader.end - 3 <= (asyncio.get_running_loop().time() - began) * 2_000
    workload.on_resigned(5)
    end = leader.end
    await asyncio.sleep(0.05)
    assert leader.end == end
    assert leader.epochs == {5}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@story
async def test_latency_runs_from_when_a_record_was_due() -> None:
    """Also if the process was late to append it: waiting for its turn is part of it."""
    leader, reports = Leader(), list[Stats]()
    workload = AppendWorkload(1_000, 100, reports.append)
    workload.on_leader(5, 0)
    await asyncio.sleep(0.1)  # Some hundred are due, and none is appended.
    leader.submit(workload._append_due())
    appended = leader.end
    assert appended >= 99
    workload.on_committed(b"", appended - 1)  # Not the last one: all went in one batch.
    [(_, counts)] = workload._windows
    assert counts.sum() == 0
    workload.on_committed(b"", appended)
    buckets = counts.nonzero()[0]
    assert counts.sum() == appended
    assert len(buckets) > 0.9 * appended  # A millisecond lies between the latencies of one record and the next.
    assert buckets[-1] >= 99 * BUCKETS_A_MS
    workload.on_resigned(5)
    workload.on_leader(6, appended)
    [(_, counts)] = workload._windows
    assert counts.sum() == 0  # The time between two reigns counts for neither.


@story
async def test_what_was_refused_is_due_again() -> None:
    """A control record came between: it goes behind that, and its latency still counts from when it was due."""
    leader = Leader()
    workload = AppendWorkload(1_000, 100, lambda stats: None)
    workload.on_leader(5, 0)
    await asyncio.sleep(0.02)
    (refused,) = workload._append_due()
    assert workload.on_refused(refused, 2) == ()
    workload.on_committed(b"", 2)
    leader.end = 2
    leader.submit(workload._append_due())
    assert leader.end >= 2 + len(refused.records)
    [(_, counts)] = workload._windows
    assert counts.sum() == 0
    workload.on_committed(b"", leader.end)
    assert counts.sum() == leader.end - 2
    assert counts.nonzero()[0][-1] >= 19 * BUCKETS_A_MS


def test_a_snapshot_is_not_read() -> None:
    """The workload has no state: it lets the node go on at once."""
    reader = SnapshotReader(OffsetAndEpoch(7, 1), lambda position, size: None)
    assert AppendWorkload(1_000, 100, lambda stats: None).on_snapshot(reader) == ()
    assert reader.is_done


@story
async def test_what_is_late_is_appended_in_parts_that_a_batch_can_hold() -> None:
    leader = Leader()
    workload = AppendWorkload(1e9, 100, lambda stats: None)
    workload.on_leader(5, 0)
    await asyncio.sleep(0.01)  # Some ten million are due.
    for parts in (1, 2):
        leader.submit(workload._append_due())
        assert leader.end == parts * max_records(100)
