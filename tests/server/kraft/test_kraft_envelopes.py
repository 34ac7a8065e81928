"""The requests in Envelope requests, and the answers in Envelope responses."""

import asyncio
from typing import Any

import pytest

from kcore.controller.kraft.handlers import HANDLERS
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.framed_connection import Encoded
from kcore.net.limits.connection_limits import REQUEST_VALUES
from kcore.net.requests import FEW_VALUES
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.releases.known import RELEASES
from kcore.schema.acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.envelope import EnvelopeResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.partitions import ElectLeadersRequest, ListPartitionReassignmentsRequest, TopicPartitions
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcore.schema.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcore.server import envelopes
from kcore.server.envelopes import FORWARDABLE, Forwarded, unwrapped, wrapped
from kcore.wire.codec import decode, encode
from server.kraft.test_kraft_server import enveloped

ELSEWHERE = AclCreationResult(error_code=Errors.NOT_CONTROLLER)
OF_CLIENTS = """
    CreateTopics DeleteTopics CreateAcls DeleteAcls AlterConfigs CreatePartitions CreateDelegationToken
    RenewDelegationToken ExpireDelegationToken ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
    ListPartitionReassignments AlterClientQuotas AlterUserScramCredentials DescribeQuorum UpdateFeatures
    UnregisterBroker AllocateProducerIds AddRaftVoter RemoveRaftVoter UnregisterController
"""  # Those that ApiKeys of 4.4.0 makes forwardable, in its order.
CREATION = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


def opened(request: Message, version: int) -> Forwarded:
    found = unwrapped(enveloped(request, version))
    assert isinstance(found, Forwarded)
    return found


def enclosed(forwarded: Forwarded, response: Message) -> EnvelopeResponse:
    """As the sender of the envelope decodes it."""
    answer = asyncio.run(wrapped(forwarded, response))
    if isinstance(answer, Encoded):
        return decode(EnvelopeResponse, 0, b"".join(answer.body))
    assert isinstance(answer, EnvelopeResponse)
    return answer


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
    answer = enclosed(opened(request_, version), response)
    assert (answer.error_code, answer.response_data) == (Errors.NOT_CONTROLLER, None)


@pytest.mark.covers("KRaft D1")
def test_not_controller_in_items_of_elect_leaders_becomes_the_envelope_s_error() -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    response = enclosed(opened(request, 0), refused(request, Errors.NOT_CONTROLLER))
    assert (response.error_code, response.response_data) == (Errors.NOT_CONTROLLER, None)
    response = enclosed(opened(request, 0), refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED))
    assert response.error_code == Errors.NONE and response.response_data


@pytest.mark.covers("KRaft D1")
def test_other_errors_stay_within_the_envelope() -> None:
    failed = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=Errors.TOPIC_ALREADY_EXISTS)])
    response = enclosed(opened(CREATION, 7), failed)
    assert response.error_code == Errors.NONE and response.response_data


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


@pytest.mark.parametrize("release", RELEASES)
def test_every_request_with_a_handler_is_announced(release: str) -> None:
    """ApiVersions names it: otherwise no client would send it."""
    since_4_4 = set() if release == "4.4.0" else {"UnregisterController"}
    assert {kind.__name__.removesuffix("Request") for kind in HANDLERS} - RELEASES[release].apis.keys() == since_4_4


WHOLE, NO_ACL = enveloped(CREATION, 7), enveloped(CreateAclsRequest(creations=[AclCreation()]), 3)
KEY, VERSION, REST = WHOLE.request_data[:2], WHOLE.request_data[2:4], WHOLE.request_data[4:]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        *[
            ({"request_principal": each}, Errors.PRINCIPAL_DESERIALIZATION_FAILURE)
            for each in (
                *(None, b"", b"\0", b"\0\0", b"\0\1" + WHOLE.request_principal[2:]),
                *(WHOLE.request_principal[:-1], WHOLE.request_principal + b"\0"),
            )
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
def test_an_invalid_envelope_is_refused_and_logs_no_fault(changed: dict[str, bytes], error: Errors) -> None:
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
    answer = asyncio.run(wrapped(forwarded, response))
    assert isinstance(answer, Encoded) and len(answer.body) > 4 and max(map(len, answer.body)) < 1 << 20
    head = encode(ResponseHeader(correlation_id=forwarded.header.correlation_id), 1)
    assert enclosed(forwarded, response) == EnvelopeResponse(response_data=head + encode(response, 7))


def test_a_request_of_too_many_values_cannot_be_read() -> None:
    """It has two topics."""
    two = CreateTopicsRequest(topics=CREATION.topics * 2)
    assert isinstance(unwrapped(enveloped(two, 7), 2), Forwarded)
    assert unwrapped(enveloped(two, 7), 1) is Errors.UNSUPPORTED_VERSION


MANY = CreateTopicsRequest(topics=CREATION.topics * (FEW_VALUES + 1))
TAGS = tuple((tag, b"") for tag in range(FEW_VALUES + 1))


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each call in a thread."""
    calls: list[dict[str, Any]] = []
    real = asyncio.to_thread

    async def noted(function: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return await real(function, *arguments, **options)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    return calls


def test_a_large_request_in_an_envelope_is_answered(in_threads: list[dict[str, Any]]) -> None:
    """A thread reads it, which gives way to the event loop; a small one is read at once."""
    for request, is_large in ((MANY, True), (CREATION, False)):
        found = asyncio.run(envelopes.opened(enveloped(request, 7), REQUEST_VALUES, asyncio.Lock()))
        assert isinstance(found, Forwarded) and found.request == request
        assert in_threads == [{"gives_way": True}]
        assert is_large == (len(enveloped(request, 7).request_data) > FEW_VALUES)


def test_large_requests_in_envelopes_are_read_one_at_a_time(in_threads: list[dict[str, Any]]) -> None:
    async def story() -> None:
        reading = asyncio.Lock()
        async with reading:
            large = asyncio.create_task(envelopes.opened(enveloped(MANY, 7), REQUEST_VALUES, reading))
            small = await envelopes.opened(enveloped(CREATION, 7), REQUEST_VALUES, reading)
            await asyncio.sleep(0)
            assert isinstance(small, Forwarded) and not in_threads
        assert isinstance(await large, Forwarded) and in_threads

    asyncio.run(story())


def test_an_unreadable_small_request_in_an_envelope_takes_no_thread(in_threads: list[dict[str, Any]]) -> None:
    envelope = enveloped(CREATION, 7)
    envelope.request_data = envelope.request_data[:-1]
    found = asyncio.run(envelopes.opened(envelope, REQUEST_VALUES, asyncio.Lock()))
    assert found is Errors.UNSUPPORTED_VERSION and not in_threads


@pytest.mark.parametrize("most", [1, FEW_VALUES])
def test_the_limit_of_values_holds_for_small_and_large_requests(most: int) -> None:
    for count in (most, most + 1):
        request = CreateTopicsRequest(topics=CREATION.topics * count)
        found = asyncio.run(envelopes.opened(enveloped(request, 7), most, asyncio.Lock()))
        assert isinstance(found, Forwarded) if count == most else found is Errors.UNSUPPORTED_VERSION


def test_a_header_of_too_many_tags_cannot_be_read() -> None:
    """The limit of values is for the header's unknown tags, too."""
    header = RequestHeader(request_api_key=CREATION.api_key, request_api_version=7, unknown_tagged_fields=TAGS)
    envelope = enveloped(CREATION, 7)
    envelope.request_data = encode(header, CREATION.header_version(7)) + encode(CREATION, 7)
    assert isinstance(unwrapped(envelope, len(TAGS)), Forwarded)
    assert unwrapped(envelope, len(TAGS) - 1) is Errors.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("count", "is_read"), [(FEW_VALUES, True), (FEW_VALUES + 1, False)])
def test_a_principal_has_few_values(count: int, is_read: bool) -> None:
    who = DefaultPrincipalData(type="User", name="alice", token_authenticated=False, unknown_tagged_fields=TAGS[:count])
    envelope = enveloped(CREATION, 7)
    envelope.request_principal = bytes(2) + encode(who, 0)
    found = unwrapped(envelope)
    assert isinstance(found, Forwarded) if is_read else found is Errors.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize("more", [0, 1])
def test_a_response_of_one_piece_is_copied_and_a_larger_one_is_not(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forwarded, response = opened(CREATION, 7), CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    whole = encode(ResponseHeader(correlation_id=forwarded.header.correlation_id), 1) + encode(response, 7)
    monkeypatch.setattr(envelopes, "PIECE_BYTES", len(whole) - more)
    assert isinstance(asyncio.run(wrapped(forwarded, response)), Encoded) == bool(more)
    assert enclosed(forwarded, response).response_data == whole
