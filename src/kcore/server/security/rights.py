"""Authorizes a client's requests to controllers and brokers: removes refused items, and adds them to the response.

Errors and messages equal KafkaApis's. A request about the cluster is refused as a whole. A request about topics or
settings loses only the items that are not allowed.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kcore.metadata.acl_codes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    GROUP,
    IDEMPOTENT_WRITE,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.request_context import ClientSession, RequestContext
from kcore.node.authorization import Authorizer
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
)
from kcore.schema.structure import Message
from kcore.schema.transactions import InitProducerIdRequest, InitProducerIdResponse
from kcore.server.cluster_view import TOPIC_IDS_SINCE, TopicFilter
from kcore.types import ZERO_UUID, Uuid

OF_TOPIC: Final = (Errors.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
OF_CLUSTER: Final = (Errors.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
OF_GROUP: Final = (Errors.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
OF_TRANSACTION: Final = (Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed.")

# The right to the cluster that a request needs, by API (KafkaApis of 3.9.1).
OF_THE_CLUSTER: Final = {
    "AllocateProducerIds": CLUSTER_ACTION,
    "AlterPartition": CLUSTER_ACTION,
    "ControlledShutdown": CLUSTER_ACTION,
    "AlterPartitionReassignments": ALTER,
    "AlterUserScramCredentials": ALTER,
    "CreateAcls": ALTER,
    "DeleteAcls": ALTER,
    "ElectLeaders": ALTER,
    "UpdateFeatures": ALTER,
    "AlterClientQuotas": ALTER_CONFIGS,
    "DescribeClientQuotas": DESCRIBE_CONFIGS,
    "DescribeAcls": DESCRIBE,
    "DescribeLogDirs": DESCRIBE,
    "DescribeUserScramCredentials": DESCRIBE,
    "ListPartitionReassignments": DESCRIBE,
}

Complete: TypeAlias = Callable[[Any], None]
NameOf: TypeAlias = Callable[[Uuid], str | None]


class Checked(NamedTuple):
    """The allowed part of a request, and a function that adds the refused items to its response."""

    request: Message
    is_empty: bool = False  # True if no item of the request is left.
    complete: Complete = lambda response: None  # Adds the refused items to the response.


def is_cluster_node(authorizer: Authorizer | None, session: ClientSession) -> bool:
    """Whether the client has the rights of a cluster node; without an authorizer every client has."""
    return authorizer is None or authorizer.allows(session.principal, session.client_address, CLUSTER_ACTION)


class Rights:
    """The rights of the client that sends a request."""

    has_group_settings = True  # False in ZooKeeper mode, where settings of groups are refused elsewhere.

    def __init__(self, authorizer: Authorizer, asking: RequestContext | ClientSession) -> None:
        self.asking, self._authorizer = asking, authorizer
        self._who, self._where = asking.principal, asking.client_address

    def allows(self, operation: int, resource_type: int = CLUSTER, name: str = CLUSTER_NAME) -> bool:
        """Whether the client has the right to this operation."""
        return self._authorizer.allows(self._who, self._where, operation, resource_type, name)

    def allows_on_any(self, operation: int, resource_type: int) -> bool:
        """Whether the client may have the right to this operation on at least one resource of the type."""
        return self._authorizer.allows_on_any(self._who, self._where, operation, resource_type)

    def refuses(self, api: str) -> bool:
        """True if the client lacks the right to the cluster that the API needs."""
        return api in OF_THE_CLUSTER and not self.allows(OF_THE_CLUSTER[api])

    def may_describe_topic(self, name: str) -> bool:
        """Whether the client may describe the topic."""
        return self._of_topic(DESCRIBE, name)

    def may_describe_token(self, token_id: str, owner: str) -> bool:
        """Whether the client may describe a token of another principal."""
        return self.allows(DESCRIBE, DELEGATION_TOKEN, token_id) or self.allows(DESCRIBE_TOKENS, USER, owner)

    def may_make_token(self, owner: KafkaPrincipal) -> bool:
        """Whether the client may create a token for this owner (KIP-373)."""
        return owner == self._who or self.allows(CREATE_TOKENS, USER, str(owner))

    def _of_topic(self, operation: int, name: str) -> bool:
        return self.allows(operation, TOPIC, name)

    def alter_configs(self, request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> Checked:
        """Keeps the resources whose settings the client may alter.

        The client needs ALTER_CONFIGS on the topic or group itself, and for every other resource on the cluster.
        """
        kept, refused = self._cut(request.resources, ALTER_CONFIGS)
        results = [
            AlterConfigsResourceResponse(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=error_of(each)[0],
                error_message=None,
            )
            for each in refused
        ]
        left = type(request)(resources=kept, validate_only=request.validate_only)
        return Checked(left, not kept, lambda response: response.responses.extend(results))

    def describe_configs(self, request: DescribeConfigsRequest) -> Checked:
        """Keeps the resources whose settings the client may describe.

        The client needs DESCRIBE_CONFIGS on the topic or group itself, and for every other resource on the cluster.
        """
        kept, refused = self._cut(request.resources, DESCRIBE_CONFIGS)
        results = [
            DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=error_of(each)[0],
                error_message=error_of(each)[1],
            )
            for each in refused
        ]
        left = DescribeConfigsRequest(
            resources=kept,
            include_synonyms=request.include_synonyms,
            include_documentation=request.include_documentation,
        )
        return Checked(left, not kept, lambda response: response.results.extend(results))

    def _cut(self, resources: Sequence[Any], operation: int) -> tuple[list[Any], list[Any]]:
        """The allowed and the refused resources. If groups have no settings, groups count as allowed."""
        kept: list[Any] = []
        refused: list[Any] = []
        for each in resources:
            if each.resource_type == ConfigResourceType.TOPIC:
                allowed = self._of_topic(operation, each.resource_name)
            elif each.resource_type == ConfigResourceType.GROUP:
                allowed = not self.has_group_settings or self.allows(operation, GROUP, each.resource_name)
            else:
                allowed = self.allows(operation)
            (kept if allowed else refused).append(each)
        return kept, refused

    # Cluster metadata that a client may see.

    def cut(self, response: Message) -> None:
        """Removes from the response the cluster information that the client may not see."""
        if isinstance(response, MetadataResponse):
            bits = response.cluster_authorized_operations
            response.cluster_authorized_operations = self.operations(bits, CLUSTER, CLUSTER_NAME)
        elif isinstance(response, DescribeClusterResponse):
            bits = response.cluster_authorized_operations
            allowed = self.operations(bits, CLUSTER, CLUSTER_NAME) if self.allows(DESCRIBE) else min(bits, 0)
            response.cluster_authorized_operations = allowed

    def topic_filter(self, request: MetadataRequest, version: int, by_id: bool) -> TopicFilter:
        """Filters topics by the right DESCRIBE. Without it, requested topics are refused, and others left out."""
        requested = request.topics
        is_named = not (requested is None or (not requested and version == 0))
        by_id = by_id and version >= TOPIC_IDS_SINCE

        def visible(topic: MetadataResponseTopic) -> MetadataResponseTopic | None:
            if topic.name is None or self._of_topic(DESCRIBE, topic.name):
                bits = topic.topic_authorized_operations
                topic.topic_authorized_operations = self.operations(bits, TOPIC, topic.name)
                return topic
            return _not_described(topic, by_id=by_id) if is_named else None

        return visible

    def operations(self, bits: int, resource_type: int, name: str | None) -> int:
        """The allowed operations of `bits`; negative `bits`: the client requested none (authorizedOperations)."""
        if bits < 0 or name is None:
            return bits
        codes = [code for code in range(bits.bit_length()) if bits >> code & 1]
        return sum(1 << code for code in codes if self.allows(code, resource_type, name))


def refusal_of_producer(rights: Rights, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
    """The refusal of a producer without the right to write; None if it has the right.

    A producer without a transactional id needs IDEMPOTENT_WRITE, or WRITE of any topic.
    """
    if request.transactional_id is not None:
        allowed, error = rights.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id), OF_TRANSACTION[0]
    else:
        allowed, error = rights.allows(IDEMPOTENT_WRITE) or rights.allows_on_any(WRITE, TOPIC), OF_CLUSTER[0]
    return None if allowed else InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _not_described(topic: MetadataResponseTopic, *, by_id: bool) -> MetadataResponseTopic:
    """The refusal of a topic: if requested by id, without its name; if requested by name, without its id."""
    return MetadataResponseTopic(
        error_code=Errors.TOPIC_AUTHORIZATION_FAILED,
        name=None if by_id else topic.name,
        topic_id=topic.topic_id if by_id else ZERO_UUID,
    )


def error_of(resource: Any) -> tuple[Errors, str]:
    """The error and message of a refused resource (ConfigAdminManager, configsAuthorizationApiError, ConfigHelper)."""
    if resource.resource_type == ConfigResourceType.GROUP:
        return OF_GROUP
    return OF_TOPIC if resource.resource_type == ConfigResourceType.TOPIC else OF_CLUSTER
