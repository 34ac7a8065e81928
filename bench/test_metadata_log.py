"""A metadata log of 100,000 partitions, each changed once, onto an image: in bulk, and a tenth of it one by one."""

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.schema import PartitionChangeRecord, PartitionRecord, TopicRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, Records, decode_records
from reference import replay as one_by_one

PARTITIONS = 100_000
PER_TOPIC = 10
BROKERS = 100
Replay = Callable[[ClusterImage, Records], None]
TIME_MS = 1_750_000_000_000


def log(partitions: int) -> Records:
    directories = [Uuid(bytes([broker] * 16)) for broker in range(BROKERS)]
    made, changed = [], []
    for number in range(partitions):
        topic, index = divmod(number, PER_TOPIC)
        topic_id = Uuid((topic + 1).to_bytes(8, "big") * 2)
        replicas = [(number + k) % BROKERS for k in range(3)]
        if not index:
            made.append(encode_metadata_record(TopicRecord(name=f"topic-{topic}", topic_id=topic_id), 0))
        partition = PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[directories[broker] for broker in replicas],
        )
        made.append(encode_metadata_record(partition, 1))
        change = PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=replicas[1:], leader=replicas[1])
        changed.append(encode_metadata_record(change, 1))
    return decode_records(encode_records(Record(k, TIME_MS, None, value) for k, value in enumerate(made + changed)))


@pytest.mark.parametrize(("apply", "partitions"), [(replay, PARTITIONS), (one_by_one.replay, PARTITIONS // 10)])
def test_replay(benchmark: BenchmarkFixture, apply: Replay, partitions: int) -> None:
    records = log(partitions)
    image = benchmark.pedantic(replayed, (apply, records), rounds=5, warmup_rounds=1)
    assert len(image.table) == partitions


def replayed(apply: Replay, records: Records) -> ClusterImage:
    image = ClusterImage()
    apply(image, records)
    return image
