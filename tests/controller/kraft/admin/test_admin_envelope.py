"""Requests that Kafka's parsers refuse, sent directly and in an envelope."""

import pytest

from kcore.node.parsed import is_parsed
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.structure import Message
from kcore.server.envelopes import Forwarded, unwrapped
from kcore.wire.codec import encode

FILTER = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
ENTRY = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}


def requests(**codes: int) -> list[Message]:
    filters = {(f"{key}_filter" if f"{key}_filter" in FILTER else key): value for key, value in codes.items()}
    entries = {("resource_pattern_type" if key == "pattern_type" else key): value for key, value in codes.items()}
    return [
        CreateAclsRequest(creations=[AclCreation(**ENTRY), AclCreation(**{**ENTRY, **entries})]),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**FILTER), DeleteAclsFilter(**{**FILTER, **filters})]),
        DescribeAclsRequest(**{**FILTER, **filters}),
    ]


def in_an_envelope(request: Message, version: int) -> Forwarded | Errors:
    kind = type(request)
    header = RequestHeader(request_api_key=kind.api_key, request_api_version=version, client_id="c")
    principal = DefaultPrincipalData(type="User", name="alice", token_authenticated=True)
    envelope = EnvelopeRequest(
        request_data=encode(header, kind.header_version(version)) + encode(request, version),
        request_principal=b"\0\0" + encode(principal, 0),
        client_host_address=bytes(15) + b"\1",
    )
    return unwrapped(envelope)


@pytest.mark.parametrize("code", ["resource_type", "pattern_type", "operation", "permission_type"])
def test_a_zero_is_no_request(code: str) -> None:
    assert not any(is_parsed(each) for each in requests(**{code: 0}))
    assert all(is_parsed(each) for each in requests(**{code: 99}))
    created, deleted, _ = requests(**{code: 0})
    assert in_an_envelope(created, 3) == Errors.UNSUPPORTED_VERSION
    assert in_an_envelope(deleted, 3) == Errors.UNSUPPORTED_VERSION


def test_what_is_forwarded() -> None:
    created, _, described = requests()
    found = in_an_envelope(created, 3)
    assert isinstance(found, Forwarded)
    assert found.request == created
    assert (str(found.principal), found.is_token_authenticated) == ("User:alice", True)
    assert in_an_envelope(described, 3) == Errors.INVALID_REQUEST
