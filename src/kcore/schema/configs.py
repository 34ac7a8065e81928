"""Configurations of topics, brokers and other resources (KIP-133)."""

from enum import IntEnum

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class ConfigResourceType(IntEnum):
    """ConfigResource.Type: the kind of resource; `resource_type` in requests and in ConfigRecords."""

    TOPIC = 2
    BROKER = 4  # The empty name stands for all brokers.
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """DescribeConfigsResponse.ConfigSource: where a value was set."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3  # For all brokers.
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """DescribeConfigsResponse.ConfigType: the type of a value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class OpType(IntEnum):
    """AlterConfigOp.OpType: the change that IncrementalAlterConfigs makes to a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class DescribeConfigsResource(Struct):
    """A resource whose configuration is requested."""

    resource_type: int8
    resource_name: str
    configuration_keys: list[str] | None = field(nullable="0+")  # Null asks for all.


class DescribeConfigsRequest(Message, api_key=32, versions="0-4", flexible="4+"):
    """An administrator asks for configurations; only a broker itself answers for its own configuration."""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = field(versions="1+")  # KIP-226.
    include_documentation: bool = field(versions="3+")  # KIP-569.


class DescribeConfigsSynonym(Struct):
    """A place that sets the setting; the first place in the list takes effect."""

    name: str
    value: str | None = field(nullable="0+")
    source: int8


class DescribeConfigsResourceResult(Struct):
    """One setting: its value and where the value comes from."""

    name: str
    value: str | None = field(nullable="0+")  # Null if the setting is sensitive.
    read_only: bool
    is_default: bool = field(versions="0")
    # 1 topic, 2 broker, 3 all brokers, 4 file, 5 default, 6 broker logger, 7 client metrics, 8 group.
    config_source: int8 = field(versions="1+", default=-1, ignorable=True)
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym] = field(versions="1+", ignorable=True)
    # 0 unknown, 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
    config_type: int8 = field(versions="3+", ignorable=True)
    documentation: str | None = field(versions="3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The settings of one resource."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    resource_type: int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, api_key=32, versions="0-4", flexible="4+"):
    """The requested configurations."""

    throttle_time_ms: int32
    results: list[DescribeConfigsResult]


class AlterConfigsRequestAlterableConfig(Struct, kafka_name="AlterableConfig"):
    """A setting and its value."""

    name: str
    value: str | None = field(nullable="0+", secret=True)  # Null for the default. It may be a password.


class AlterConfigsRequestAlterConfigsResource(Struct, kafka_name="AlterConfigsResource"):
    """A resource and all its settings."""

    resource_type: int8
    resource_name: str
    configs: list[AlterConfigsRequestAlterableConfig]


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """An administrator replaces whole configurations: settings that the request does not name get their defaults."""

    resources: list[AlterConfigsRequestAlterConfigsResource]
    validate_only: bool  # Only checks the request.


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    resource_type: int8
    resource_name: str


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    """An answer for each resource."""

    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]


class IncrementalAlterConfigsRequestAlterableConfig(Struct, kafka_name="AlterableConfig"):
    """A setting and its change."""

    name: str
    config_operation: int8  # 0 set, 1 delete, 2 append to a list, 3 subtract from it.
    value: str | None = field(nullable="0+", secret=True)


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct, kafka_name="AlterConfigsResource"):
    """A resource and the settings that change."""

    resource_type: int8
    resource_name: str
    configs: list[IncrementalAlterConfigsRequestAlterableConfig]


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """An administrator changes the named settings; all other settings keep their values (KIP-339)."""

    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource]
    validate_only: bool  # Only checks the request.


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    """An answer for each resource."""

    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    """An administrator asks which resources have configurations (KIP-1142)."""

    resource_types: list[int8] = field(versions="1+")  # Empty for all; version 0 supports only client metrics.


class ConfigResource(Struct):
    """A resource by type and name."""

    resource_name: str
    resource_type: int8 = field(versions="1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    """The resources."""

    throttle_time_ms: int32
    error_code: int16
    config_resources: list[ConfigResource]
