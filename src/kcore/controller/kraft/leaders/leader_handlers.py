"""The table of requests about leaders and replicas, and their handlers."""

from typing import Final

from kcore.controller.kraft.kraft_context import Handler
from kcore.controller.kraft.leaders.directories import on_assign_replicas_to_dirs
from kcore.controller.kraft.leaders.isrs import on_alter_partition
from kcore.controller.kraft.leaders.leader_elections import on_elect_leaders
from kcore.controller.kraft.leaders.reassignments import (
    on_alter_partition_reassignments,
    on_list_partition_reassignments,
)
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {
    AlterPartitionRequest: on_alter_partition,
    ElectLeadersRequest: on_elect_leaders,
    AlterPartitionReassignmentsRequest: on_alter_partition_reassignments,
    ListPartitionReassignmentsRequest: on_list_partition_reassignments,
    AssignReplicasToDirsRequest: on_assign_replicas_to_dirs,
}
