"""Validates a topic's settings by ZooKeeper mode's rules, which refuse two settings (LogConfig.validate of 3.9.1)."""

from collections.abc import Mapping
from typing import Final

from kcore.controller.rules.topic_configs import (
    TOPIC_CONFIGS,
    TRUE,
    base_values,
    check_remote_storage,
    topic_config_values,
)
from kcore.protocol_errors import Errors

_BASE: Final = base_values(TOPIC_CONFIGS)


def validate_topic_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """All settings of a topic with these overrides, formatted as Kafka does; ApiException for an invalid one."""
    values = topic_config_values(configs, base=_BASE)
    if TRUE in (values["remote.log.delete.on.disable"], values["remote.log.copy.disable"]):
        Errors.INVALID_CONFIG.raise_for(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
    check_remote_storage(values)
    return values
