"""The response to a request that fails as a whole: each item or the top of the response has the error.

Source: `getErrorResponse` of Kafka's request classes.
"""

from collections.abc import Callable, Generator
from copy import copy
from typing import Any, Final, TypeVar

from kcore.node.tokens import REQUESTER_SINCE
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import acls, configs, partitions, quotas, scram, topics
from kcore.schema.broker_lifecycle import ControllerRegistrationRequest, ControllerRegistrationResponse
from kcore.schema.delegation_tokens import CreateDelegationTokenResponse
from kcore.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kcore.schema.index import message_class
from kcore.schema.structure import Message

M = TypeVar("M", bound=Message)
REFUSED_AT_ONCE: Final = 1_000  # Items of one part of `refusing`: an item takes 1 us.
DEFAULT_MESSAGES: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Errors.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    Errors.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Errors.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Errors.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Errors.NOT_CONTROLLER: "This is not the correct controller for this cluster.",
    Errors.TOPIC_DELETION_DISABLED: "Topic deletion is disabled.",
    Errors.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(error: ApiException) -> str | None:
    """The message of an exception for the response; None for the error's default message (ApiError.fromThrowable)."""
    message = str(error)
    return None if message in ("", error.error.name, DEFAULT_MESSAGES.get(error.error)) else message


Refuse = Callable[[Any, int, str | None], Message]


def refused(request: Message, error: Errors, message: str | None = None) -> Message:
    """The response with this error, and with `message` if the response has a field for a message.

    Source: AbstractRequest.getErrorResponse.
    """
    build = _BY_ITEM.get(type(request))
    if build is not None:
        return build(request, error.value, message)
    response = message_class(f"{type(request).__name__.removesuffix('Request')}Response")(error_code=error.value)
    if hasattr(response, "error_message"):
        response.error_message = message
    return response


def refusing(
    request: M, requested: str, answered: str, error: Errors, message: str | None = None
) -> Generator[None, None, Message]:
    """As `refused`, in parts. `requested`, `answered`: the lists of the items in the request and in the response."""
    items, whole = getattr(request, requested), None
    for begin in range(0, max(len(items), 1), REFUSED_AT_ONCE):
        if begin:
            yield
        part = copy(request)
        setattr(part, requested, items[begin : begin + REFUSED_AT_ONCE])
        response = refused(part, error, message)
        if whole is None:
            whole = response
        else:
            getattr(whole, answered).extend(getattr(response, answered))
    assert whole is not None
    return whole


def in_version(response: Message, version: int) -> Message:
    """Clears the fields that the response's version does not have, and returns the response.

    ElectLeaders 0 has no top-level error. CreateDelegationToken names the requester from version 3 on.
    """
    if version == 0 and isinstance(response, partitions.ElectLeadersResponse):
        response.error_code = Errors.NONE.value
    if version < REQUESTER_SINCE and isinstance(response, CreateDelegationTokenResponse):
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


def _create_topics(request: topics.CreateTopicsRequest, code: int, message: str | None) -> Message:
    rows = [
        topics.CreatableTopicResult(name=each.name, error_code=code, error_message=message, configs=[])
        for each in request.topics
    ]
    return topics.CreateTopicsResponse(topics=rows)


def _create_partitions(request: partitions.CreatePartitionsRequest, code: int, message: str | None) -> Message:
    rows = [
        partitions.CreatePartitionsTopicResult(name=each.name, error_code=code, error_message=message)
        for each in request.topics
    ]
    return partitions.CreatePartitionsResponse(results=rows)


def _delete_topics(request: topics.DeleteTopicsRequest, code: int, message: str | None) -> Message:
    named = [topics.DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    stated = [
        topics.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code) for each in request.topics
    ]
    return topics.DeleteTopicsResponse(responses=named + stated)


def _configs(response: type[Message]) -> Refuse:
    """Make the entry of `_BY_ITEM` for AlterConfigs or IncrementalAlterConfigs. `response`: the response's class."""

    def build(request: Any, code: int, message: str | None) -> Message:
        rows = [
            configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
        return response(responses=rows)

    return build


def _describe_configs(request: configs.DescribeConfigsRequest, code: int, message: str | None) -> Message:
    rows = [
        configs.DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            configs=[],
        )
        for each in request.resources
    ]
    return configs.DescribeConfigsResponse(results=rows)


def _no_quotas(request: quotas.DescribeClientQuotasRequest, code: int, message: str | None) -> Message:
    """The response to DescribeClientQuotas has no message, because Kafka's brokers send only the error code."""
    return quotas.DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None)


def _quotas(request: quotas.AlterClientQuotasRequest, code: int, message: str | None) -> Message:
    """Each entry has the error's default message: AlterClientQuotasRequest.getErrorResponse ignores the exception's."""
    rows = [
        quotas.AlterClientQuotasResponseEntryData(
            error_code=code,
            error_message=DEFAULT_MESSAGES.get(Errors(code), message),
            entity=[
                quotas.EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in each.entity
            ],
        )
        for each in request.entries
    ]
    return quotas.AlterClientQuotasResponse(entries=rows)


def _registration(request: ControllerRegistrationRequest, code: int, message: str | None) -> Message:
    """The response has the error's default message; ControllerRegistrationRequest ignores the exception's message."""
    text = DEFAULT_MESSAGES.get(Errors(code), message)
    return ControllerRegistrationResponse(error_code=code, error_message=text)


def _scram(request: scram.AlterUserScramCredentialsRequest, code: int, message: str | None) -> Message:
    users = sorted({each.name for each in request.deletions} | {each.name for each in request.upsertions})
    rows = [scram.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message) for user in users]
    return scram.AlterUserScramCredentialsResponse(results=rows)


def _create_acls(request: acls.CreateAclsRequest, code: int, message: str | None) -> Message:
    row = acls.AclCreationResult(error_code=code, error_message=message)
    return acls.CreateAclsResponse(results=[row] * len(request.creations))


def _delete_acls(request: acls.DeleteAclsRequest, code: int, message: str | None) -> Message:
    row = acls.DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])
    return acls.DeleteAclsResponse(filter_results=[row] * len(request.filters))


def _elect_leaders(request: partitions.ElectLeadersRequest, code: int, message: str | None) -> Message:
    rows = [
        partitions.ReplicaElectionResult(
            topic=each.topic,
            partition_result=[
                partitions.PartitionResult(partition_id=index, error_code=code, error_message=message)
                for index in each.partitions
            ],
        )
        for each in request.topic_partitions or ()
    ]
    return partitions.ElectLeadersResponse(error_code=code, replica_election_results=rows)


def _reassign(request: partitions.AlterPartitionReassignmentsRequest, code: int, message: str | None) -> Message:
    rows = [
        partitions.ReassignableTopicResponse(
            name=each.name,
            partitions=[
                partitions.ReassignablePartitionResponse(
                    partition_index=row.partition_index, error_code=code, error_message=message
                )
                for row in each.partitions
            ],
        )
        for each in request.topics
    ]
    return partitions.AlterPartitionReassignmentsResponse(error_code=code, error_message=message, responses=rows)


def _list_reassignments(
    request: partitions.ListPartitionReassignmentsRequest, code: int, message: str | None
) -> Message:
    rows = [
        partitions.OngoingTopicReassignment(
            name=each.name,
            partitions=[
                partitions.OngoingPartitionReassignment(partition_index=index) for index in each.partition_indexes
            ],
        )
        for each in request.topics or ()
    ]
    return partitions.ListPartitionReassignmentsResponse(error_code=code, error_message=message, topics=rows)


def _fetch(request: FetchRequest, code: int, message: str | None) -> FetchResponse:
    """Each partition of a named topic has the error too, because the oldest versions have no top-level error."""
    named = [topic for topic in request.topics if topic.topic]
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
                for each in topic.partitions
            ],
        )
        for topic in named
    ]
    return FetchResponse(error_code=code, session_id=request.session_id, responses=responses)


_BY_ITEM: Final[dict[type[Message], Refuse]] = {
    topics.CreateTopicsRequest: _create_topics,
    topics.DeleteTopicsRequest: _delete_topics,
    partitions.CreatePartitionsRequest: _create_partitions,
    partitions.ElectLeadersRequest: _elect_leaders,
    partitions.AlterPartitionReassignmentsRequest: _reassign,
    partitions.ListPartitionReassignmentsRequest: _list_reassignments,
    configs.AlterConfigsRequest: _configs(configs.AlterConfigsResponse),
    configs.IncrementalAlterConfigsRequest: _configs(configs.IncrementalAlterConfigsResponse),
    configs.DescribeConfigsRequest: _describe_configs,
    quotas.AlterClientQuotasRequest: _quotas,
    quotas.DescribeClientQuotasRequest: _no_quotas,
    ControllerRegistrationRequest: _registration,
    scram.AlterUserScramCredentialsRequest: _scram,
    acls.CreateAclsRequest: _create_acls,
    acls.DeleteAclsRequest: _delete_acls,
    FetchRequest: _fetch,
}
