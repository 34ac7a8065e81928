"""Requests that Kafka's request classes refuse while they parse them, so that no handler gets the request.

If the client sent such a request directly, Kafka closes the connection. If the request is in an envelope, Kafka answers
UNSUPPORTED_VERSION, as for unreadable bytes (EnvelopeUtils.parseForwardedRequest). Source: CreateAclsRequest.validate,
DeleteAclsRequest.normalizeAndValidate and DescribeAclsRequest.normalizeAndValidate.
"""

from collections.abc import Iterable
from functools import singledispatch
from typing import Final

from kcore.schema.acls import CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from kcore.schema.structure import Message

UNKNOWN: Final = 0  # The code UNKNOWN of resource types, pattern types, operations and permission types.


@singledispatch
def is_parsed(request: Message) -> bool:
    """True if Kafka's request class accepts the request."""
    return True


@is_parsed.register
def _(request: CreateAclsRequest) -> bool:
    return all(
        UNKNOWN not in (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
        for each in request.creations
    )


@is_parsed.register
def _(request: DeleteAclsRequest) -> bool:
    return _are_filters(request.filters)


@is_parsed.register
def _(request: DescribeAclsRequest) -> bool:
    return _are_filters([request])


def _are_filters(rows: Iterable[DeleteAclsFilter | DescribeAclsRequest]) -> bool:
    return all(
        UNKNOWN not in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
        for each in rows
    )
