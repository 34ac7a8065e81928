"""Records of a made-up future release: a type, a version and a level that kcore does not know."""

from typing import Final

from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.metadata_records_topics import TopicRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_values


def level(number: int, name: str = FEATURE_NAME) -> bytes:
    return encode_metadata_record(FeatureLevelRecord(name=name, feature_level=number), 0)


def topic(name: str) -> bytes:
    return encode_metadata_record(TopicRecord(name=name, topic_id=Uuid(name.encode() * 16)), 0)


KNOWN: Final = topic("a")
TYPE, VERSION, LEVEL = bytes([1, 40, 0, 9, 9]), KNOWN[:2] + b"\1" + KNOWN[3:], level(99)
UNKNOWN: Final = {"type": TYPE, "version": VERSION, "level": LEVEL}
SAYS: Final = {
    "type": "is of type 40: Kafka 4.4.0 has types up to 29",
    "version": "is a TopicRecord of version 1: Kafka 4.4.0 has versions up to 0",
    "level": "sets metadata.version to level 99, which no release that kcore knows has: Kafka ",
}
"""The text behind the record's offset in a message, by kind."""


def batch(offset: int, *values: bytes, epoch: int = 1) -> bytes:
    return encode_values(values, base_offset=offset, timestamp=0, partition_leader_epoch=epoch)


def batches(*values: bytes, epoch: int = 1) -> bytes:
    """A batch for each value."""
    return b"".join(batch(offset, value, epoch=epoch) for offset, value in enumerate(values))
