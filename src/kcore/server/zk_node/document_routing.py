"""Routes mutations as the document of KIP-590 describes. Kafka did not ship this form: all nodes must run kcore.

Each mutation in the document's table has one new version, which only the active controller answers; other nodes answer
NOT_CONTROLLER. A broker rewrites a request of an older version to the new version and sends it to the controller.
The client's principal is then in tag 0 of the request header (principalName). A second tag, which the document does not
have, carries the client's address for ACLs by host and audit logs. A new version that Kafka lacks has the fields of
Kafka's newest version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kcore.errors import DecodeError
from kcore.metadata.principal import ANONYMOUS
from kcore.net.request_context import RequestContext
from kcore.net.versions import answer_of, response_of
from kcore.node import error_responses, tokens
from kcore.node.zk.inter_broker_protocol import at_least
from kcore.protocol_errors import Errors
from kcore.schema.acls import CreateAclsRequest, DeleteAclsRequest
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.headers import RequestHeader
from kcore.schema.index import REQUESTS
from kcore.schema.quotas import AlterClientQuotasRequest
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.server.pipeline import layout_of
from kcore.wire.codec import decode_from, encode
from kcore.wire.metadata_frames import varint

PRINCIPAL_NAME: Final = 0  # The tag of the request header in the document.
CLIENT_ADDRESS: Final = 10_000  # A tag that only kcore has, far from Kafka's.
BUMPED: Final[Mapping[type[Message], int]] = {  # The new versions, which only the active controller answers.
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
    """The cluster's switch: nodes route this way from the inter.broker.protocol `since` on, set in the second roll."""

    since: str

    def is_on(self, inter_broker_protocol: str) -> bool:
        """True if a node with this inter.broker.protocol routes mutations; before, each broker handles them itself."""
        return at_least(inter_broker_protocol, self.since)


def is_mutation(api_key: int, version: int, *, bumped: bool) -> bool:
    """True if the API is a mutation, and the version is the new one (`bumped`) or an older one."""
    kind = REQUESTS.get(api_key)
    if kind is None or kind not in BUMPED:
        return False
    return version == BUMPED[kind] if bumped else kind.versions.lowest <= version < BUMPED[kind]


def client_of(header: RequestHeader) -> tuple[str | None, str | None]:
    """The principal and address that a broker has put into the header of a mutation; None if it has not.

    DecodeError.
    """
    tags = dict(header.unknown_tagged_fields)
    return _text_in(tags.get(PRINCIPAL_NAME)), _text_in(tags.get(CLIENT_ADDRESS))


def _text_in(tag: bytes | None) -> str | None:
    """Decodes a compact string: its length plus one, then UTF-8. DecodeError."""
    if tag is None:
        return None
    text = bytes(tag)
    for size in range(1, min(len(text), 5) + 1):
        if varint(len(text) - size + 1) == text[:size]:
            try:
                return text[size:].decode()
            except UnicodeDecodeError:
                break
    raise DecodeError("the header's tag with the client's principal or address is not a string", 0)


def proxied(context: RequestContext, request: Message) -> tuple[bytes, bytes]:
    """Encodes the header and the body of the client's request in the new version, for the controller."""
    kind = type(request)
    layout = layout_of(kind, BUMPED[kind])
    tags = {PRINCIPAL_NAME: context.principal.name.encode(), CLIENT_ADDRESS: context.client_address.encode()}
    header = RequestHeader(
        request_api_key=kind.api_key,
        request_api_version=BUMPED[kind],
        correlation_id=context.header.correlation_id,
        client_id=context.header.client_id,
        unknown_tagged_fields=[(tag, varint(len(text) + 1) + text) for tag, text in tags.items()],
    )
    return bytes(encode(header, kind.header_version(layout))), bytes(encode(request, layout))


def read_response(kind: type[Message], body: bytes | memoryview) -> Message:
    """Decodes the controller's response to a rewritten request. DecodeError."""
    found: Message
    found, _ = decode_from(response_of(kind), layout_of(kind, BUMPED[kind]), body)
    return found


def refused(request: Message, version: int, error: Errors) -> Message:
    """The response that refuses the whole request: every item has the error."""
    if isinstance(request, tokens.OfTokens):
        return tokens.refused(request, version, ANONYMOUS, error)
    return error_responses.refused(request, error)


def with_bumped(own: ApiVersionsResponse) -> ApiVersionsResponse:
    """ApiVersions of a node with this routing: `own`, where mutations also have their new versions."""
    ours = {each.api_key for each in own.api_keys}
    mutations = {kind: Versions(kind.versions.lowest, version) for kind, version in BUMPED.items()}
    rows = {each.api_key: each for each in answer_of(mutations).api_keys}
    own.api_keys = sorted(
        [rows.get(each.api_key, each) for each in own.api_keys] + [row for key, row in rows.items() if key not in ours],
        key=lambda each: each.api_key,
    )
    return own
