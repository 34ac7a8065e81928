"""Alter partition."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class BrokerState(Struct):
    """A part of AlterPartitionRequest."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)


class AlterPartitionRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of AlterPartitionRequest."""

    partition_index: int32
    leader_epoch: int32
    new_isr: list[int32] = field(versions="0-2")
    new_isr_with_epochs: list[BrokerState] = field(versions="3+")
    leader_recovery_state: int8 = field(versions="1+")
    partition_epoch: int32


class AlterPartitionRequestTopicData(Struct, kafka_name="TopicData"):
    """A part of AlterPartitionRequest."""

    topic_name: str = field(versions="0-1", ignorable=True)
    topic_id: Uuid = field(versions="2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData]


class AlterPartitionRequest(Message, api_key=56, versions="0-3", flexible="0+"):
    """AlterPartitionRequest, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    topics: list[AlterPartitionRequestTopicData]


class AlterPartitionResponsePartitionData(Struct, kafka_name="PartitionData"):
    """A part of AlterPartitionResponse."""

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    isr: list[int32]
    leader_recovery_state: int8 = field(versions="1+", ignorable=True)
    partition_epoch: int32


class AlterPartitionResponseTopicData(Struct, kafka_name="TopicData"):
    """A part of AlterPartitionResponse."""

    topic_name: str = field(versions="0-1", ignorable=True)
    topic_id: Uuid = field(versions="2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


class AlterPartitionResponse(Message, api_key=56, versions="0-3", flexible="0+"):
    """AlterPartitionResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    topics: list[AlterPartitionResponseTopicData]
