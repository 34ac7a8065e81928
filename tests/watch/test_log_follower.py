"""What `kcore top` counts in the metadata log, beside the same records as objects."""

from random import Random

import numpy as np

from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord
from kcore.types import Uuid
from kcore.watch.frame import measured
from kcore.watch.log_follower import isr_changes
from kcore.watch.scraped import samples_of
from kcore.wire.metadata_frames import encode_metadata_record


def test_isr_changes_are_the_records_with_an_isr() -> None:
    dice = Random(1)
    changes = []
    for at in range(400):
        change = PartitionChangeRecord(partition_id=at, topic_id=Uuid(dice.randbytes(16)))
        for name, value in (
            ("isr", [1, 2]),
            ("leader", 2),
            ("replicas", [1, 2, 3]),
            ("removing_replicas", [3]),
            ("leader_recovery_state", 1),
        ):
            if dice.random() < 0.4:
                setattr(change, name, value)
        changes.append(change)
    values = [encode_metadata_record(change, 0) for change in changes]
    lengths = np.array([len(value) for value in values], np.int32)
    begins = np.cumsum([0, *lengths[:-1]]).astype(np.int64)
    expected = sum(change.isr is not None for change in changes)
    assert 0 < expected < 400
    assert isr_changes(memoryview(b"".join(values)), begins, lengths) == expected
    assert isr_changes(memoryview(b""), begins[:0], lengths[:0]) == 0
    assert PartitionRecord.api_key != PartitionChangeRecord.api_key


PAGE = """
# TYPE kcore_event_longest_recent_seconds gauge
kcore_event_longest_recent_seconds{kind="CreateTopics"} 0.25
kcore_event_longest_recent_seconds{kind="Fetch"} 0.5
# TYPE kcore_request_seconds histogram
kcore_request_seconds_bucket{api="BrokerHeartbeat",le="+Inf"} %d
kcore_request_seconds_count{api="BrokerHeartbeat"} %d
kcore_request_seconds_sum{api="BrokerHeartbeat"} %f
# TYPE process_cpu_seconds counter
process_cpu_seconds_total %f
# TYPE kafka_server_raft_metrics_commit_latency_avg gauge
kafka_server_raft_metrics_commit_latency_avg NaN
"""


def test_rates_are_of_two_readings_of_a_page() -> None:
    before, now = samples_of(PAGE % (10, 10, 1.0, 3.0)), samples_of(PAGE % (30, 30, 1.5, 4.0))
    found = measured("u", now, before, 2.0)
    assert (found.heartbeats_per_s, found.heartbeat_ms, found.cpu) == (10.0, 25.0, 0.5)
    assert (found.longest_event, found.longest_event_ms, found.commit_avg_ms) == ("Fetch", 500.0, None)
    first = measured("u", now, None, 0.0)
    assert (first.heartbeats_per_s, first.cpu, first.longest_event) == (None, None, "Fetch")
    restarted = measured("u", before, now, 2.0)
    assert (restarted.heartbeats_per_s, restarted.cpu) == (None, None), "the controller is another process"
