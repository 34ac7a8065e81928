"""Responses to Metadata and DescribeCluster from a PartitionTable: for brokers and the ZooKeeper-mode controller.

Source: ZkMetadataCache and KafkaApis of 3.9.1 (handleTopicMetadataRequest, handleDescribeCluster). Callers authorize.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kcore.constants import INTERNAL_TOPICS
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.topic_names import reason_invalid
from kcore.net.limits.work_in_parts import Parts, next_turn
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcore.types import ZERO_UUID, Int32s, Uuid

TopicFilter: TypeAlias = Callable[[MetadataResponseTopic], MetadataResponseTopic | None]
FilterOf: TypeAlias = Callable[[MetadataRequest, int, bool], TopicFilter]  # Request, version, if it has topic ids.
TOPICS_A_SCAN: Final = 500  # Requested topics that are scanned before other requests are served: a tenth of a ms.
TOPIC_IDS_SINCE: Final = 12  # A version of Metadata: 10 and 11 have the field, but Kafka refuses ids in them.
# Bit sets of the AclOperations that AclEntry allows for each kind of resource: all are set without an authorizer.
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


class _Naming(NamedTuple):
    """How a request names its topics."""

    by_id: bool = False  # Some topics have an id; topics without an id are then skipped.
    is_incomplete: bool = False  # Some topics have no name.


async def _naming(topics: Sequence[MetadataRequestTopic]) -> _Naming:
    found = _Naming()
    for begin in range(0, len(topics), TOPICS_A_SCAN):
        if begin:
            await next_turn()
        part = topics[begin : begin + TOPICS_A_SCAN]
        by_id = found.by_id or any(each.topic_id != ZERO_UUID for each in part)
        found = _Naming(by_id, found.is_incomplete or any(each.name is None for each in part))
    return found


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as clients of one listener see it."""

    table: PartitionTable
    listener: str
    controller: LiveBroker  # The node reported as the controller; `nodes` has it even if it is not a live broker.
    cluster_id: str | None
    hidden: Collection[str] = ()  # Topics that are being deleted.
    # Takes a partition row. Returns the brokers, live or not, whose replica of the partition is on a failed disk.
    offline: Callable[[int], Collection[int]] = lambda row: ()

    def nodes(self) -> dict[int, tuple[str, int, str | None]]:
        """Host, port and rack by id, for the controller and the live brokers that have the listener."""
        brokers = self.table.brokers
        each = [
            (int(brokers.ids[row]), brokers.endpoints[row], brokers.racks[row]) for row in brokers.live.nonzero()[0]
        ]
        return {
            broker_id: (endpoint.host, endpoint.port, rack)
            for broker_id, endpoints, rack in [*each, self.controller]
            for endpoint in endpoints
            if endpoint.listener == self.listener
        }

    def names(self) -> dict[Uuid, str]:
        """The names of topics by id."""
        pairs = zip(self.table.topics.ids, self.table.topics.names, strict=True)
        return {topic_id: name for topic_id, name in pairs if name}

    def describe(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """The response with the brokers; an error for a request for controllers, which only KRaft lists (KIP-919)."""
        if request.endpoint_type != 1:
            return DescribeClusterResponse(
                error_code=Errors.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="this controller lists brokers alone",
                endpoint_type=request.endpoint_type,
            )
        response = DescribeClusterResponse(cluster_id=self.cluster_id or "", controller_id=self.controller.id)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        response.brokers = [
            DescribeClusterBroker(broker_id=broker_id, host=host, port=port, rack=rack)
            for broker_id, (host, port, rack) in self.nodes().items()
        ]
        return response

    async def metadata(
        self, request: MetadataRequest, version: int, filter_of: FilterOf | None = None
    ) -> MetadataResponse:
        """The brokers and the requested topics. Does not create unknown topics.

        `filter_of` makes a filter that removes what the client may not see of a topic; None: it may see all. A request
        may name a million topics: other requests are served in between, and each topic has its newest state.
        """
        nodes = self.nodes()
        brokers = [
            MetadataResponseBroker(node_id=broker_id, host=host, port=port, rack=rack)
            for broker_id, (host, port, rack) in nodes.items()
        ]
        naming = await _naming(request.topics or ())
        visible = None if filter_of is None else filter_of(request, version, naming.by_id)
        topics, parts = [], Parts()
        for topic in self._topics(request, naming, version, nodes.keys()):
            if request.include_topic_authorized_operations:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
            cut = topic if visible is None else visible(topic)
            if cut is not None:
                topics.append(cut)
            await parts.go_on()
        response = MetadataResponse(
            brokers=brokers, cluster_id=self.cluster_id, controller_id=self.controller.id, topics=topics
        )
        if version in range(8, 11) and request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response

    def _topics(
        self, request: MetadataRequest, naming: _Naming, version: int, nodes: Collection[int]
    ) -> Iterable[MetadataResponseTopic]:
        topics = self.table.topics
        requested = request.topics
        if requested is None or (not requested and version == 0):
            for name in [*topics.names]:
                if name and (known := self._topic(name, version, nodes)):
                    yield known
            return
        by_id = naming.by_id
        is_by_name = version < TOPIC_IDS_SINCE or not by_id
        if (by_id and version < TOPIC_IDS_SINCE) or (is_by_name and naming.is_incomplete):
            for each in requested:  # As MetadataRequest.getErrorResponse, which writes "" for null.
                yield MetadataResponseTopic(
                    error_code=Errors.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id
                )
            return
        if by_id:
            names = self.names()
            ids = {ZERO_UUID}
            for each in requested:
                if each.topic_id not in ids:
                    ids.add(each.topic_id)
                    yield self._requested_topic(names.get(each.topic_id), each.topic_id, version, nodes)
            return
        given = set()
        for each in requested:
            if each.name not in given:
                given.add(each.name)
                yield self._requested_topic(each.name, ZERO_UUID, version, nodes)

    def _requested_topic(
        self, name: str | None, topic_id: Uuid, version: int, nodes: Collection[int]
    ) -> MetadataResponseTopic:
        if name is None or not self._has(name, topic_id):
            return MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_ID, topic_id=topic_id, name=None)
        known = self._topic(name, version, nodes)
        if known is not None:
            return known
        error = Errors.INVALID_TOPIC_EXCEPTION if reason_invalid(name) else Errors.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)

    def _has(self, name: str, topic_id: Uuid) -> bool:
        """True if the topic of this name still has this id; true for the zero id."""
        topics = self.table.topics
        return topic_id == ZERO_UUID or (name in topics and topics.ids[topics.row(name)] == topic_id)

    def _topic(self, name: str, version: int, nodes: Collection[int]) -> MetadataResponseTopic | None:
        """The topic; None if Kafka's brokers would not know it, because it is new or being deleted."""
        table = self.table
        if name not in table.topics or name in self.hidden:
            return None
        topic_row = table.topics.row(name)
        rows = table.rows_of_topic(name)
        rows = rows[table.leader_epoch__p[rows] >= 0]
        if not len(rows):
            return None
        return MetadataResponseTopic(
            name=name,
            topic_id=table.topics.ids[topic_row],
            is_internal=name in INTERNAL_TOPICS,
            partitions=self.partitions(rows, version, nodes),
        )

    def partitions(
        self, rows: Int32s, version: int = 12, nodes: Collection[int] | None = None
    ) -> list[MetadataResponsePartition]:
        """The partitions in these rows; `nodes`: the ids in `nodes()`, if the caller has them."""
        table, nodes = self.table, self.nodes() if nodes is None else nodes
        ids = [*table.brokers.ids.tolist(), -1]  # Row -1 is no broker.
        live = {ids[row] for row in table.brokers.live.nonzero()[0]}
        columns = (
            map(self.offline, rows.tolist()),
            table.partition_index__p[rows].tolist(),
            table.leader__p[rows].tolist(),
            table.leader_epoch__p[rows].tolist(),
            table.replicas__ps[rows].tolist(),
            table.isr__pi[rows].tolist(),
        )
        partitions = []
        for lost, index, leader_row, leader_epoch, replica_rows, isr_rows in zip(*columns, strict=True):
            leader = ids[leader_row]
            replicas = [ids[row] for row in replica_rows if row >= 0]
            isr = [ids[row] for row in isr_rows if row >= 0]
            error = Errors.NONE
            if leader not in nodes:
                has_another_listener = leader in live and version >= 6
                error = Errors.LISTENER_NOT_FOUND if has_another_listener else Errors.LEADER_NOT_AVAILABLE
            elif version == 0 and not all(replica in nodes for replica in replicas):
                error = Errors.REPLICA_NOT_AVAILABLE
            partitions.append(
                MetadataResponsePartition(
                    error_code=error,
                    partition_index=index,
                    leader_id=leader if leader in nodes else -1,
                    leader_epoch=leader_epoch,
                    replica_nodes=[replica for replica in replicas if version or replica in nodes],
                    isr_nodes=[member for member in isr if version or member in nodes],
                    offline_replicas=[replica for replica in replicas if replica not in live or replica in lost],
                )
            )
        return partitions
