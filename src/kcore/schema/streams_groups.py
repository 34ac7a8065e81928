"""The groups of Kafka Streams: the coordinator stores the topology and assigns its tasks (KIP-1071).

A group's members may also describe the topology node by node, for a plugin of the broker (KIP-1331).
"""

from kcore.schema.kinds import int8, int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field


class KeyValue(Struct):
    """A client tag or a topic configuration."""

    key: str
    value: str


class TopicInfo(Struct):
    """An internal topic that the topology needs."""

    name: str
    partitions: int32  # The number of partitions; 0 lets the coordinator determine it.
    replication_factor: int16  # 0 for the broker's default.
    topic_configs: list[KeyValue]


class CopartitionGroup(Struct):
    """Topics that must have the same number of partitions, as indexes into the subtopology's lists."""

    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class StreamsGroupHeartbeatRequestSubtopology(Struct, kafka_name="Subtopology"):
    """A part of the topology; each of its tasks reads one partition of every source topic."""

    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]  # Internal topics that back up the stores.
    repartition_sink_topics: list[str]  # Internal topics that it writes to.
    repartition_source_topics: list[TopicInfo]  # Internal topics that it reads from.
    copartition_groups: list[CopartitionGroup]


class StreamsGroupHeartbeatRequestTopology(Struct, kafka_name="Topology"):
    """The whole computation of the application, in parts."""

    epoch: int32  # The version of the topology; it changes with the application.
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology]


class TaskIds(Struct):
    """Tasks of one subtopology by partition number."""

    subtopology_id: str
    partitions: list[int32]


class Endpoint(Struct):
    """A member's endpoint for queries."""

    host: str
    port: uint16


class TaskOffset(Struct):
    """The changelog offset of a task's stores."""

    subtopology_id: str
    partition: int32
    offset: int64


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0-1", flexible="0+"):
    """A member joins, reports or leaves. Null and -1 stand for values that did not change since the last heartbeat."""

    group_id: str
    member_id: str  # The member chooses it.
    member_epoch: int32  # 0 joins, -1 leaves, -2 leaves as a static member that will come back.
    endpoint_information_epoch: int32  # The epoch of the newest endpoints that the member has received.
    instance_id: str | None = field(nullable="0+", default=None)  # Only for a static member.
    rack_id: str | None = field(nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field(default=-1)  # The time that the member has to revoke tasks.
    topology: StreamsGroupHeartbeatRequestTopology | None = field(nullable="0+", default=None)  # Sent when joining.
    # The member's tasks. Standby tasks keep copies of stores; warm-up tasks build them first.
    active_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    process_id: str | None = field(nullable="0+", default=None)  # Members of one process share stores on disk.
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)  # For interactive queries.
    # Standby tasks are placed on members with other tags.
    client_tags: list[KeyValue] | None = field(nullable="0+", default=None)
    # Cumulative changelog offsets; the next field has the end offsets.
    task_offsets: list[TaskOffset] | None = field(nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(nullable="0+", default=None)
    shutdown_application: bool  # Requests all members to stop.


class Status(Struct):
    """A condition to report to the member, for example a missing source topic."""

    status_code: int8
    status_detail: str


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str
    partitions: list[int32]


class EndpointToPartitions(Struct):
    """The partitions for which a member answers queries."""

    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0-1", flexible="0+"):
    """The member's epoch and, if they changed, its tasks."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    member_id: str
    member_epoch: int32
    heartbeat_interval_ms: int32
    # The acceptable recovery lag of version 0, whose field should have been an int64.
    acceptable_recovery_lag_legacy: int32 = field(versions="0", json_aliases=("acceptableRecoveryLag",))
    task_offset_interval_ms: int32  # Interval of task offset reports.
    # A warm-up task with at most this lag may become active.
    acceptable_recovery_lag: int64 = field(versions="1+", default=-1, ignorable=True)
    status: list[Status] | None = field(nullable="0+")  # Null if there is no condition to report.
    # Null if nothing changed; the same holds for standby and warm-up tasks.
    active_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(nullable="0+", default=None)
    # True if the coordinator needs a StreamsGroupTopologyDescriptionUpdate (KIP-1331).
    topology_description_required: bool = field(versions="1+")
    endpoint_information_epoch: int32
    # Null if nothing changed.
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(nullable="0+", default=None)


class TopologyDescriptionNode(Struct):
    """A node of the processing graph."""

    name: str
    node_type: int8  # 1 source, 2 processor, 3 sink.
    source_topics: list[str]  # The topics that a source reads; empty if they are chosen at run time.
    sink_topic: str | None = field(nullable="0+", default=None)  # Null for a sink whose topic is chosen at run time.
    stores: list[str]  # The state stores that a processor uses.
    successors: list[str]  # The names of the next nodes.


class TopologyDescriptionSubtopology(Struct):
    """A part of the topology and its nodes."""

    subtopology_id: str
    nodes: list[TopologyDescriptionNode]


class TopologyDescriptionGlobalStore(Struct):
    """A global state store: the source with its records, and the processor that fills it."""

    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


class TopologyDescription(Struct):
    """The topology as a graph of nodes (KIP-1331)."""

    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


class StreamsGroupTopologyDescriptionUpdateRequest(Message, api_key=93, versions="0", flexible="0+"):
    """A member sends the coordinator the description of its topology, after a heartbeat required it (KIP-1331)."""

    group_id: str
    member_id: str  # A member that is no longer in the group is refused.
    topology_epoch: int32
    topology_description: TopologyDescription


class StreamsGroupTopologyDescriptionUpdateResponse(Message, api_key=93, versions="0", flexible="0+"):
    """The coordinator's answer after its plugin has stored or refused the description."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)


class StreamsGroupDescribeRequest(Message, api_key=89, versions="0-1", flexible="0+"):
    """An administrator asks a coordinator for details of streams groups."""

    group_ids: list[str]
    include_authorized_operations: bool
    include_topology_description: bool = field(versions="1+")  # KIP-1331.


class StreamsGroupDescribeResponseSubtopology(Struct, kafka_name="Subtopology"):
    """A part of the topology."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]  # Internal topics that it writes to.
    state_changelog_topics: list[TopicInfo]  # Internal topics that back up the stores.
    repartition_source_topics: list[TopicInfo]  # Internal topics that it reads from.


class StreamsGroupDescribeResponseTopology(Struct, kafka_name="Topology"):
    """The whole computation of the application, in parts."""

    epoch: int32
    # Null while the group is not ready, for instance because a source topic is missing.
    subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = field(nullable="0+", default=None)


class Assignment(Struct):
    """The tasks that a member owns or should own."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]  # Tasks that keep copies of stores.
    warmup_tasks: list[TaskIds]  # Tasks that build copies of stores, to become active later.


class Member(Struct):
    """A member of the group."""

    member_id: str
    member_epoch: int32
    instance_id: str | None = field(nullable="0+", default=None)
    rack_id: str | None = field(nullable="0+", default=None)
    client_id: str
    client_host: str
    topology_epoch: int32  # The version of the topology that the member runs.
    process_id: str  # Members of one process share stores on disk.
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)  # For interactive queries.
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]  # Cumulative changelog offsets; the next field has the end offsets.
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment  # The assignment after all members have caught up.
    is_classic: bool  # True if the member still uses the classic protocol.


class DescribedGroup(Struct):
    """A streams group with its topology and members."""

    error_code: int16
    error_message: str | None = field(nullable="0+", default=None)
    group_id: str
    group_state: str
    group_epoch: int32  # Rises with every change of members, topics or topology.
    assignment_epoch: int32  # The group epoch of the target assignment.
    # Null if there is an error.
    topology: StreamsGroupDescribeResponseTopology | None = field(nullable="0+", default=None)
    members: list[Member]
    # A bit for each operation; the lowest integer if not requested.
    authorized_operations: int32 = field(default=-(2**31))
    topology_description: TopologyDescription | None = field(versions="1+", nullable="1+", default=None)  # KIP-1331.
    # 0 not requested, 1 not stored, 2 the plugin failed, 3 available; only with 3 is there a description.
    topology_description_status: int8 = field(versions="1+")
    # The task assignor of the next assignment; null if there is an error.
    assignor_name: str | None = field(versions="1+", nullable="1+", default=None, ignorable=True)


class StreamsGroupDescribeResponse(Message, api_key=89, versions="0-1", flexible="0+"):
    """The requested groups."""

    throttle_time_ms: int32
    groups: list[DescribedGroup]
