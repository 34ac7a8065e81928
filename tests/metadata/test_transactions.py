"""Records that are appended as one become visible as one: in one batch, or within a transaction."""

from random import Random

import pytest

from kcore import schema as s
from kcore.errors import LevelError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.image.transactions import atomic
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.records import decode_records
from metadata.stories import log_of


def topics(count: int) -> EncodedRecords:
    made = [s.TopicRecord(name=f"t{number}", topic_id=Uuid((number + 1).to_bytes(16))) for number in range(count)]
    return EncodedRecords.of([encode_metadata_record(record, 0) for record in made])


@pytest.mark.parametrize("seed", range(20))
def test_one_batch_or_a_transaction(seed: int) -> None:
    dice = Random(seed)
    records, most = topics(dice.randrange(60)), dice.choice((200, 1000, 2000))
    appended = atomic(records, "4.3.1", name="x", max_bytes=most)
    batches = list(appended.batches(5, epoch=1, timestamp=2, max_bytes=most))
    if appended is records:
        assert len(batches) <= 1
        return
    values = list(appended)
    assert values[1:-1] == list(records)
    begin, end = (decode_metadata_record(value)[0] for value in (values[0], values[-1]))
    assert isinstance(begin, s.BeginTransactionRecord) and begin.name == "x" and isinstance(end, s.EndTransactionRecord)
    image = ClusterImage()
    for batch in batches[:-1]:
        replay(image, decode_records(bytes(batch)))
        assert not image.topics.count and image.in_transaction
    replay(image, decode_records(bytes(batches[-1])))
    assert image.topics.count == len(records) and not image.in_transaction


def test_what_fits_one_batch_is_no_transaction() -> None:
    records = topics(1000)
    assert atomic(records, "3.6-IV0") is records
    assert atomic(records, "4.3.1") is records


def test_a_level_without_transactions_takes_no_more_than_a_batch() -> None:
    records = topics(100)
    assert len(atomic(records, "3.6-IV1", max_bytes=1000)) == 102
    with pytest.raises(LevelError, match=r"3\.6-IV0 has no transactions, and \d+ bytes do not fit one batch"):
        atomic(records, "3.6-IV0", max_bytes=1000)


def test_joined() -> None:
    parts = [topics(3), EncodedRecords.of([]), topics(2)]
    joined = EncodedRecords.joined(parts)
    assert list(joined) == [value for part in parts for value in part]
    assert len(EncodedRecords.joined([])) == 0
    image = ClusterImage()
    replay(image, log_of(list(EncodedRecords.joined([topics(3)]))))
    assert image.topics.count == 3
