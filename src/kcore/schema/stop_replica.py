"""StopReplica: the controller orders a broker to stop replicas, and to delete some. ZooKeeper mode; removed in 4.0."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class StopReplicaPartitionV0(Struct):
    """A partition by its topic's name, as version 0 lists them."""

    topic_name: str
    partition_index: int32


class StopReplicaTopicV1(Struct):
    """A topic and its partitions, of which the broker deletes all or none (versions 1 and 2)."""

    name: str
    partition_indexes: list[int32]


class StopReplicaPartitionState(Struct):
    """A partition, its leader epoch (a broker refuses a stale one), and whether to delete the replica (KIP-570)."""

    partition_index: int32
    leader_epoch: int32 = field(default=-1)
    delete_partition: bool


class StopReplicaTopicState(Struct):
    """A topic and its partitions (from version 3 on)."""

    topic_name: str
    partition_states: list[StopReplicaPartitionState]


class StopReplicaRequest(Message, api_key=5, versions="0-4", flexible="2+"):
    """The controller orders a broker to stop replicas."""

    controller_id: int32
    is_kraft_controller: bool = field(versions="4+", json_name="isKRaftController")
    controller_epoch: int32
    # The epoch of the addressed broker's incarnation (KIP-380).
    broker_epoch: int64 = field(versions="1+", default=-1, ignorable=True)
    delete_partitions: bool = field(versions="0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(versions="0")
    topics: list[StopReplicaTopicV1] = field(versions="1-2")
    topic_states: list[StopReplicaTopicState] = field(versions="3+")


class StopReplicaPartitionError(Struct):
    """The result for one replica."""

    topic_name: str
    partition_index: int32
    error_code: int16


class StopReplicaResponse(Message, api_key=5, versions="0-4", flexible="2+"):
    """The broker's answer, replica by replica."""

    error_code: int16
    partition_errors: list[StopReplicaPartitionError]
