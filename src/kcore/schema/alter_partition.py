"""AlterPartition: a leader changes its partition's ISR through the controller (KIP-497)."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class BrokerState(Struct):
    """A member of the new ISR, and the epoch of its broker's incarnation (KIP-903)."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)  # -1 if the leader does not know it.


class AlterPartitionRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The ISR that the leader wants."""

    partition_index: int32
    leader_epoch: int32
    new_isr: list[int32] = field(versions="0-2")
    # The controller refuses a broker that has restarted since (KIP-903).
    new_isr_with_epochs: list[BrokerState] = field(versions="3+")
    # 1 while the leader recovers from an unclean election (KIP-704).
    leader_recovery_state: int8 = field(versions="1+")
    partition_epoch: int32  # The epoch that the leader knows; the controller refuses any other.


class AlterPartitionRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic."""

    topic_name: str = field(versions="0-1", ignorable=True)
    topic_id: Uuid = field(versions="2+", ignorable=True)  # KIP-841.
    partitions: list[AlterPartitionRequestPartitionData]


class AlterPartitionRequest(Message, api_key=56, versions="0-3", flexible="0+"):
    """A partition's leader asks the active controller to change the ISR."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)  # The epoch of the leader's incarnation (KIP-380).
    topics: list[AlterPartitionRequestTopicData]


class AlterPartitionResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The state of the partition at the controller, or an error."""

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
