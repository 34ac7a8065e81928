"""The log that all brokers share: applied as far as it is committed, or counted."""

from types import SimpleNamespace
from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import DecodeError, TargetError
from kcore.measure.hollow.observer import Observer
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

TOPIC = Uuid(bytes(range(1, 17)))
RECORDS = [
    s.RegisterBrokerRecord(broker_id=1, broker_epoch=0, fenced=True),
    s.TopicRecord(name="a", topic_id=TOPIC),
    s.PartitionRecord(topic_id=TOPIC, partition_id=0, replicas=[1], isr=[1], leader=1),
    s.PartitionRecord(topic_id=TOPIC, partition_id=1, replicas=[1], isr=[1], leader=1),
    s.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1),
]
TYPES = [record.api_key for record in RECORDS]


def batch(begin: int, end: int, epoch: int = 1) -> bytes:
    rows = [Record(at, 1_000, None, encode_metadata_record(RECORDS[at], 0), ()) for at in range(begin, end)]
    return encode_records(rows, partition_leader_epoch=epoch)


def observer(**options: bool) -> tuple[Observer, list[int]]:
    """An observer without brokers, and the offsets that it passed to `seek_tape`."""
    sought: list[int] = []
    loop: Any = SimpleNamespace(seek_tape=sought.append)
    quorum: Any = None
    return Observer(quorum, loop, **options), sought


def test_what_is_not_committed_waits() -> None:
    ours, _ = observer()
    ours.read(batch(0, 2) + batch(2, 3), 0)
    assert (ours.end_offset, ours.image.brokers) == (0, {})
    ours.read(b"", 2)
    assert (ours.end_offset, list(ours.image.topic_ids), ours.partitions) == (2, ["a"], 0)
    ours.read(batch(3, 5), 4)  # The batch ends behind what is committed.
    assert (ours.end_offset, ours.partitions) == (3, 1)
    ours.read(b"", 5)
    assert (ours.end_offset, ours.partitions) == (5, 2)
    assert not ours.image.brokers[1].fenced


def test_what_no_leader_commits_is_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcore.measure.hollow.observer._MOST_WAITING", 1_000)
    ours, _ = observer()
    with pytest.raises(TargetError, match="more than 1,000 bytes of the leader's log are not committed"):
        for _ in range(50):
            ours.read(batch(0, 5), 0)


def test_records_that_are_far_more_than_their_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the log and those of a snapshot."""
    monkeypatch.setattr("kcore.measure.hollow.observer._MOST_DECOMPRESSED", 1_000)
    bomb = bytes(encode_records([Record(0, 0, None, bytes(2_000))], codec="gzip"))
    slices: Any = iter([bomb])
    ours, _ = observer()
    with pytest.raises(DecodeError, match="larger than max_bytes"):
        ours.read(bomb, 1)
    with pytest.raises(DecodeError, match="larger than max_bytes"):
        ours.on_snapshot(slices)


@pytest.mark.parametrize("counts_only", [False, True])
def test_the_types_of_all_records_are_seen_once(counts_only: bool) -> None:
    ours, _ = observer(counts_only=counts_only)
    ours.read(batch(0, 3), 3)
    ours.read(batch(3, 5), 5)
    offsets, types = ours.types()
    assert (offsets.tolist(), types.tolist()) == ([0, 1, 2, 3, 4], TYPES)
    assert ours.types(3)[0].tolist() == [3, 4]
    ours.forget()
    assert ours.types()[0].tolist() == []


def test_who_only_counts_knows_brokers_and_how_many_partitions_were_made() -> None:
    ours, _ = observer(counts_only=True)
    ours.read(batch(0, 5), 5)
    assert (ours.end_offset, ours.partitions) == (5, 2)
    assert not ours.image.brokers[1].fenced
    assert ours.image.topic_ids == {}


def test_a_truncation_drops_what_waits_and_never_what_is_committed() -> None:
    ours, sought = observer()
    ours.read(batch(0, 2) + batch(2, 3) + batch(3, 5), 2)
    ours._truncate(1, 3)
    assert sought == [3]
    ours.read(batch(3, 5), 5)
    assert (ours.end_offset, ours.partitions) == (5, 2)
    with pytest.raises(TargetError, match="the log was truncated to 4, below the committed offset 5"):
        ours._truncate(1, 4)


def test_a_new_leaders_batches_replace_those_that_its_predecessor_did_not_commit() -> None:
    """The broker that brings them had not read the old ones, so no broker truncates before they are committed."""
    ours, sought = observer()
    ours.read(batch(0, 2) + batch(2, 3) + batch(3, 4), 2)
    ours.read(batch(2, 3, epoch=2) + batch(3, 5, epoch=2), 5)
    assert (ours.end_offset, ours.partitions, sought) == (5, 2, [])
    assert (ours.committed_of(1), ours.committed_of(2)) == (2, 5)
    ours._truncate(1, 2)  # Another broker truncates now.


def test_a_broker_may_truncate_its_log_when_another_has_read_on_in_the_new_epoch() -> None:
    """Some brokers had fetched offset 3 of epoch 1, which was not committed; the new leader has it in epoch 2."""
    ours, sought = observer()
    ours.read(batch(0, 3) + batch(3, 4, epoch=2) + batch(4, 5, epoch=2), 4)
    ours._truncate(1, 3)
    assert sought == []
    ours.read(b"", 5)
    assert (ours.end_offset, ours.partitions) == (5, 2)
    ours._truncate(1, 3)
    with pytest.raises(TargetError, match="the log was truncated to 2, below the committed offset 3"):
        ours._truncate(1, 2)
