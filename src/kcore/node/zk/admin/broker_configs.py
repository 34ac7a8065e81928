"""Settings of BROKER resources: replication throttles in /config/brokers, of one broker or of all.

Source: ConfigAdminManager, ConfigHelper and DynamicBrokerConfig of 3.9.1.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from kcore.constants import INT64_MAX
from kcore.metadata.zookeeper.znode_names import DEFAULT
from kcore.protocol_errors import Errors
from kcore.schema import DescribeConfigsRequest
from kcore.schema.configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    OpType,
)

# The settings that kafka-reassign-partitions sets and clears (QuotaConfigs).
THROTTLES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
SECRETS: Final = (
    "password",
    "secret",
    "jaas.config",
    "keystore.key",
)  # Settings with these words in their names are hidden.
Configs: TypeAlias = dict[str, str]


class ConfigNode(NamedTuple):
    """The node that received the request: a broker, or a controller that Metadata lists as a broker."""

    broker_id: int
    is_broker: bool  # A controller has no replicas, and so no throttles.
    has_topic: Callable[[str], bool]
    settings: Mapping[str, str]  # The node's own settings, by Kafka's names.
    # True for ids of other brokers whose settings this node serves.
    answers_for: Callable[[str], bool] = lambda name: False


def entity_of(node: ConfigNode, name: str) -> str | None:
    """The path under /config of a broker's settings, or of all brokers' for an empty name; None for unknown brokers."""
    is_known = name in ("", str(node.broker_id)) or node.answers_for(name)
    return f"brokers/{name or DEFAULT}" if is_known else None


def check_name(node: ConfigNode, name: str) -> None:
    """InvalidRequestException if the settings are another broker's."""
    if entity_of(node, name) is None:
        Errors.INVALID_REQUEST.raise_for(
            f"Unexpected broker id, expected {node.broker_id} or empty string, but received {name}"
        )


def altered(
    node: ConfigNode, resource: IncrementalAlterConfigsRequestAlterConfigsResource, known: Configs
) -> Configs | None:
    """A resource's settings after the change; None if nothing changes. ApiException for non-throttles and bad rates.

    Kafka's tools remove the throttles of every broker that Metadata lists. A kcore controller in that list has none.
    """
    if not node.is_broker and resource.resource_name == str(node.broker_id):
        if all(each.config_operation == OpType.DELETE for each in resource.configs):
            return None
        Errors.INVALID_REQUEST.raise_for(f"Node {node.broker_id} is a controller: it has no replicas to throttle.")
    configs = {**known}
    others = [each for each in resource.configs if each.name not in THROTTLES]
    if wrong := sorted(each.name for each in others if not _keeps(each, known)):
        Errors.INVALID_REQUEST.raise_for(f"Cannot update these configs dynamically: {', '.join(wrong)}")
    for each in resource.configs:
        if each.config_operation == OpType.DELETE:
            configs.pop(each.name, None)
        elif each.config_operation != OpType.SET:
            Errors.INVALID_CONFIG.raise_for(f"Config value append is not allowed for config key: {each.name}")
        elif each.name in THROTTLES:
            configs[each.name] = _rate(each.name, each.value or "")
    return configs


def _keeps(change: IncrementalAlterConfigsRequestAlterableConfig, known: Configs) -> bool:
    """True if the change may pass for a setting that kcore never writes: a deletion, or its present value again."""
    if change.name not in known:
        return False
    return change.config_operation == OpType.DELETE or (change.config_operation, change.value) == (
        OpType.SET,
        known[change.name],
    )


def _rate(name: str, value: str) -> str:
    """A valid rate in bytes a second, as text; otherwise InvalidConfigurationException."""
    if not re.fullmatch(r"[0-9]{1,19}", value) or int(value) > INT64_MAX:
        Errors.INVALID_CONFIG.raise_for(f"Invalid value {value[:40]} for configuration {name}: not a rate")
    return value


def described(
    node: ConfigNode, name: str, known: Configs, request: DescribeConfigsRequest, version: int
) -> Iterator[DescribeConfigsResourceResult]:
    """The settings of a broker: the node's own and those in ZooKeeper. For an empty name, only those in ZooKeeper."""
    source = ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    values = {**(node.settings if name else {}), **known}
    for setting, value in values.items():
        is_secret = any(each in setting for each in SECRETS)
        shown = None if is_secret else value
        kind = ConfigType.LONG if setting in THROTTLES else ConfigType.STRING
        origin = source if setting in known else ConfigSource.STATIC_BROKER_CONFIG
        yield DescribeConfigsResourceResult(
            name=setting,
            value=shown,
            read_only=setting not in THROTTLES and setting not in known,
            is_default=version == 0 and setting not in known,
            config_source=origin,
            is_sensitive=is_secret,
            synonyms=[DescribeConfigsSynonym(name=setting, value=shown, source=origin)]
            if request.include_synonyms
            else [],
            config_type=ConfigType.PASSWORD if is_secret else kind,
            documentation=None,
        )
