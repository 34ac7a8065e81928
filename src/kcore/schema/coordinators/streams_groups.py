"""Records of streams groups in the group coordinator's topic (KIP-1071)."""

from kcore.schema.kinds import int8, int32, int64
from kcore.schema.streams_groups import Endpoint, KeyValue, StreamsGroupHeartbeatRequestSubtopology, TaskIds
from kcore.schema.structure import Data, Struct, field


class StreamsGroupMetadataValue(Data, versions="0", flexible="0+"):
    """A streams group."""

    epoch: int32
    metadata_hash: int64
    validated_topology_epoch: int32 = field(tag=0, tagged="0+", default=-1)
    last_assignment_configs: list[KeyValue] | None = field(nullable="0+", tag=1, tagged="0+")
    # The topology epoch whose description the plugin has stored (KIP-1331): -1 for none, -2 after an operation of the
    # plugin was interrupted.
    stored_description_topology_epoch: int32 = field(tag=2, tagged="0+", default=-1)
    # The topology epoch whose description the plugin has refused for good; -1 for none.
    failed_description_topology_epoch: int32 = field(tag=3, tagged="0+", default=-1)


class StreamsGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """A member of a streams group."""

    instance_id: str | None = field(nullable="0+")
    rack_id: str | None = field(nullable="0+")
    client_id: str
    client_host: str
    rebalance_timeout_ms: int32 = field(default=-1)
    topology_epoch: int32
    process_id: str
    user_endpoint: Endpoint | None = field(nullable="0+", default=None)
    client_tags: list[KeyValue]


class StreamsGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    """The target assignment of a streams group's member."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class AssignedTaskIds(Struct, kafka_name="TaskIds"):
    """Tasks of one subtopology, and the epoch in which each was assigned."""

    subtopology_id: str
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(nullable="0+", tag=0, tagged="0+")


class StreamsGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """The present assignment of a streams group's member."""

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: list[AssignedTaskIds]
    standby_tasks: list[AssignedTaskIds]
    warmup_tasks: list[AssignedTaskIds]
    active_tasks_pending_revocation: list[AssignedTaskIds]
    standby_tasks_pending_revocation: list[AssignedTaskIds]
    warmup_tasks_pending_revocation: list[AssignedTaskIds]


class StreamsGroupTopologyValue(Data, versions="0", flexible="0+"):
    """The topology that a group's members run."""

    epoch: int32
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology]
