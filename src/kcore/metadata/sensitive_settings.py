"""Says which settings in a ConfigRecord may hold a password, so that tables leave out their values."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from kcore.releases.broker_settings import TYPES, is_sensitive
from kcore.releases.known import RELEASES
from kcore.schema.configs import ConfigResourceType, ConfigType

_REMEMBERED: Final = 1 << 12
# The settings of topics and groups are no passwords; a setting that no release has may be one.
_KNOWN: Final[Mapping[int, Collection[str]]] = {
    ConfigResourceType.TOPIC: frozenset(name for each in RELEASES.values() for name in each.topic_configs),
    ConfigResourceType.GROUP: frozenset(name for each in RELEASES.values() for name in each.group_configs),
}


@lru_cache(_REMEMBERED)
def is_sensitive_setting(resource_type: int, name: str) -> bool:
    """True if DescribeConfigs of Kafka hides the value: it is a password, or its type is unknown.

    Source: KafkaConfig.maybeSensitive.
    """
    if resource_type == ConfigResourceType.BROKER:
        return is_sensitive(TYPES.get(name, ConfigType.UNKNOWN))
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        return False
    return name not in _KNOWN.get(resource_type, ())
