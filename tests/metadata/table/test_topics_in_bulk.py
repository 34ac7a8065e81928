"""Many topics that are removed and created again in one stretch of the log: as one by one, and reverted."""

from collections.abc import Iterable
from random import Random

import pytest

from kcore import schema as s
from kcore.errors import TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.records import decode_records

MANY = 100


def topic_id(number: int) -> Uuid:
    return Uuid((number + 1000).to_bytes(16))


def created(numbers: Iterable[int]) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for number in numbers:
        records.append(s.TopicRecord(name=f"t{number}", topic_id=topic_id(number)))
        records += [
            s.PartitionRecord(topic_id=topic_id(number), partition_id=index, replicas=[1, 2 + number % 3], isr=[1])
            for index in range(1 + number % 2)
        ]
        if number % 7 == 0:
            records.append(s.ConfigRecord(resource_type=2, resource_name=f"t{number}", name="a", value="b"))
    return records


def removed(numbers: Iterable[int]) -> list[MetadataRecord]:
    return [s.RemoveTopicRecord(topic_id=topic_id(number)) for number in numbers]


class Twins:
    """An image that replays in bulk, with journal and deltas, and one that applies records singly."""

    def __init__(self, *, has_single: bool = True) -> None:
        self.bulk, self.single, self.offset = ClusterImage(), ClusterImage(), 0
        self.has_single = has_single
        self.bulk.keep_journal()
        self.bulk.keep_deltas(0)

    def take(self, records: list[MetadataRecord]) -> int:
        """One batch, whose offset is the result."""
        begin = self.offset
        values = EncodedRecords.of([encode_metadata_record(each, 0) for each in records])
        for batch in values.batches(begin, epoch=1, timestamp=0):
            replay(self.bulk, decode_records(bytes(batch)))
        self.offset += len(records)
        assert self.bulk.end_offset == self.offset
        if self.has_single:
            for offset, each in enumerate(records, begin):
                self.single.apply(each, offset)
            assert self.bulk == self.single
        return begin


def copy_of(twins: Twins) -> ClusterImage:
    return twins.single.copy()


@pytest.mark.parametrize("is_transaction", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_any_topics_go_and_others_come(seed: int, is_transaction: bool) -> None:
    dice, twins, alive = Random(seed), Twins(), set(range(MANY))
    around = ([s.BeginTransactionRecord()], [s.EndTransactionRecord()]) if is_transaction else ([], [])
    twins.take(created(range(MANY)))
    before: list[tuple[int, ClusterImage]] = []
    for turn in range(1, 6):
        gone = dice.sample(sorted(alive), dice.choice([1, min(5, len(alive)), len(alive) // 2, len(alive)]))
        fresh = range(turn * 10_000, turn * 10_000 + dice.choice([1, 3, MANY // 2, 2 * MANY]))
        alive = alive - {*gone} | {*fresh}
        state = copy_of(twins)
        before.append((twins.take([*around[0], *removed(gone), *created(fresh), *around[1]]), state))
        delta = twins.bulk.changes_between(before[-1][0], twins.offset)
        assert delta is not None
        assert {*delta.deleted_topics} == {topic_id(each) for each in gone}
        assert {*delta.created_topics} == {topic_id(each) for each in fresh}
        assert len(delta.rows) == sum(1 + each % 2 for each in fresh)
    for offset, state in reversed(before):
        twins.bulk.revert_to(offset)
        assert twins.bulk == state


def test_rows_that_topics_leave_are_taken_again() -> None:
    twins = Twins(has_single=False)
    for turn in range(5):
        numbers = range(turn * MANY, (turn + 1) * MANY)
        twins.take(created(numbers))
        twins.take(removed(reversed(numbers)))
        twins.bulk.commit(twins.offset)
    assert len(twins.bulk.topics) == MANY and len(twins.bulk.table) == MANY * 3 // 2


def test_scattered_rows_are_taken_again_before_there_are_more_of_them_than_topics() -> None:
    twins = Twins(has_single=False)
    twins.take(created(range(4_000)))
    for turn in range(1, 6):
        twins.take(removed(number for number in range(4_000 * (turn - 1), 4_000 * turn) if number % 2))
        twins.take(
            removed(number for number in range(4_000 * (turn - 2), 4_000 * (turn - 1)) if turn > 1 and not number % 2)
        )
        twins.take(created(range(4_000 * turn, 4_000 * (turn + 1))))
        twins.bulk.commit(twins.offset)
    assert len(twins.bulk.topics) <= 2 * (4_000 + 2_000) + 2_048


def test_a_topic_that_is_unknown_among_many_that_go_is_named_by_its_record() -> None:
    twins = Twins()
    twins.take(created(range(20)))
    values = EncodedRecords.of([encode_metadata_record(each, 0) for each in removed([1, 2, 99, 3])])
    with pytest.raises(TableError, match=f"record {twins.offset + 2}: unknown topic id"):
        for batch in values.batches(twins.offset, epoch=1, timestamp=0):
            replay(twins.bulk, decode_records(bytes(batch)))
    assert "t2" not in twins.bulk.topics and "t3" in twins.bulk.topics
