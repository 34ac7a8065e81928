"""AlterPartition: a leader changes its partition's ISR through the controller (KIP-497)."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class BrokerState(Struct):
    """A member of the new ISR, and which incarnation of it (KIP-903)."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)  # -1 where the leader does not know it.


class AlterPartitionRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The ISR that the leader wants."""

    partition_index: int32
    leader_epoch: int32
    new_isr: list[int32] = field(versions="0-2")
    # A broker that restarted meanwhile is refused (KIP-903).
    new_isr_with_epochs: list[BrokerState] = field(versions="3+")
    # 1 while the leader recovers from an unclean election (KIP-704).
    leader_recovery_state: int8 = field(versions="1+")
    partition_epoch: int32  # What the leader believes; the controller refuses another.


class AlterPartitionRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic."""

    topic_name: str = field(versions="0-1", ignorable=True)
    topic_id: Uuid = field(versions="2+", ignorable=True)  # KIP-841.
    partitions: list[AlterPartitionRequestPartitionData]


class AlterPartitionRequest(Message, api_key=56, versions="0-3", flexible="0+"):
    """A partition's leader asks the active controller to change the ISR."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)  # Which incarnation of the broker asks (KIP-380).
    topics: list[AlterPartitionRequestTopicData]


class AlterPartitionResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The partition as the controller has it now, or why nothing changed."""

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    isr: list[int32]
    # 1 while the leader recovers from an unclean election (KIP-704).
    leader_recovery_state: int8 = field(versions="1+", ignorable=True)
    partition_epoch: int32


class AlterPartitionResponseTopicData(Struct, kafka_name="TopicData"):
    """The answers for one topic."""

    topic_name: str = field(versions="0-1", ignorable=True)
    topic_id: Uuid = field(versions="2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


class AlterPartitionResponse(Message, api_key=56, versions="0-3", flexible="0+"):
    """The controller's answer, partition by partition."""

    throttle_time_ms: int32
    error_code: int16
    topics: list[AlterPartitionResponseTopicData]
