"""Authorization at a ZooKeeper-mode controller: removes forbidden items of requests, and adds errors to responses.

A request about the cluster is refused as a whole. Errors and messages are those of KafkaApis of 3.9.1.
"""

from collections.abc import Sequence
from typing import Final

from kcore.metadata.acl_codes import (
    ALTER,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
)
from kcore.node.tokens import OfTokens, owner_of
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
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
from kcore.server.security.rights import Checked, NameOf, Rights
from kcore.types import ZERO_UUID, Uuid

NOT_CREATED: Final = "Authorization failed."
NOT_GROWN: Final = "The topic authorization is failed."
_UNKNOWN: Final = -1


class ZkControllerAuthorization(Rights):
    """The rights of the client that sent one request."""

    has_group_settings = False

    def may_ask_token(self, request: OfTokens) -> bool:
        """Whether the client may create a token for the requested owner (KIP-373)."""
        if not isinstance(request, CreateDelegationTokenRequest):
            return True
        return self.may_make_token(owner_of(request, self._who))

    def check(self, request: Message, name_of: NameOf | None) -> Checked:
        """The allowed part of a request. `name_of` returns a topic's name by id; None: this node has no topics."""
        match request:
            case CreateTopicsRequest():
                return self._create_topics(request)
            case CreatePartitionsRequest():
                return self._create_partitions(request)
            case DeleteTopicsRequest():
                return self._delete_topics(request, name_of)
            case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
                return self.alter_configs(request)
            case DescribeConfigsRequest():
                return self.describe_configs(request)
        return Checked(request)

    def _create_topics(self, request: CreateTopicsRequest) -> Checked:
        """Needs CREATE of the cluster or of each topic."""
        everything = self.allows(CREATE)
        kept = [each for each in request.topics if everything or self._of_topic(CREATE, each.name)]
        names = {each.name for each in kept}
        refused = [_not_created(each.name) for each in request.topics if each.name not in names]
        left = CreateTopicsRequest(topics=kept, timeout_ms=request.timeout_ms, validate_only=request.validate_only)
        return Checked(left, not kept, lambda response: response.topics.extend(refused))

    def hide_configs(self, created: Sequence[CreatableTopicResult]) -> None:
        """Removes the settings of created topics whose settings the client may not describe."""
        for each in created:
            if not self._of_topic(DESCRIBE_CONFIGS, each.name):
                _hide_configs(each)

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

    def _delete_topics(self, request: DeleteTopicsRequest, name_of: NameOf | None) -> Checked:
        """Needs DELETE of each topic, and DESCRIBE of a topic that is named by id, so that an id reveals no name.

        An unknown id is refused at once, so that a client without rights causes no event.
        """
        kept_names = [name for name in request.topic_names if self._of_topic(DELETE, name)]
        kept: list[DeleteTopicState] = []
        refused: list[DeletableTopicResult] = []
        for each in request.topics:
            has_id = each.topic_id != ZERO_UUID
            name = each.name if not has_id or name_of is None else name_of(each.topic_id)
            if has_id and each.name is None and name is None and name_of is not None:
                error = Errors.UNKNOWN_TOPIC_ID
                refused.append(DeletableTopicResult(name=None, topic_id=each.topic_id, error_code=error))
                continue
            if name is None or (
                self._of_topic(DELETE, name) and (each.topic_id == ZERO_UUID or self._of_topic(DESCRIBE, name))
            ):
                kept.append(each)
                continue
            shown = name if each.topic_id == ZERO_UUID or self._of_topic(DESCRIBE, name) else None
            refused.append(_not_deleted(shown, each.topic_id))
        allowed = {*kept_names}
        refused += [_not_deleted(name, ZERO_UUID) for name in request.topic_names if name not in allowed]

        def complete(response: DeleteTopicsResponse) -> None:
            response.responses.extend(refused)

        left = DeleteTopicsRequest(topics=kept, topic_names=kept_names, timeout_ms=request.timeout_ms)
        return Checked(left, not (kept or kept_names), complete)


def _not_created(name: str) -> CreatableTopicResult:
    result = CreatableTopicResult(name=name, error_code=Errors.TOPIC_AUTHORIZATION_FAILED, error_message=NOT_CREATED)
    _hide_configs(result)
    return result


def _hide_configs(result: CreatableTopicResult) -> None:
    result.topic_config_error_code = Errors.TOPIC_AUTHORIZATION_FAILED
    result.configs = None
    result.num_partitions = result.replication_factor = _UNKNOWN


def _not_deleted(name: str | None, topic_id: Uuid) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=Errors.TOPIC_AUTHORIZATION_FAILED)
