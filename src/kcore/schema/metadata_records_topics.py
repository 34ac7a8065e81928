"""Metadata records topics."""

from kcore.schema.kinds import int8, int32
from kcore.schema.structure import MetadataRecord, field
from kcore.types import Uuid


class TopicRecord(MetadataRecord, api_key=2, versions="0", flexible="0+"):
    """TopicRecord, as Kafka has it."""

    name: str
    topic_id: Uuid


class RemoveTopicRecord(MetadataRecord, api_key=9, versions="0", flexible="0+"):
    """RemoveTopicRecord, as Kafka has it."""

    topic_id: Uuid


class PartitionRecord(MetadataRecord, api_key=3, versions="0-2", flexible="0+"):
    """PartitionRecord, as Kafka has it."""

    partition_id: int32 = field(default=-1)
    topic_id: Uuid
    replicas: list[int32]
    isr: list[int32]
    removing_replicas: list[int32]
    adding_replicas: list[int32]
    leader: int32 = field(default=-1)
    leader_recovery_state: int8 = field(tag=0, tagged="0+")
    leader_epoch: int32 = field(default=-1)
    partition_epoch: int32 = field(default=-1)
    directories: list[Uuid] = field(versions="1+")
    eligible_leader_replicas: list[int32] | None = field(versions="2+", nullable="2+", tag=1, tagged="2+", default=None)
    last_known_elr: list[int32] | None = field(versions="2+", nullable="2+", tag=2, tagged="2+", default=None)


class PartitionChangeRecord(MetadataRecord, api_key=5, versions="0-2", flexible="0+"):
    """PartitionChangeRecord, as Kafka has it."""

    partition_id: int32 = field(default=-1)
    topic_id: Uuid
    isr: list[int32] | None = field(nullable="0+", tag=0, tagged="0+", default=None)
    leader: int32 = field(tag=1, tagged="0+", default=-2)
    replicas: list[int32] | None = field(nullable="0+", tag=2, tagged="0+", default=None)
    removing_replicas: list[int32] | None = field(nullable="0+", tag=3, tagged="0+", default=None)
    adding_replicas: list[int32] | None = field(nullable="0+", tag=4, tagged="0+", default=None)
    leader_recovery_state: int8 = field(tag=5, tagged="0+", default=-1)
    directories: list[Uuid] | None = field(versions="1+", nullable="1+", tag=8, tagged="1+", default=None)
    eligible_leader_replicas: list[int32] | None = field(versions="2+", nullable="2+", tag=6, tagged="2+", default=None)
    last_known_elr: list[int32] | None = field(versions="2+", nullable="2+", tag=7, tagged="2+", default=None)


class ClearElrRecord(MetadataRecord, api_key=28, versions="0", flexible="0+"):
    """ClearElrRecord, as Kafka has it."""

    topic_name: str
