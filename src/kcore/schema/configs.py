"""Configs."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class DescribeConfigsResource(Struct):
    """A part of DescribeConfigsRequest."""

    resource_type: int8
    resource_name: str
    configuration_keys: list[str] | None = field(nullable="0+")


class DescribeConfigsRequest(Message, api_key=32, versions="0-4", flexible="4+"):
    """DescribeConfigsRequest, as Kafka has it."""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = field(versions="1+")
    include_documentation: bool = field(versions="3+")


class DescribeConfigsSynonym(Struct):
    """A part of DescribeConfigsResponse."""

    name: str
    value: str | None = field(nullable="0+")
    source: int8


class DescribeConfigsResourceResult(Struct):
    """A part of DescribeConfigsResponse."""

    name: str
    value: str | None = field(nullable="0+")
    read_only: bool
    is_default: bool = field(versions="0")
    config_source: int8 = field(versions="1+", default=-1, ignorable=True)
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym] = field(versions="1+", ignorable=True)
    config_type: int8 = field(versions="3+", ignorable=True)
    documentation: str | None = field(versions="3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """A part of DescribeConfigsResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    resource_type: int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, api_key=32, versions="0-4", flexible="4+"):
    """DescribeConfigsResponse, as Kafka has it."""

    throttle_time_ms: int32
    results: list[DescribeConfigsResult]


class AlterConfigsRequestAlterableConfig(Struct, kafka_name="AlterableConfig"):
    """A part of AlterConfigsRequest."""

    name: str
    value: str | None = field(nullable="0+")


class AlterConfigsRequestAlterConfigsResource(Struct, kafka_name="AlterConfigsResource"):
    """A part of AlterConfigsRequest."""

    resource_type: int8
    resource_name: str
    configs: list[AlterConfigsRequestAlterableConfig]


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """AlterConfigsRequest, as Kafka has it."""

    resources: list[AlterConfigsRequestAlterConfigsResource]
    validate_only: bool


class AlterConfigsResourceResponse(Struct):
    """A part of AlterConfigsResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    resource_type: int8
    resource_name: str


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    """AlterConfigsResponse, as Kafka has it."""

    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]


class IncrementalAlterConfigsRequestAlterableConfig(Struct, kafka_name="AlterableConfig"):
    """A part of IncrementalAlterConfigsRequest."""

    name: str
    config_operation: int8
    value: str | None = field(nullable="0+")


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct, kafka_name="AlterConfigsResource"):
    """A part of IncrementalAlterConfigsRequest."""

    resource_type: int8
    resource_name: str
    configs: list[IncrementalAlterConfigsRequestAlterableConfig]


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """IncrementalAlterConfigsRequest, as Kafka has it."""

    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource]
    validate_only: bool


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    """IncrementalAlterConfigsResponse, as Kafka has it."""

    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    """ListConfigResourcesRequest, as Kafka has it."""

    resource_types: list[int8] = field(versions="1+")


class ConfigResource(Struct):
    """A part of ListConfigResourcesResponse."""

    resource_name: str
    resource_type: int8 = field(versions="1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    """ListConfigResourcesResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    config_resources: list[ConfigResource]
