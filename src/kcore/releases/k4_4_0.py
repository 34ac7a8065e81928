"""Kafka 4.4.0: what it changed since 4.3.1."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kcore.constants import SHARE_VERSION
from kcore.releases import k4_3_1
from kcore.releases.setting_names import INTERNAL_ADDED_BY_4_4
from kcore.releases.settings import GroupBounds, TopicConfig, with_added
from kcore.schema.configs import ConfigType

_OLDER: Final = k4_3_1.RELEASE

_BOOLEAN, _INT, _LONG, _STRING = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_MOST_BYTES: Final = 2147483639  # Integer.MAX_VALUE - 8
_SIZE: Final = "max.decompressed.message.bytes"
_LAG: Final = "remote.copy.lag"
_TOPIC_CONFIGS: Final = {  # By the setting that precedes them.
    "max.message.bytes": [TopicConfig(_SIZE, _INT, str(_MOST_BYTES), 1, _MOST_BYTES, server=_SIZE)],
    "remote.log.copy.disable": [
        TopicConfig(f"{_LAG}.ms", _LONG, "0", -1, server=f"log.{_LAG}.ms"),
        TopicConfig(f"{_LAG}.bytes", _LONG, "-1", -1, server=f"log.{_LAG}.bytes"),
    ],
    "remote.log.delete.on.disable": [TopicConfig("errors.deadletterqueue.group.enable", _BOOLEAN, "false")],
}
_GROUP_CONFIGS: Final = {
    "consumer.assignment.interval.ms": [
        TopicConfig("consumer.assignor.offload.enable", _BOOLEAN, "true", is_internal=True)
    ],
    "share.assignment.interval.ms": [TopicConfig("share.assignor.offload.enable", _BOOLEAN, "true", is_internal=True)],
    "streams.assignment.interval.ms": [
        TopicConfig("streams.assignor.offload.enable", _BOOLEAN, "true", is_internal=True),
        TopicConfig("streams.task.offset.interval.ms", _INT, "60000", 1, is_internal=True),
        TopicConfig("streams.num.warmup.replicas", _INT, "2", 0, is_internal=True),
        TopicConfig("streams.rack.aware.assignment.tags", ConfigType.LIST, "", is_set=True),
        TopicConfig("streams.acceptable.recovery.lag", _LONG, "10000", 0, is_internal=True),
        TopicConfig("streams.assignor.name", _STRING, ""),
        TopicConfig("errors.deadletterqueue.topic.name", _STRING, ""),
        TopicConfig("errors.deadletterqueue.copy.record.enable", _BOOLEAN, "false"),
    ],
}

_BROKER_LISTS: Final = {"group.streams.assignors": "sticky", "group.streams.rack.aware.assignment.tags": ""}
_FIRST_DEFAULTS: Final = {
    **_BROKER_LISTS,
    "errors.deadletterqueue.auto.create.topics.enable": "false",
    "errors.deadletterqueue.topic.name.prefix": "dlq.",
    f"log.{_LAG}.bytes": "-1",
    f"log.{_LAG}.ms": "0",
    _SIZE: str(_MOST_BYTES),
    "sasl.oauthbearer.allow.unverified.issuer": "false",
}
# By the setting that precedes them in a controller's answer, because names with the same hash keep their order.
_DEFAULTS: Final[Mapping[str, list[tuple[str, str | None]]]] = {
    "default.replication.factor": [("group.streams.topology.description.plugin.class", None)],
    "sasl.login.retry.backoff.max.ms": [("sasl.oauthbearer.allow.unverified.audience", "false")],
}

_BROKER_DEFAULTS: Final[Mapping[str, str | None]] = {
    **_FIRST_DEFAULTS,
    **{
        name: default
        for older in _OLDER.broker_defaults.items()
        for name, default in [older, *_DEFAULTS.get(older[0], [])]
    },
}

RELEASE: Final = replace(
    _OLDER,
    name="4.4.0",
    version_names=(*_OLDER.version_names, "4.4-IV1", "4.4-IV2", "4.5-IV0"),
    default_version="4.4-IV2",
    changed_metadata=_OLDER.changed_metadata | {"4.4-IV1", "4.4-IV2"},
    features={**_OLDER.features, SHARE_VERSION: (0, 2)},
    features_since={**_OLDER.features_since, SHARE_VERSION: ["4.2-IV0", "4.4-IV0"]},
    known_features={**_OLDER.known_features, SHARE_VERSION: 2},
    apis={**_OLDER.apis, "ApiVersions": (0, 5), "UnregisterController": (0, 0)},
    rules=replace(
        _OLDER.rules,
        bootstraps_from_snapshot=True,
        checks_acl_hosts=True,
        refuses_infinite_quotas=True,
        checks_own_group_configs=True,
        refuses_cordoned_assignments=True,
        counts_new_partitions_first=True,
    ),
    topic_configs=with_added(_OLDER.topic_configs, _TOPIC_CONFIGS),
    setting_names=_OLDER.setting_names.union(_BROKER_DEFAULTS, INTERNAL_ADDED_BY_4_4.split()),
    broker_lists={**_OLDER.broker_lists, **_BROKER_LISTS},
    broker_defaults=_BROKER_DEFAULTS,
    group_configs=with_added(_OLDER.group_configs, _GROUP_CONFIGS),
    group_bounds=(
        *_OLDER.group_bounds,
        GroupBounds("streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", 15000, "", 0),
        GroupBounds("streams.num.warmup.replicas", "", 0, "group.streams.max.warmup.replicas", 20),
    ),
    dynamic_broker_configs=frozenset(
        {
            *("errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix"),
            *(f"group.{each}.assignor.offload.enable" for each in ("consumer", "share", "streams")),
            *(_SIZE, f"log.{_LAG}.ms", f"log.{_LAG}.bytes"),
        }
    ),
)
