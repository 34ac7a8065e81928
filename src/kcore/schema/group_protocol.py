"""Group protocol."""

from kcore.schema.kinds import int32
from kcore.schema.structure import Data, Struct, field


class TopicPartition(Struct):
    """A part of ConsumerProtocolSubscription."""

    topic: str
    partitions: list[int32]


class ConsumerProtocolSubscription(Data, versions="0-3", flexible="none"):
    """ConsumerProtocolSubscription, as Kafka has it."""

    topics: list[str]
    user_data: bytes | None = field(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field(versions="1+", ignorable=True)
    generation_id: int32 = field(versions="2+", default=-1, ignorable=True)
    rack_id: str | None = field(versions="3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Data, versions="0-3", flexible="none"):
    """ConsumerProtocolAssignment, as Kafka has it."""

    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = field(nullable="0+", default=None)
