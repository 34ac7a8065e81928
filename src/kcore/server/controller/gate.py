"""Who may ask what of a controller of ZooKeeper mode: requests are cut to what is allowed, and answers completed.

Errors and messages are those of KafkaApis of 3.9.1. A request about the cluster is refused as a whole; of one about
topics or settings, the items that are not allowed are.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kcore.controller.zk.acls import AclAuthorizer
from kcore.controller.zk.admin.tokens import owner_of
from kcore.controller.zk.admin_events import OfTokens
from kcore.metadata.acl_codes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    TOPIC,
    USER,
)
from kcore.net.request_context import ClientSession, RequestContext
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
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopicResult
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kcore.types import ZERO_UUID, Uuid

# The right to the cluster that a request needs, by API.
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
NOT_CREATED: Final = "Authorization failed."
NOT_GROWN: Final = "The topic authorization is failed."
_OF_TOPIC: Final = (Errors.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
_OF_CLUSTER: Final = (Errors.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
_UNKNOWN: Final = -1

Complete: TypeAlias = Callable[[Any], None]
NameOf: TypeAlias = Callable[[Uuid], str | None]


class Checked(NamedTuple):
    """What is left of a request, and what its response lacks then."""

    request: Message
    is_empty: bool = False  # None of its items is left.
    complete: Complete = lambda response: None  # Adds the refused items to the response.


class Gate:
    """Decides for one request."""

    def __init__(self, authorizer: AclAuthorizer, asking: RequestContext | ClientSession) -> None:
        self._authorizer, self._who, self._where = authorizer, asking.principal, asking.client_address

    def allows(self, operation: int, resource_type: int = CLUSTER, name: str = CLUSTER_NAME) -> bool:
        """Whether whoever asks may do that."""
        return self._authorizer.allows(self._who, self._where, operation, resource_type, name)

    def allows_on_any(self, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of that type on which it may."""
        return self._authorizer.allows_on_any(self._who, self._where, operation, resource_type)

    def refuses(self, api: str) -> bool:
        """Whether the right to the cluster is missing."""
        return api in OF_THE_CLUSTER and not self.allows(OF_THE_CLUSTER[api])

    def may_ask_token(self, request: OfTokens) -> bool:
        """Whether a new token may be for that owner (KIP-373)."""
        if not isinstance(request, CreateDelegationTokenRequest):
            return True
        owner = owner_of(request, self._who)
        return owner == self._who or self.allows(CREATE_TOKENS, USER, str(owner))

    def may_describe_token(self, token_id: str, owner: str) -> bool:
        """One of another principal."""
        return self.allows(DESCRIBE, DELEGATION_TOKEN, token_id) or self.allows(DESCRIBE_TOKENS, USER, owner)

    def check(self, request: Message, name_of: NameOf) -> Checked:
        """What of a request about topics or settings is left; `name_of` knows topics by id."""
        match request:
            case CreateTopicsRequest():
                return self._create_topics(request)
            case CreatePartitionsRequest():
                return self._create_partitions(request)
            case DeleteTopicsRequest():
                return self._delete_topics(request, name_of)
            case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
                return self._alter_configs(request)
            case DescribeConfigsRequest():
                return self._describe_configs(request)
        return Checked(request)

    def _of_topic(self, operation: int, name: str) -> bool:
        return self.allows(operation, TOPIC, name)

    def _create_topics(self, request: CreateTopicsRequest) -> Checked:
        """Needs CREATE of the cluster or of each topic; their settings are told to who may describe them."""
        everything = self.allows(CREATE)
        kept = [each for each in request.topics if everything or self._of_topic(CREATE, each.name)]
        names = {each.name for each in kept}
        refused = [each.name for each in request.topics if each.name not in names]

        def complete(response: Any) -> None:
            for each in response.topics:
                if not self._of_topic(DESCRIBE_CONFIGS, each.name):
                    _hide_configs(each)
            for name in refused:
                result = CreatableTopicResult(
                    name=name, error_code=Errors.TOPIC_AUTHORIZATION_FAILED, error_message=NOT_CREATED
                )
                _hide_configs(result)
                response.topics.append(result)

        left = CreateTopicsRequest(topics=kept, timeout_ms=request.timeout_ms, validate_only=request.validate_only)
        return Checked(left, not kept, complete)

    def _create_partitions(self, request: CreatePartitionsRequest) -> Checked:
        """Needs ALTER of each topic."""
        kept = [each for each in request.topics if self._of_topic(ALTER, each.name)]
        error = Errors.TOPIC_AUTHORIZATION_FAILED
        refused = [
            CreatePartitionsTopicResult(name=each.name, error_code=error, error_message=NOT_GROWN)
            for each in request.topics
            if not self._of_topic(ALTER, each.name)
        ]
        left = CreatePartitionsRequest(topics=kept, timeout_ms=request.timeout_ms, validate_only=request.validate_only)
        return Checked(left, not kept, lambda response: response.results.extend(refused))

    def _delete_topics(self, request: DeleteTopicsRequest, name_of: NameOf) -> Checked:
        """Needs DELETE of each topic, and DESCRIBE of those that are named by their ids: else no name is told."""
        kept_names = [name for name in request.topic_names if self._of_topic(DELETE, name)]
        kept: list[DeleteTopicState] = []
        refused: list[DeletableTopicResult] = []
        for each in request.topics:
            name = each.name if each.topic_id == ZERO_UUID else name_of(each.topic_id)
            if name is None or (
                self._of_topic(DELETE, name) and (each.topic_id == ZERO_UUID or self._of_topic(DESCRIBE, name))
            ):
                kept.append(each)
                continue
            told = name if each.topic_id == ZERO_UUID or self._of_topic(DESCRIBE, name) else None
            refused.append(_not_deleted(told, each.topic_id))
        refused += [_not_deleted(name, ZERO_UUID) for name in request.topic_names if name not in kept_names]

        def complete(response: DeleteTopicsResponse) -> None:
            response.responses = [*response.responses, *refused]

        left = DeleteTopicsRequest(topics=kept, topic_names=kept_names, timeout_ms=request.timeout_ms)
        return Checked(left, not (kept or kept_names), complete)

    def _alter_configs(self, request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> Checked:
        """Needs ALTER_CONFIGS of the cluster for nodes, of each topic otherwise."""
        kept, refused = self._cut(request.resources, ALTER_CONFIGS)
        results = [
            AlterConfigsResourceResponse(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=_error_of(each)[0],
                error_message=None,
            )
            for each in refused
        ]
        left = type(request)(resources=kept, validate_only=request.validate_only)
        return Checked(left, not kept, lambda response: response.responses.extend(results))

    def _describe_configs(self, request: DescribeConfigsRequest) -> Checked:
        """Needs DESCRIBE_CONFIGS of the cluster for nodes, of each topic otherwise."""
        kept, refused = self._cut(request.resources, DESCRIBE_CONFIGS)
        results = [
            DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=_error_of(each)[0],
                error_message=_error_of(each)[1],
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
        """Resources that are allowed, and the others; of a type that has no ACLs all, which are refused elsewhere."""
        kept: list[Any] = []
        refused: list[Any] = []
        for each in resources:
            if each.resource_type == ConfigResourceType.TOPIC:
                allowed = self._of_topic(operation, each.resource_name)
            else:
                allowed = self.allows(operation)
            (kept if allowed else refused).append(each)
        return kept, refused

    # What is told of the cluster.

    def cut(self, request: Message, response: Message, version: int) -> None:
        """Takes out of the response what may not be told."""
        if isinstance(request, MetadataRequest) and isinstance(response, MetadataResponse):
            self._cut_metadata(request, response, version)
        elif isinstance(response, DescribeClusterResponse):
            self._cut_description(response)

    def _cut_metadata(self, request: MetadataRequest, response: MetadataResponse, version: int) -> None:
        """Only topics that may be described: of those that were named others are refused, else left out."""
        requested = request.topics
        is_named = not (requested is None or (not requested and version == 0))
        topics = []
        for each in response.topics:
            if each.name is None or self._of_topic(DESCRIBE, each.name):
                each.topic_authorized_operations = self._operations(each.topic_authorized_operations, TOPIC, each.name)
                topics.append(each)
            elif is_named:
                topics.append(_not_described(each, by_id=any(asked.name is None for asked in requested or ())))
        response.topics = topics
        bits = response.cluster_authorized_operations
        response.cluster_authorized_operations = self._operations(bits, CLUSTER, CLUSTER_NAME)

    def _cut_description(self, response: DescribeClusterResponse) -> None:
        """Of the cluster's operations those that are allowed."""
        bits = response.cluster_authorized_operations
        allowed = self._operations(bits, CLUSTER, CLUSTER_NAME) if self.allows(DESCRIBE) else min(bits, 0)
        response.cluster_authorized_operations = allowed

    def _operations(self, bits: int, resource_type: int, name: str | None) -> int:
        """Of the operations in `bits` those that are allowed; negative: nobody asked (authorizedOperations)."""
        if bits < 0 or name is None:
            return bits
        codes = [code for code in range(bits.bit_length()) if bits >> code & 1]
        return sum(1 << code for code in codes if self.allows(code, resource_type, name))


def _hide_configs(result: CreatableTopicResult) -> None:
    result.topic_config_error_code = Errors.TOPIC_AUTHORIZATION_FAILED
    result.configs = None
    result.num_partitions = result.replication_factor = _UNKNOWN


def _not_deleted(name: str | None, topic_id: Uuid) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=Errors.TOPIC_AUTHORIZATION_FAILED)


def _not_described(topic: MetadataResponseTopic, *, by_id: bool) -> MetadataResponseTopic:
    """By id without the name, by name without the id."""
    return MetadataResponseTopic(
        error_code=Errors.TOPIC_AUTHORIZATION_FAILED,
        name=None if by_id else topic.name,
        topic_id=topic.topic_id if by_id else ZERO_UUID,
    )


def _error_of(resource: Any) -> tuple[Errors, str]:
    """ConfigAdminManager, configsAuthorizationApiError."""
    return _OF_TOPIC if resource.resource_type == ConfigResourceType.TOPIC else _OF_CLUSTER
