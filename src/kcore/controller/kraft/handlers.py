"""The table of requests and their handlers, over all subjects."""

from typing import Final

from kcore.controller.kraft.admin import admin_handlers as admin
from kcore.controller.kraft.brokers import broker_handlers as brokers
from kcore.controller.kraft.kraft_context import Handler
from kcore.controller.kraft.leaders import leader_handlers as leaders
from kcore.controller.kraft.topics import topic_handlers as topics
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.configs import DescribeConfigsRequest
from kcore.schema.partitions import ListPartitionReassignmentsRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {
    **brokers.HANDLERS,
    **topics.HANDLERS,
    **leaders.HANDLERS,
    **admin.HANDLERS,
}

# A standby answers these requests too, from its committed state. The active controller's answer waits for the commit of
# the state that it shows; Kafka's shows the committed state (lastStableOffset), at once.
READS: Final = (
    *(DescribeClusterRequest, DescribeConfigsRequest, DescribeAclsRequest, ListPartitionReassignmentsRequest),
    DescribeUserScramCredentialsRequest,
)
