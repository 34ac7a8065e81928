"""Access control lists (KIP-140). Pattern types: 1 any, 2 match, 3 literal, 4 prefixed (KIP-290)."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class DescribeAclsRequest(Message, api_key=29, versions="0-3", flexible="2+"):
    """An administrator asks for the ACL entries that match a filter."""

    resource_type_filter: int8
    resource_name_filter: str | None = field(nullable="0+")  # Null matches every name. So do null principal and host.
    pattern_type_filter: int8 = field(versions="1+", default=3)
    principal_filter: str | None = field(nullable="0+")
    host_filter: str | None = field(nullable="0+")
    operation: int8
    permission_type: int8


class AclDescription(Struct):
    """One access control entry: a principal, a host, an operation, and allow or deny."""

    principal: str
    host: str
    operation: int8
    permission_type: int8  # 2 deny, 3 allow.


class DescribeAclsResource(Struct):
    """A resource and its ACL entries."""

    resource_type: int8
    resource_name: str
    pattern_type: int8 = field(versions="1+", default=3)
    acls: list[AclDescription]


class DescribeAclsResponse(Message, api_key=29, versions="0-3", flexible="2+"):
    """The ACL entries that matched, by resource."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    resources: list[DescribeAclsResource]


class AclCreation(Struct):
    """An ACL entry to create."""

    resource_type: int8
    resource_name: str
    resource_pattern_type: int8 = field(versions="1+", default=3)
    principal: str
    host: str
    operation: int8
    permission_type: int8  # 2 deny, 3 allow.


class CreateAclsRequest(Message, api_key=30, versions="0-3", flexible="2+"):
    """An administrator creates ACL entries."""

    creations: list[AclCreation]


class AclCreationResult(Struct):
    """The result for one new entry."""

    error_code: int16
    error_message: str | None = field(nullable="0+")


class CreateAclsResponse(Message, api_key=30, versions="0-3", flexible="2+"):
    """An answer for each entry, in the request's order."""

    throttle_time_ms: int32
    results: list[AclCreationResult]


class DeleteAclsFilter(Struct):
    """A filter for the entries to delete; null and type 1 match all."""

    resource_type_filter: int8
    resource_name_filter: str | None = field(nullable="0+")
    pattern_type_filter: int8 = field(versions="1+", default=3)
    principal_filter: str | None = field(nullable="0+")
    host_filter: str | None = field(nullable="0+")
    operation: int8
    permission_type: int8


class DeleteAclsRequest(Message, api_key=31, versions="0-3", flexible="2+"):
    """An administrator deletes the ACL entries that match filters."""

    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    """An entry that matched, and whether it was deleted."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    resource_type: int8
    resource_name: str
    pattern_type: int8 = field(versions="1+", default=3)
    principal: str
    host: str
    operation: int8
    permission_type: int8


class DeleteAclsFilterResult(Struct):
    """The entries that one filter matched."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Message, api_key=31, versions="0-3", flexible="2+"):
    """An answer for each filter, in the request's order."""

    throttle_time_ms: int32
    filter_results: list[DeleteAclsFilterResult]
