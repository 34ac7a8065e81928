"""Acls."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class DescribeAclsRequest(Message, api_key=29, versions="0-3", flexible="2+"):
    """DescribeAclsRequest, as Kafka has it."""

    resource_type_filter: int8
    resource_name_filter: str | None = field(nullable="0+")
    pattern_type_filter: int8 = field(versions="1+", default=3)
    principal_filter: str | None = field(nullable="0+")
    host_filter: str | None = field(nullable="0+")
    operation: int8
    permission_type: int8


class AclDescription(Struct):
    """A part of DescribeAclsResponse."""

    principal: str
    host: str
    operation: int8
    permission_type: int8


class DescribeAclsResource(Struct):
    """A part of DescribeAclsResponse."""

    resource_type: int8
    resource_name: str
    pattern_type: int8 = field(versions="1+", default=3)
    acls: list[AclDescription]


class DescribeAclsResponse(Message, api_key=29, versions="0-3", flexible="2+"):
    """DescribeAclsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    resources: list[DescribeAclsResource]


class AclCreation(Struct):
    """A part of CreateAclsRequest."""

    resource_type: int8
    resource_name: str
    resource_pattern_type: int8 = field(versions="1+", default=3)
    principal: str
    host: str
    operation: int8
    permission_type: int8


class CreateAclsRequest(Message, api_key=30, versions="0-3", flexible="2+"):
    """CreateAclsRequest, as Kafka has it."""

    creations: list[AclCreation]


class AclCreationResult(Struct):
    """A part of CreateAclsResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+")


class CreateAclsResponse(Message, api_key=30, versions="0-3", flexible="2+"):
    """CreateAclsResponse, as Kafka has it."""

    throttle_time_ms: int32
    results: list[AclCreationResult]


class DeleteAclsFilter(Struct):
    """A part of DeleteAclsRequest."""

    resource_type_filter: int8
    resource_name_filter: str | None = field(nullable="0+")
    pattern_type_filter: int8 = field(versions="1+", default=3)
    principal_filter: str | None = field(nullable="0+")
    host_filter: str | None = field(nullable="0+")
    operation: int8
    permission_type: int8


class DeleteAclsRequest(Message, api_key=31, versions="0-3", flexible="2+"):
    """DeleteAclsRequest, as Kafka has it."""

    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    """A part of DeleteAclsResponse."""

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
    """A part of DeleteAclsResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Message, api_key=31, versions="0-3", flexible="2+"):
    """DeleteAclsResponse, as Kafka has it."""

    throttle_time_ms: int32
    filter_results: list[DeleteAclsFilterResult]
