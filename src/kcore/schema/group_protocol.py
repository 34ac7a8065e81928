"""Data that consumers of the classic protocol exchange through JoinGroup and SyncGroup; brokers do not read it."""

from kcore.schema.kinds import int32
from kcore.schema.structure import Data, Struct, field


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str
    partitions: list[int32]


class ConsumerProtocolSubscription(Data, versions="0-3", flexible="none"):
    """A consumer's subscription, for the group's leader, which makes the assignment."""

    topics: list[str]
    user_data: bytes | None = field(nullable="0+", default=None)  # Set by the assignor.
    # The partitions that the consumer owns now, for cooperative rebalancing (KIP-429).
    owned_partitions: list[TopicPartition] = field(versions="1+", ignorable=True)
    # The generation in which the consumer got these partitions (KIP-792); -1 for unknown.
    generation_id: int32 = field(versions="2+", default=-1, ignorable=True)
    rack_id: str | None = field(versions="3+", nullable="3+", default=None, ignorable=True)  # KIP-881.


class ConsumerProtocolAssignment(Data, versions="0-3", flexible="none"):
    """The partitions that a consumer should read."""

    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = field(nullable="0+", default=None)  # Set by the assignor.
