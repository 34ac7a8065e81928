"""What the records that a leader appends for a measurement come to."""

import asyncio

import numpy as np
import pytest

from kcore.errors import RaftLogError
from kcore.raft.accumulator import max_records
from kcore.raft.effects import Committed, LeaderChanged
from kcore.raft.log import Appended
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.server.quorum.workload import BUCKETS, BUCKETS_A_MS, AppendWorkload, Stats, no_op_of, stats_of
from kcore.wire.metadata_frames import decode_metadata_record
from net.loops import story


class Leader:
    """A node whose log takes everything."""

    def __init__(self) -> None:
        self.end, self.epochs = 0, set[int]()
        self.resigned = False

    def append(self, records: list[bytes], epoch: int) -> Appended:
        if self.resigned:
            raise RaftLogError("it leads no more")
        assert {len(each) for each in records} == {100}
        self.epochs.add(epoch)
        self.end += len(records)
        return Appended(self.end - len(records), self.end - 1)


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
    told = stats_of(counts, 100, 2.0)
    assert told == Stats(500.0, 50_000.0, 500.0, 750.0, 990.0, 999.0)
    assert str(told).startswith(
        "Throughput (bytes/second): 50000.00, Latency (ms): 750.0 p75 990.0 p99 999.0 p999, 500.0 p50, 500 records"
    )
    assert stats_of(np.zeros(BUCKETS, np.int64), 100, 2.0) is None


@story
async def test_records_go_to_the_log_at_the_rate_while_the_node_leads() -> None:
    leader = Leader()
    workload = AppendWorkload(1, 2_000, 100, lambda stats: None)
    running = asyncio.create_task(workload.run(leader.append))
    await asyncio.sleep(0.05)
    assert leader.end == 0
    workload.hear(LeaderChanged(2, 4))
    await asyncio.sleep(0.05)
    assert leader.end == 0
    began = asyncio.get_running_loop().time()
    workload.hear(LeaderChanged(1, 5, 3))
    while leader.end < 200:
        await asyncio.sleep(0.001)
        assert leader.end <= (asyncio.get_running_loop().time() - began) * 2_000
    workload.hear(LeaderChanged(2, 6))
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
    workload = AppendWorkload(1, 1_000, 100, reports.append)
    workload.hear(LeaderChanged(1, 5, 0))
    await asyncio.sleep(0.1)  # Some hundred are due, and none is appended.
    workload._append_due(leader.append, 5)
    appended = leader.end
    assert appended >= 99
    workload.hear(Committed(appended - 1))  # Not the last one: all went in one batch.
    [(_, counts)] = workload._windows
    assert counts.sum() == 0
    workload.hear(Committed(appended))
    buckets = counts.nonzero()[0]
    assert counts.sum() == appended
    assert len(buckets) > 0.9 * appended  # A millisecond lies between the latencies of one record and the next.
    assert buckets[-1] >= 99 * BUCKETS_A_MS
    workload.hear(LeaderChanged(1, 6, appended))
    [(_, counts)] = workload._windows
    assert counts.sum() == 0  # The time between two reigns counts for neither.


@story
async def test_a_leader_that_lost_its_place_appends_nothing() -> None:
    leader = Leader()
    leader.resigned = True
    workload = AppendWorkload(1, 1_000, 100, lambda stats: None)
    workload.hear(LeaderChanged(1, 5, 0))
    running = asyncio.create_task(workload.run(leader.append))
    await asyncio.sleep(0.05)
    assert not running.done()
    assert leader.end == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@story
async def test_what_is_late_is_appended_in_parts_that_a_batch_can_hold() -> None:
    leader = Leader()
    workload = AppendWorkload(1, 1e9, 100, lambda stats: None)
    workload.hear(LeaderChanged(1, 5, 0))
    await asyncio.sleep(0.01)  # Some ten million are due.
    for parts in (1, 2):
        workload._append_due(leader.append, 5)
        assert leader.end == parts * max_records(100)
