"""LeaderAndIsr: the controller sends a broker the leader and ISR of its partitions. ZooKeeper mode; removed in 4.0."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class LeaderAndIsrPartitionState(Struct):
    """The state of one partition, which the controller sends its replicas."""

    topic_name: str = field(versions="0-1", ignorable=True)  # From version 2 on in the topic (KIP-380).
    partition_index: int32
    controller_epoch: int32
    leader: int32
    leader_epoch: int32
    isr: list[int32]
    partition_epoch: int32  # The version of the state's znode.
    replicas: list[int32]
    adding_replicas: list[int32] = field(versions="3+", ignorable=True)
    removing_replicas: list[int32] = field(versions="3+", ignorable=True)
    is_new: bool = field(versions="1+", ignorable=True)
    leader_recovery_state: int8 = field(versions="6+")


class LeaderAndIsrTopicState(Struct):
    """A topic, and its partitions that have a replica on the broker."""

    topic_name: str
    topic_id: Uuid = field(versions="5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState]


class LeaderAndIsrLiveLeader(Struct):
    """The endpoint of a leader named in the request."""

    broker_id: int32
    host_name: str
    port: int32


class LeaderAndIsrRequest(Message, api_key=4, versions="0-7", flexible="4+"):
    """The controller orders a broker to lead or follow partitions."""

    controller_id: int32
    is_kraft_controller: bool = field(versions="7+", json_name="isKRaftController")
    controller_epoch: int32
    # The epoch of the addressed broker's incarnation (KIP-380).
    broker_epoch: int64 = field(versions="2+", default=-1, ignorable=True)
    type: int8 = field(versions="5+")  # 0 unknown, 1 incremental, 2 full: strays may be deleted (KIP-866).
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(versions="0-1")
    topic_states: list[LeaderAndIsrTopicState] = field(versions="2+")
    live_leaders: list[LeaderAndIsrLiveLeader]


class LeaderAndIsrPartitionError(Struct):
    """The result for one partition."""

    topic_name: str = field(versions="0-4", ignorable=True)
    partition_index: int32
    error_code: int16


class LeaderAndIsrTopicError(Struct):
    """A topic by id and the results for its partitions."""

    topic_id: Uuid
    partition_errors: list[LeaderAndIsrPartitionError]


class LeaderAndIsrResponse(Message, api_key=4, versions="0-7", flexible="4+"):
    """The broker's answer, partition by partition."""

    error_code: int16
    partition_errors: list[LeaderAndIsrPartitionError] = field(versions="0-4")
    topics: list[LeaderAndIsrTopicError] = field(versions="5+")
