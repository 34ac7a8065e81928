"""Handles the requests of a KRaft broker, with the image of the metadata log.

`broker_request_handlers.py` handles the requests of clients and followers. `forwarding.py` forwards the requests that
the active controller answers, before they reach these handlers.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from heapq import merge
from typing import Final

from kcore.constants import INTERNAL_TOPICS
from kcore.errors import DisconnectedError
from kcore.metadata.acl_codes import TOPIC
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.topic_names import reason_invalid
from kcore.net.limits.work_in_parts import Parts, run_steps
from kcore.net.server import RequestContext
from kcore.node.authorization import Authorizer
from kcore.node.kraft.config_descriptions import Describing
from kcore.node.kraft.config_kinds import known_kind
from kcore.node.kraft.node_config import NodeConfig
from kcore.protocol_errors import Errors
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.schema.cluster_metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kcore.schema.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kcore.schema.delegation_tokens import DescribeDelegationTokenRequest
from kcore.schema.log_dirs import AlterReplicaLogDirsRequest
from kcore.schema.structure import Message
from kcore.server import large_descriptions
from kcore.server.broker import broker_request_handlers as handlers
from kcore.server.broker import token_requests
from kcore.server.broker.broker_authorization import BrokerAuthorization
from kcore.server.broker.broker_request_handlers import HandlerParts
from kcore.server.broker.forwarding import forwarded_apis
from kcore.server.broker.replica_moves import ReplicaMoves
from kcore.server.cluster_view import TOPIC_OPERATIONS, ClusterView
from kcore.server.kraft_broker.kraft_configs import BrokerConfigs
from kcore.server.large_descriptions import key_of, too_many
from kcore.server.request_parts import ENTRIES_AT_ONCE
from kcore.server.security.rights import Rights
from kcore.steps import Steps
from kcore.types import Int32s, Uuid

MOST: Final = 2000
"""The limit of partitions in a page: the default of Kafka's max.request.partition.size.limit."""
SORTED_AT_ONCE: Final = 2_000  # Names that are sorted in one step: a millisecond.


def describe_topic_partitions(
    view: ClusterView, request: DescribeTopicPartitionsRequest, rights: Rights | None = None
) -> Steps[DescribeTopicPartitionsResponse]:
    """A page of topics in the order of their names, from the cursor on, with the cursor of the next page.

    `rights`: a requested topic without the right DESCRIBE is refused; a topic that is not requested is left out. None:
    no checks.
    """
    cursor = request.cursor or Cursor(topic_name="", partition_index=0)
    named_topics = [each.name for each in request.topics]
    if cursor.partition_index < 0 or (named_topics and request.cursor and cursor.topic_name not in named_topics):
        return _refused(named_topics)
    named = {*(named_topics or filter(None, view.table.topics.names))}
    names = named
    if rights is not None:
        names = set()
        for number, each in enumerate(named, 1):
            if rights.may_describe_topic(each):
                names.add(each)
            if number % ENTRIES_AT_ONCE == 0:
                yield
    response = yield from _page(view, request, cursor, names)
    if rights is not None:
        for topic in response.topics:
            topic.topic_authorized_operations = rights.operations(topic.topic_authorized_operations, TOPIC, topic.name)
    unseen = yield from _in_order(named - names if named_topics else (), cursor)
    for number, name in enumerate(unseen, 1):
        if number % ENTRIES_AT_ONCE == 0:
            yield
        refused = DescribeTopicPartitionsResponseTopic(name=name, error_code=Errors.TOPIC_AUTHORIZATION_FAILED)
        response.topics.append(refused)
    return response


def _in_order(names: Collection[str], cursor: Cursor) -> Steps[Iterator[str]]:
    """The names from the cursor on, in their order: sorted in runs, which are merged as they are read."""
    left = [each for each in names if each >= cursor.topic_name]
    runs = []
    for begin in range(0, len(left), SORTED_AT_ONCE):
        runs.append(sorted(left[begin : begin + SORTED_AT_ONCE]))
        yield
    return merge(*runs)


def _page(
    view: ClusterView, request: DescribeTopicPartitionsRequest, cursor: Cursor, names: Collection[str]
) -> Steps[DescribeTopicPartitionsResponse]:
    """The page from the topics of these names."""
    response, names_topics = DescribeTopicPartitionsResponse(), bool(request.topics)
    left = max(1, min(MOST, request.response_partition_limit))
    in_order = yield from _in_order(names, cursor)
    for number, name in enumerate(in_order, 1):
        if number % ENTRIES_AT_ONCE == 0:
            yield
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = _topic(view, name)
        if topic.error_code:
            if names_topics:
                response.topics.append(topic)
            continue
        begin = cursor.partition_index if name == cursor.topic_name else 0
        rows = view.table.rows_of_topic(name)
        topic.partitions = _partitions(view, rows[begin : begin + left])
        response.topics.append(topic)
        if len(rows) > begin + left:
            response.next_cursor = Cursor(topic_name=name, partition_index=begin + left)
            break
        left -= len(topic.partitions)
    return response


def _refused(named_topics: Sequence[str]) -> DescribeTopicPartitionsResponse:
    """The response to an invalid cursor: its topic was not requested, or its partition is negative."""
    error = Errors.INVALID_REQUEST
    topics = [DescribeTopicPartitionsResponseTopic(name=name, error_code=error) for name in named_topics]
    return DescribeTopicPartitionsResponse(topics=topics)


def _topic(view: ClusterView, name: str) -> DescribeTopicPartitionsResponseTopic:
    """The topic's result without partitions; with an error if the topic does not exist."""
    topics = view.table.topics
    topic = DescribeTopicPartitionsResponseTopic(
        name=name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=TOPIC_OPERATIONS
    )
    if name in topics:
        topic.topic_id = topics.ids[topics.row(name)]
    else:
        is_invalid = reason_invalid(name) is not None
        topic.error_code = Errors.INVALID_TOPIC_EXCEPTION if is_invalid else Errors.UNKNOWN_TOPIC_OR_PARTITION
    return topic


def _partitions(view: ClusterView, rows: Int32s) -> list[DescribeTopicPartitionsResponsePartition]:
    """The partitions as in Metadata, without errors, and with their eligible leader replicas."""
    registered = map(view.table.registration, rows.tolist())
    return [
        DescribeTopicPartitionsResponsePartition(
            partition_index=each.partition_index,
            leader_id=each.leader_id,
            leader_epoch=each.leader_epoch,
            replica_nodes=each.replica_nodes,
            isr_nodes=each.isr_nodes,
            offline_replicas=each.offline_replicas,
            eligible_leader_replicas=[*known.elr],
            last_known_elr=[*known.last_known_elr],
        )
        for each, known in zip(view.partitions(rows), registered, strict=True)
    ]


# Kafka's brokers choose the versions for other brokers by metadata.version, without ApiVersions.
OF_BROKERS: Final = {"Fetch": (4, 18), "ListOffsets": (1, 11), "WriteTxnMarkers": (0, 2)}
OF_DIRECTORIES: Final = {"AlterReplicaLogDirs": (1, 2), "DescribeLogDirs": (1, 5)}
NOT_YET: Final = "this broker has not caught up with the metadata log yet"
OF_TOPICS: Final = {"DescribeTopicPartitions": (0, 0)}


def apis(release: str) -> dict[str, tuple[int, int]]:
    """The APIs, with their versions, that a broker of this release answers or forwards to the controller."""
    return {
        **handlers.APIS,
        **OF_BROKERS,
        **OF_DIRECTORIES,
        **OF_TOPICS,
        **token_requests.API,
        **forwarded_apis(release),
        "ApiVersions": RELEASES[release].apis["ApiVersions"],
    }


APIS: Final = apis(DEFAULT_RELEASE)


class KraftBrokerRequestHandlers:
    """Handles requests with the image of the metadata log (ModeRequestHandlers)."""

    authorization: Final = BrokerAuthorization

    def __init__(
        self,
        parts: HandlerParts,
        config: NodeConfig,
        image: Callable[[], ClusterImage | None],
        moves: ReplicaMoves,
        configs: BrokerConfigs,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`config`: the broker's settings. `image`: None until replicas follow it."""
        self._manager, self._logs, self._authorizer = parts.manager, parts.logs, authorizer
        self._config, self._image, self.moves, self._configs = config, image, moves, configs

    def refuse(self, context: RequestContext, request: Message) -> None:
        """DisconnectedError before the first image, so that clients try other brokers."""
        if self._image() is None:
            raise DisconnectedError(NOT_YET)

    def view(self, listener: str) -> ClusterView:
        """The cluster with this broker as its controller, because it forwards clients' requests.

        Kafka's brokers return a random broker for the same reason (KRaftMetadataCache.controllerId).
        """
        cluster, own = self._manager.cluster, self._manager.broker_id
        brokers = cluster.table.brokers
        row = brokers.row(own)
        itself = LiveBroker(own, tuple(brokers.endpoints[row]), brokers.racks[row])
        cluster_id = self._config.cluster_id
        return ClusterView(cluster.table, listener, itself, cluster_id, offline=cluster.offline_replicas)

    def cordoned(self) -> Collection[Uuid]:
        """The cordoned log directories of this broker (KIP-1066)."""
        image = self._image()
        level = None if image is None else image.features.get(FEATURE_NAME)
        if image is None or level is None:
            return ()
        is_supported = MetadataVersion.of_level(level, self._config.release).cordoned_directories_supported
        return self._configs.cordoned(image, self._logs.directories) if is_supported else ()

    async def may_coordinate(self) -> bool:
        """Whether another broker has a directory that is not cordoned, so that internal topics may be placed there.

        Fenced brokers count: they may come back, and clients retry.
        """
        brokers = self._manager.cluster.table.brokers
        for row in brokers.registered__b.nonzero()[0].tolist():
            cordoned = brokers.cordoned_directories[row] or ()
            is_open = {*brokers.directories[row]} - {*cordoned} or not brokers.directories[row]
            if is_open and int(brokers.ids[row]) != self._manager.broker_id:
                return True
        return False

    async def administer(self, context: RequestContext, request: Message) -> Message | None:
        if isinstance(request, DescribeConfigsRequest):
            return await self._describe_configs(request)
        if isinstance(request, DescribeTopicPartitionsRequest):
            rights = None if self._authorizer is None else Rights(self._authorizer, context)
            return await run_steps(describe_topic_partitions(self.view(context.listener_name), request, rights))
        if isinstance(request, DescribeDelegationTokenRequest):
            return self._describe_tokens(context, request)
        if isinstance(request, AlterReplicaLogDirsRequest):
            return self.moves.alter(request)
        return None

    def _describe_tokens(self, context: RequestContext, request: DescribeDelegationTokenRequest) -> Message:
        refused = token_requests.refusal_of(request, context.version, context.session)
        if refused is not None:
            return refused
        image, key, authorizer = self._image(), self._config.delegation_token_secret_key, self._authorizer
        assert image is not None
        may = (lambda *_: True) if authorizer is None else Rights(authorizer, context).may_describe_token
        return token_requests.describe_tokens(request, context.version, context.principal, image, key, may)

    async def _describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """The settings of topics, groups, this broker and all brokers (ConfigHelper).

        A resource has dozens of settings. Other requests are served in between, repeated resources are answered once,
        and a response has at most MOST_SETTINGS settings.
        """
        image = self._image()
        assert image is not None
        if any(not known_kind(self._config.release, each.resource_type) for each in request.resources):
            results = [
                DescribeConfigsResult(
                    error_code=Errors.INVALID_REQUEST,
                    error_message="a resource of an unknown type",
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[],
                )
                for each in request.resources
            ]
            return DescribeConfigsResponse(results=results)
        describing = Describing(self._config, image, includes_synonyms=request.include_synonyms)
        found: dict[Hashable, DescribeConfigsResult] = {}
        left, parts = large_descriptions.MOST_SETTINGS, Parts()
        for each in request.resources:
            await parts.go_on()
            key = key_of(each)
            if key in found:
                continue
            found[key] = described = describing.result(each) if left > 0 else too_many(each)
            left -= len(described.configs)
        return DescribeConfigsResponse(results=[*found.values()])
