"""UpdateMetadata: the controller sends every broker the state of the cluster. ZooKeeper mode; removed in 4.0."""

from kcore.schema.kinds import int8, int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class UpdateMetadataPartitionState(Struct):
    """The state of one partition, with which brokers answer clients' Metadata requests."""

    topic_name: str = field(versions="0-4", ignorable=True)  # From version 5 on in the topic (KIP-380).
    partition_index: int32
    controller_epoch: int32
    leader: int32  # -2 while the topic is being deleted.
    leader_epoch: int32
    isr: list[int32]
    zk_version: int32
    replicas: list[int32]
    offline_replicas: list[int32] = field(versions="4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    """A topic, and its partitions that changed."""

    topic_name: str
    topic_id: Uuid = field(versions="7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(Struct):
    """One listener of a broker."""

    port: int32
    host: str
    listener: str = field(versions="3+", ignorable=True)
    security_protocol: int16


class UpdateMetadataBroker(Struct):
    """A live broker."""

    id: int32
    v0_host: str = field(versions="0", ignorable=True)
    v0_port: int32 = field(versions="0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field(versions="1+", ignorable=True)
    rack: str | None = field(versions="2+", nullable="0+", ignorable=True)


class UpdateMetadataRequest(Message, api_key=6, versions="0-8", flexible="6+"):
    """The controller sends a broker the changed partitions and the live brokers."""

    controller_id: int32
    is_kraft_controller: bool = field(versions="8+", json_name="isKRaftController")
    type: int8 = field(versions="8+", tag=0, tagged="8+")  # 0 unknown, 1 incremental, 2 full (KIP-866).
    controller_epoch: int32
    # The epoch of the addressed broker's incarnation (KIP-380).
    broker_epoch: int64 = field(versions="5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(versions="0-4")
    topic_states: list[UpdateMetadataTopicState] = field(versions="5+")
    live_brokers: list[UpdateMetadataBroker]


class UpdateMetadataResponse(Message, api_key=6, versions="0-8", flexible="6+"):
    """The broker's answer after it has applied the update."""

    error_code: int16
