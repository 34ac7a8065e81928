"""Kafka 4.3.1: what it changed since 4.1.2."""

from dataclasses import replace
from typing import Final

from kcore.constants import STREAMS_VERSION
from kcore.releases import k4_1_2
from kcore.releases.broker_defaults import DEFAULT_LOG_DIR, DEFAULTS
from kcore.releases.release import Release
from kcore.releases.setting_names import NAMES_4_3
from kcore.releases.settings import TopicConfig, bounds, bounds_of_kind, by_name, numbers
from kcore.schema.configs import ConfigType

_OLDER: Final = k4_1_2.RELEASE
_ASSIGNMENT: Final = "assignment.interval.ms"
_GROUP_CONFIGS: Final = (
    *numbers(
        "consumer.session.timeout.ms 45000 1\n"
        "consumer.heartbeat.interval.ms 5000 1\n"
        "consumer.assignment.interval.ms 1000 0\n"
        "share.session.timeout.ms 45000 1\n"
        "share.heartbeat.interval.ms 5000 1\n"
        "share.record.lock.duration.ms 30000 1000\n"
        "share.delivery.count.limit 5 2\n"
        "share.partition.max.record.locks 2000 100"
    ),
    _OLDER.group_configs["share.auto.offset.reset"],
    _OLDER.group_configs["share.isolation.level"],
    TopicConfig("share.renew.acknowledge.enable", ConfigType.BOOLEAN, "true"),
    *numbers(
        "share.assignment.interval.ms 1000 0\n"
        "streams.session.timeout.ms 45000 1\n"
        "streams.heartbeat.interval.ms 5000 1\n"
        "streams.num.standby.replicas 0 0\n"
        "streams.initial.rebalance.delay.ms 3000 0\n"
        "streams.assignment.interval.ms 1000 0"
    ),
)

RELEASE: Final[Release] = replace(
    _OLDER,
    name="4.3.1",
    version_names=(*_OLDER.version_names, "4.3-IV0", "4.4-IV0"),
    default_version="4.3-IV0",
    changed_metadata=_OLDER.changed_metadata | {"4.3-IV0"},
    features={**_OLDER.features, STREAMS_VERSION: (0, 1)},
    features_since={**_OLDER.features_since, STREAMS_VERSION: ["4.2-IV1"]},
    apis={**_OLDER.apis, "AddRaftVoter": (0, 1), "BrokerHeartbeat": (0, 2)},
    rules=replace(
        _OLDER.rules,
        assignments_clear_elr=False,
        reassignment_awaits_all_replicas=False,
        has_cordoned_directories=True,
        names_both_levels_of_downgrade=True,
        incarnation_hash_begins_with_1=False,
        controllers_are_nodes=True,
        metrics_refuse_empty_members=True,
        remote_storage_takes_empty_policy=True,
        describes_in_java_order=True,
        describes_synonyms_of_groups=True,
    ),
    topic_configs={
        **_OLDER.topic_configs,
        "cleanup.policy": replace(_OLDER.topic_configs["cleanup.policy"], is_set=True),
    },
    setting_names=NAMES_4_3,
    broker_lists={
        **_OLDER.broker_lists,
        "group.coordinator.rebalance.protocols": "classic,consumer,streams",
        "config.providers": "",
        "early.start.listeners": "",
        "controller.listener.names": "",
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "",
        "log.dir": DEFAULT_LOG_DIR,
        "log.dirs": "",
        "cordoned.log.dirs": "",
    },
    broker_defaults=DEFAULTS,
    group_configs=by_name(_GROUP_CONFIGS),
    group_bounds=(
        *(*bounds_of_kind("consumer"), bounds("consumer", _ASSIGNMENT, 0, 15000)),
        *(*bounds_of_kind("share"), k4_1_2.LOCKS),
        bounds("share", "delivery.count.limit", 2, 10),
        bounds("share", "partition.max.record.locks", 100, 4000),
        bounds("share", _ASSIGNMENT, 0, 15000),
        *(*bounds_of_kind("streams"), k4_1_2.STANDBYS, bounds("streams", _ASSIGNMENT, 0, 15000)),
    ),
)
