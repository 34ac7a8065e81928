"""Envelopes: requests of clients that brokers forward, and the responses to them (KIP-590).

Source: EnvelopeUtils, RequestChannel.Request.buildResponse.
"""

import asyncio
from ipaddress import ip_address
from struct import Struct
from typing import Final, NamedTuple

from kcore.errors import DecodeError
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.framed_connection import PIECE_BYTES, Encoded, encoded
from kcore.net.limits.connection_limits import REQUEST_VALUES
from kcore.net.requests import FEW_VALUES
from kcore.node.error_responses import in_version
from kcore.node.parsed import is_parsed
from kcore.protocol_errors import Errors
from kcore.schema.acls import CreateAclsResponse
from kcore.schema.describe_quorum import DescribeQuorumResponse
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS, message_class
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.raft_voters import AddRaftVoterResponse, RemoveRaftVoterResponse
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from, encode
from kcore.wire.metadata_frames import varint

FORWARDABLE: Final = frozenset(
    message_class(f"{name}Request")
    for name in (
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "ElectLeaders", "UpdateFeatures", "UnregisterBroker"),
        *("AlterConfigs", "IncrementalAlterConfigs", "AlterClientQuotas", "AlterUserScramCredentials"),
        *("CreateAcls", "DeleteAcls", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"),
        *("AlterPartitionReassignments", "ListPartitionReassignments", "DescribeQuorum", "AllocateProducerIds"),
        *("AddRaftVoter", "RemoveRaftVoter", "UnregisterController"),
    )
)
"""The requests that an envelope may carry (ApiKeys.forwardable)."""
_KEY_AND_VERSION: Final = Struct(">hh")
_VERSION: Final = Struct(">h")


class Forwarded(NamedTuple):
    """A request from an envelope."""

    request: Message
    header: RequestHeader
    principal: KafkaPrincipal
    is_token_authenticated: bool
    client_address: str


async def opened(envelope: EnvelopeRequest, most_values: int, reading: asyncio.Lock) -> Forwarded | Errors:
    """As `unwrapped`. Decodes a request with many values in a thread that yields to others, one at a time."""
    few = min(FEW_VALUES, most_values)
    found = unwrapped(envelope, few)
    if found is not Errors.UNSUPPORTED_VERSION or len(envelope.request_data) <= few:  # A value has at least one byte.
        return found
    async with reading:
        return await asyncio.to_thread(unwrapped, envelope, most_values, gives_way=True)


def unwrapped(
    envelope: EnvelopeRequest, most_values: int = REQUEST_VALUES, *, gives_way: bool = False
) -> Forwarded | Errors:
    """The forwarded request, or the error for an empty EnvelopeResponse (EnvelopeUtils.handleEnvelopeRequest).

    A request of more than `most_values` values gets the error of one that cannot be decoded. `gives_way`: the caller is
    in a thread, which yields to other threads.
    """
    try:
        principal = _principal_of(envelope.request_principal)
    except (DecodeError, TypeError):
        return Errors.PRINCIPAL_DESERIALIZATION_FAILURE
    try:
        address = str(ip_address(envelope.client_host_address))
    except ValueError:
        return Errors.INVALID_REQUEST
    data = envelope.request_data
    if len(data) < _KEY_AND_VERSION.size:
        return Errors.UNSUPPORTED_VERSION
    key, version = _KEY_AND_VERSION.unpack_from(data)
    if (kind := REQUESTS.get(key)) is None:
        return Errors.UNSUPPORTED_VERSION
    if kind not in FORWARDABLE:
        return Errors.INVALID_REQUEST
    if version not in kind.versions:
        return Errors.UNSUPPORTED_VERSION
    try:
        header, at = decode_from(RequestHeader, kind.header_version(version), data, most_values=most_values)
        request, _ = decode_from(kind, version, data, at, most_values=most_values, gives_way=gives_way)
    except DecodeError:
        return Errors.UNSUPPORTED_VERSION
    if not is_parsed(request):
        return Errors.UNSUPPORTED_VERSION
    return Forwarded(
        request, header, KafkaPrincipal(principal.name, principal.type), principal.token_authenticated, address
    )


def _principal_of(data: bytes | None) -> DefaultPrincipalData:
    """Decodes the principal, after the version of its encoding (DefaultKafkaPrincipalBuilder.deserialize)."""
    if data is None or len(data) < _VERSION.size:
        raise DecodeError("an envelope without a principal", 0)
    [version] = _VERSION.unpack_from(data)
    if version not in DefaultPrincipalData.versions:
        raise DecodeError(f"a principal of version {version}", 0)
    found, end = decode_from(DefaultPrincipalData, version, data, _VERSION.size, most_values=FEW_VALUES)
    if end < len(data):
        raise DecodeError("bytes are left over after the principal", end)
    return found


async def wrapped(forwarded: Forwarded, response: Message) -> Message | Encoded:
    """The response in an EnvelopeResponse; a large response is not copied.

    A response with NOT_CONTROLLER becomes an envelope with this error, so that the broker retries.
    """
    if names_another_controller(response):
        return EnvelopeResponse(error_code=Errors.NOT_CONTROLLER.value)
    version = forwarded.header.request_api_version
    head = encode(ResponseHeader(correlation_id=forwarded.header.correlation_id), response.header_version(version))
    body = (await encoded(in_version(response, version), version)).body
    size = len(head) + sum(map(len, body))
    if size <= PIECE_BYTES:
        return EnvelopeResponse(response_data=b"".join((head, *body)))
    empty = encode(EnvelopeResponse(response_data=b""), 0)  # Its first byte is the encoded length 0.
    return Encoded(EnvelopeResponse(), [varint(size + 1) + head, *body, empty[1:]])


def is_refused_change_of_voters(response: Message) -> bool:
    """True if the response refuses AddRaftVoter or RemoveRaftVoter because this node does not lead.

    If the envelope has NOT_CONTROLLER, a broker looks for another controller. Otherwise it passes the refusal to its
    client and keeps forwarding to this node, so that the client's retries are refused too. Kafka's standby does not set
    NOT_CONTROLLER here; kcore's omits it only in Kafka's way ("standbys-name-no-leader").
    """
    if isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse):
        return bool(response.error_code == Errors.NOT_LEADER_OR_FOLLOWER)
    return False


def names_another_controller(response: Message) -> bool:
    """True if the response says that its node is not the active controller.

    DescribeQuorum says so by NOT_LEADER_OR_FOLLOWER, all others by NOT_CONTROLLER as an `error_code` of the response or
    of its items. Only the items of CreateAcls may differ in this (`kcore.controller.kraft.standby`).
    Source: RequestChannel.Request.shouldReturnNotController.
    """
    if isinstance(response, DescribeQuorumResponse):
        partitions = (each for topic in response.topics for each in topic.partitions)
        return any(each.error_code == Errors.NOT_LEADER_OR_FOLLOWER for each in partitions)
    if getattr(response, "error_code", Errors.NONE) == Errors.NOT_CONTROLLER:
        return True
    names: list[str] = [*type(response).__slots__]
    lists = [value for name in names if isinstance(value := getattr(response, name, None), list)]
    looked_at = response.results if isinstance(response, CreateAclsResponse) else [each[0] for each in lists if each]
    return any(getattr(each, "error_code", Errors.NONE) == Errors.NOT_CONTROLLER for each in looked_at)
