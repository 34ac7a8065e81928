"""Mutations routed as KIP-590's document has it, a form that Kafka did not ship: a dialect for clusters of kcore alone.

Each mutation of the document's table has a version more, which only the active controller answers; others answer
NOT_CONTROLLER. A broker proxies an older version once, as the new one, with the client's principal in the request
header's tag 0 (principalName). A version that Kafka does not have is laid out as the newest that it has. A tag beside
the document's has the client's address: ACLs by host would count the broker's, and audit logs would show it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kcore.controller.rules import error_responses, tokens
from kcore.controller.zk.requests.versions import at_least
from kcore.errors import DecodeError
from kcore.metadata.principal import ANONYMOUS
from kcore.net.limits.connection_limits import CLIENT_VALUES, HEADER_VALUES, REQUEST_VALUES
from kcore.net.versions import answer_of, response_of
from kcore.protocol_errors import Errors
from kcore.schema.acls import CreateAclsRequest, DeleteAclsRequest
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.quotas import AlterClientQuotasRequest
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.wire.codec import decode_from, encode
from kcore.wire.metadata_frames import varint

PRINCIPAL_NAME: Final = 0  # The document's tag in the request header.
CLIENT_ADDRESS: Final = 10_000  # Our own, far from Kafka's.
BUMPED: Final[Mapping[type[Message], int]] = {  # The versions that always go to the controller.
    AlterConfigsRequest: 2,
    IncrementalAlterConfigsRequest: 2,
    CreateAclsRequest: 3,
    DeleteAclsRequest: 3,
    AlterClientQuotasRequest: 1,
    CreateDelegationTokenRequest: 3,
    RenewDelegationTokenRequest: 3,
    ExpireDelegationTokenRequest: 3,
}


@dataclass(frozen=True, slots=True)
class DocumentRouting:
    """The cluster's switch: from which inter.broker.protocol on a node routes so. The second roll raises that."""

    since: str

    def is_on(self, inter_broker_protocol: str) -> bool:
        """Before, every broker handles mutations itself."""
        return at_least(inter_broker_protocol, self.since)


class RoutedRequest(NamedTuple):
    """A mutation of any version. The last ones are the client's, where a broker has proxied the request."""

    header: RequestHeader
    request: Message
    principal_name: str | None
    client_address: str | None

    @property
    def is_bumped(self) -> bool:
        """Whether it is of the version that always goes to the controller."""
        return self.header.request_api_version == BUMPED[type(self.request)]


def is_mutation(api_key: int, version: int, *, bumped: bool) -> bool:
    """Whether it is a mutation, of the new version or of an older one."""
    kind = REQUESTS.get(api_key)
    if kind is None or kind not in BUMPED:
        return False
    return version == BUMPED[kind] if bumped else kind.versions.lowest <= version < BUMPED[kind]


def layout_of(kind: type[Message], version: int) -> int:
    """The version of Kafka's with the same fields."""
    return min(version, kind.versions.highest)


def read_request(frame: bytes, *, is_node: bool = True) -> RoutedRequest:
    """The request in a frame that `is_mutation`. DecodeError, also for more values than the sender may send.

    `is_node`: the sender may do what nodes of the cluster do.
    """
    most_values = REQUEST_VALUES if is_node else CLIENT_VALUES
    kind = REQUESTS[int.from_bytes(frame[:2])]
    layout = layout_of(kind, int.from_bytes(frame[2:4]))
    header, at = decode_from(RequestHeader, kind.header_version(layout), frame, most_values=HEADER_VALUES)
    request, _ = decode_from(kind, layout, frame, at, most_values=most_values)
    tags = dict(header.unknown_tagged_fields)
    name, address = (_text_in(tags.get(each)) for each in (PRINCIPAL_NAME, CLIENT_ADDRESS))
    return RoutedRequest(header, request, name, address)


def _text_in(tag: bytes | None) -> str | None:
    """A compact string: its length and one more, then UTF-8."""
    if tag is None:
        return None
    text = bytes(tag)
    for size in range(1, min(len(text), 5) + 1):
        if varint(len(text) - size + 1) == text[:size]:
            try:
                return text[size:].decode()
            except UnicodeDecodeError:
                break
    raise DecodeError("a tag about the client that is no string", 0)


def proxied(frame: RoutedRequest, principal_name: str, client_address: str, correlation_id: int) -> tuple[bytes, bytes]:
    """The request's header and body as of the new version, for the controller."""
    kind = type(frame.request)
    layout = layout_of(kind, BUMPED[kind])
    tags = {PRINCIPAL_NAME: principal_name.encode(), CLIENT_ADDRESS: client_address.encode()}
    header = RequestHeader(
        request_api_key=kind.api_key,
        request_api_version=BUMPED[kind],
        correlation_id=correlation_id,
        client_id=frame.header.client_id,
        unknown_tagged_fields=[(tag, varint(len(text) + 1) + text) for tag, text in tags.items()],
    )
    return bytes(encode(header, kind.header_version(layout))), bytes(encode(frame.request, layout))


def response_bytes(header: RequestHeader, kind: type[Message], response: Message) -> bytes:
    """The response's frame, in the version of that request. The controller's may say more than an older one can."""
    layout = layout_of(kind, header.request_api_version)
    head, body = ResponseHeader(correlation_id=header.correlation_id), error_responses.in_version(response, layout)
    return bytes(encode(head, response.header_version(layout))) + bytes(encode(body, layout))


def read_response(kind: type[Message], data: bytes) -> Message:
    """The controller's answer to a proxied request. DecodeError."""
    response, layout = response_of(kind), layout_of(kind, BUMPED[kind])
    _, at = decode_from(ResponseHeader, response.header_version(layout), data)
    return read_response_body(kind, data, at)


def read_response_body(kind: type[Message], data: bytes | memoryview, at: int = 0) -> Message:
    """As `read_response`, after the header. DecodeError."""
    found: Message
    found, _ = decode_from(response_of(kind), layout_of(kind, BUMPED[kind]), data, at)
    return found


def refused(request: Message, version: int, error: Errors) -> Message:
    """Nothing was done: every item has the error."""
    if isinstance(request, tokens.OfTokens):
        return tokens.refused(request, version, ANONYMOUS, error)
    return error_responses.refused(request, error)


def with_bumped(own: ApiVersionsResponse) -> ApiVersionsResponse:
    """ApiVersions of a node with this routing: mutations have their new versions, other APIs those of `own`."""
    ours = {each.api_key for each in own.api_keys}
    mutations = {kind: Versions(kind.versions.lowest, version) for kind, version in BUMPED.items()}
    rows = {each.api_key: each for each in answer_of(mutations).api_keys}
    own.api_keys = sorted(
        [rows.get(each.api_key, each) for each in own.api_keys] + [row for key, row in rows.items() if key not in ours],
        key=lambda each: each.api_key,
    )
    return own
