"""The requests in Envelope requests, and the answers in Envelope responses."""

import asyncio

import pytest

from kcore.controller.rules.error_responses import refused
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.framed_connection import Encoded
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.envelope import EnvelopeResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.partitions import ElectLeadersRequest, ListPartitionReassignmentsRequest, TopicPartitions
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcore.schema.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcore.server.kraft_controller.envelopes import FORWARDABLE, Forwarded, unwrapped, wrapped
from kcore.wire.codec import decode, encode
from server.kraft.test_kraft_server import enveloped

ELSEWHERE = AclCreationResult(error_code=Errors.NOT_CONTROLLER)
OF_CLIENTS = """
    CreateTopics DeleteTopics CreateAcls DeleteAcls AlterConfigs CreatePartitions CreateDelegationToken
    RenewDelegationToken ExpireDelegationToken ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
    ListPartitionReassignments AlterClientQuotas AlterUserScramCredentials DescribeQuorum UpdateFeatures
    UnregisterBroker AllocateProducerIds AddRaftVoter RemoveRaftVoter
"""  # Those that ApiKeys of 4.3.1 makes forwardable, in its order.
CREATION = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


def opened(request: Message, version: int) -> Forwarded:
    found = unwrapped(enveloped(request, version))
    assert isinstance(found, Forwarded)
    return found


def enclosed(forwarded: Forwarded, response: Message) -> EnvelopeResponse:
    """As the sender of the envelope decodes it."""
    told = asyncio.run(wrapped(forwarded, response))
    if isinstance(told, Encoded):
        return decode(EnvelopeResponse, 0, b"".join(told.body))
    assert isinstance(told, EnvelopeResponse)
    return told


@pytest.mark.covers("KRaft D1")
@pytest.mark.parametrize(
    ("request_", "version", "response"),
    [
        (UpdateFeaturesRequest(), 1, UpdateFeaturesResponse(error_code=Errors.NOT_CONTROLLER)),
        (CREATION, 7, CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=Errors.NOT_CONTROLLER)])),
        (CreateAclsRequest(), 3, CreateAclsResponse(results=[AclCreationResult(error_code=42), ELSEWHERE])),
    ],
)
def test_not_controller_becomes_the_envelope_s_error(request_: Message, version: int, response: Message) -> None:
    """KAFKA-12677: a broker found a good envelope, and asked the controller of before until its time was up."""
    told = enclosed(opened(request_, version), response)
    assert (told.error_code, told.response_data) == (Errors.NOT_CONTROLLER, None)


@pytest.mark.covers("KRaft D1")
def test_not_controller_in_items_of_elect_leaders_becomes_the_envelope_s_error() -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    told = enclosed(opened(request, 0), refused(request, Errors.NOT_CONTROLLER))
    assert (told.error_code, told.response_data) == (Errors.NOT_CONTROLLER, None)
    told = enclosed(opened(request, 0), refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED))
    assert told.error_code == Errors.NONE and told.response_data


@pytest.mark.covers("KRaft D1")
def test_other_errors_stay_within_the_envelope() -> None:
    failed = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=Errors.TOPIC_ALREADY_EXISTS)])
    told = enclosed(opened(CREATION, 7), failed)
    assert told.error_code == Errors.NONE and told.response_data


@pytest.mark.covers("KRaft D6")
def test_describe_quorum_is_taken_from_an_envelope() -> None:
    """KAFKA-12967: brokers advertised DescribeQuorum, and nobody answered it."""
    assert isinstance(opened(DescribeQuorumRequest(topics=[]), 2).request, DescribeQuorumRequest)


@pytest.mark.parametrize("kind", REQUESTS.values(), ids=lambda kind: kind.__name__)
def test_only_what_may_be_forwarded_is_taken_from_an_envelope(kind: type[Message]) -> None:
    """No envelope within another; nor what brokers and voters ask for themselves (ApiKeys.forwardable)."""
    request, version = kind(), kind.versions.highest
    header = RequestHeader(request_api_key=kind.api_key, request_api_version=version, client_id="c")
    envelope = enveloped(CREATION, 7)
    envelope.request_data = bytes(encode(header, kind.header_version(version))) + bytes(encode(request, version))
    found = unwrapped(envelope)
    if kind.__name__.removesuffix("Request") in OF_CLIENTS.split():
        assert isinstance(found, Forwarded) and kind in FORWARDABLE
    else:
        assert found is Errors.INVALID_REQUEST and kind not in FORWARDABLE


WHOLE, NO_ACL = enveloped(CREATION, 7), enveloped(CreateAclsRequest(creations=[AclCreation()]), 3)
KEY, VERSION, REST = WHOLE.request_data[:2], WHOLE.request_data[2:4], WHOLE.request_data[4:]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        *[
            ({"request_principal": each}, Errors.PRINCIPAL_DESERIALIZATION_FAILURE)
            for each in (None, b"", b"\0", b"\0\0", b"\0\1" + WHOLE.request_principal[2:], WHOLE.request_principal[:-1])
        ],
        *[({"client_host_address": each}, Errors.INVALID_REQUEST) for each in (b"", b"\1" * 3, b"\1" * 5, b"\1" * 17)],
        *[
            ({"request_data": each}, Errors.UNSUPPORTED_VERSION)
            for each in (
                *(b"", KEY, KEY + b"\0", KEY + VERSION, WHOLE.request_data[:-1]),  # Cut short.
                *(b"\x7f\xff" + VERSION + REST, b"\xff\xff" + VERSION + REST),  # No API has that key.
                *(KEY + b"\0\x63" + REST, KEY + b"\xff\xff" + REST),  # Nor that version.
            )
        ],
        ({"request_data": NO_ACL.request_data}, Errors.UNSUPPORTED_VERSION),
    ],
)
def test_what_is_no_envelope_is_told_so_and_is_no_fault_of_ours(changed: dict[str, bytes], error: Errors) -> None:
    """EnvelopeUtils.handleEnvelopeRequest"""
    envelope = enveloped(CREATION, 7)
    assert isinstance(unwrapped(envelope), Forwarded)
    for name, value in changed.items():
        setattr(envelope, name, value)
    assert unwrapped(envelope) is error


@pytest.mark.covers("KRaft D8")
def test_the_principal_and_the_address_of_an_envelope_are_its_client_s() -> None:
    """KAFKA-12294, KIP-590: rights and quotas are those of the client, not of the broker that hands it on."""
    found = opened(ListPartitionReassignmentsRequest(topics=None), 0)
    assert (found.principal, found.client_address) == (KafkaPrincipal("alice"), "10.0.0.1")


@pytest.mark.covers("KRaft D9")
def test_a_large_response_is_in_the_envelope_as_a_small_one_is() -> None:
    """KAFKA-10684: it is encoded in several parts, and no part of it is copied."""
    results = [CreatableTopicResult(name=f"topic-{number:06}", error_message="x" * 500) for number in range(4_000)]
    response = CreateTopicsResponse(topics=results)
    forwarded = opened(CREATION, 7)
    told = asyncio.run(wrapped(forwarded, response))
    assert isinstance(told, Encoded) and len(told.body) > 4 and max(map(len, told.body)) < 1 << 20
    head = encode(ResponseHeader(correlation_id=forwarded.header.correlation_id), 1)
    assert enclosed(forwarded, response) == EnvelopeResponse(response_data=head + encode(response, 7))


def test_a_request_of_too_many_values_cannot_be_read() -> None:
    """It has two topics."""
    two = CreateTopicsRequest(topics=CREATION.topics * 2)
    assert isinstance(unwrapped(enveloped(two, 7), 2), Forwarded)
    assert unwrapped(enveloped(two, 7), 1) is Errors.UNSUPPORTED_VERSION
