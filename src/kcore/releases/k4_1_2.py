"""Kafka 4.1.2: what it changed since 3.9.1. 4.0 removed ZooKeeper mode."""

from dataclasses import replace
from typing import Final

from kcore.constants import ELR_VERSION, GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION
from kcore.releases import k3_9_1
from kcore.releases.setting_names import NAMES_4_1
from kcore.releases.settings import GroupBounds, TopicConfig, bounds, bounds_of_kind, by_name, numbers
from kcore.schema.configs import ConfigType

_OLDER: Final = k3_9_1.RELEASE
_REMOVED_APIS: Final = {"ControlledShutdown"}
_APIS: Final = {  # 4.0 removed the oldest versions (KIP-896).
    "AlterPartition": (2, 3),
    "AlterPartitionReassignments": (0, 1),
    "CreateAcls": (1, 3),
    "CreateDelegationToken": (1, 3),
    "CreateTopics": (2, 7),
    "DeleteAcls": (1, 3),
    "DeleteTopics": (1, 6),
    "DescribeAcls": (1, 3),
    "DescribeCluster": (0, 2),
    "DescribeConfigs": (1, 4),
    "DescribeDelegationToken": (1, 3),
    "ExpireDelegationToken": (1, 2),
    "Fetch": (4, 18),
    "RenewDelegationToken": (1, 2),
    "UpdateFeatures": (0, 2),
    "Vote": (0, 2),
}

_REMOVED_TOPIC_CONFIGS: Final = {
    "message.format.version",
    "message.timestamp.difference.max.ms",
    "message.downconversion.enable",
}
_TOPIC_CONFIGS: Final = (
    replace(_OLDER.topic_configs["segment.bytes"], at_least=1024 * 1024),
    replace(_OLDER.topic_configs["message.timestamp.after.max.ms"], default="3600000"),
    TopicConfig("internal.segment.bytes", ConfigType.INT, "", is_internal=True),
)
_REMOVED_LISTS: Final = {"zookeeper.ssl.enabled.protocols", "zookeeper.ssl.cipher.suites"}
_BROKER_LISTS: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignors": "uniform,range",
    "group.share.assignors": "simple",
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
}

# Groups (KIP-848, KIP-932, KIP-1071).
_OFFSET_RESET: Final = TopicConfig("share.auto.offset.reset", ConfigType.STRING, "latest")
_ISOLATION: Final = TopicConfig(
    "share.isolation.level", ConfigType.STRING, "read_uncommitted", among=("read_committed", "read_uncommitted")
)
_GROUP_CONFIGS: Final = (
    *numbers(
        "consumer.session.timeout.ms 45000 1\n"
        "consumer.heartbeat.interval.ms 5000 1\n"
        "share.session.timeout.ms 45000 1\n"
        "share.heartbeat.interval.ms 5000 1\n"
        "share.record.lock.duration.ms 30000 1000"
    ),
    _OFFSET_RESET,
    _ISOLATION,
    *numbers(
        "streams.session.timeout.ms 45000 1\nstreams.heartbeat.interval.ms 5000 1\nstreams.num.standby.replicas 0 0"
    ),
)
LOCKS: Final = bounds("share", "record.lock.duration.ms", 15000, 60000)
STANDBYS: Final = GroupBounds("streams.num.standby.replicas", "", 0, "group.streams.max.standby.replicas", 2)

RELEASE: Final = replace(
    _OLDER,
    name="4.1.2",
    version_names=(
        *_OLDER.version_names,
        *("4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1"),
    ),
    oldest_version="3.3-IV3",
    default_version="4.1-IV1",
    changed_metadata=k3_9_1.CHANGED_UP_TO_3_9 | {"4.0-IV1"},
    features={
        **_OLDER.features,
        ELR_VERSION: (0, 1),
        GROUP_VERSION: (0, 1),
        SHARE_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
    },
    features_since={  # FeatureVersion.bootstrapMetadataVersion.
        ELR_VERSION: ["4.1-IV0"],
        GROUP_VERSION: ["4.0-IV0"],
        SHARE_VERSION: ["4.2-IV0"],
        TRANSACTION_VERSION: ["4.0-IV2", "4.0-IV2"],
    },
    known_features={ELR_VERSION: 1, GROUP_VERSION: 1, SHARE_VERSION: 1, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2},
    apis={name: each for name, each in _OLDER.apis.items() if name not in _REMOVED_APIS} | _APIS,
    raft_level="4.3",
    rules=replace(
        _OLDER.rules,
        elr_since="4.0-IV1",
        migrates_from_zookeeper=False,
        levels_may_be_unnamed=False,
        elr_is_a_feature=True,
        knows_no_clean_shutdown=False,
        elects_dead_last_known_leader=False,
        last_known_leader_of_empty_isr=False,
        kraft_version_is_a_feature=False,
        updates_features_together=True,
        features_have_dependencies=True,
        only_unfenced_brokers_have_sessions=False,
        runs_tasks_when_needed=False,
        incarnation_hash_begins_with_1=True,
        registration_is_atomic=False,
        unregistration_has_message=True,
        limits_length_of_values=True,
        remote_storage_needs_delete_policy=True,
        advertised_listeners_are_dynamic=False,
        logger_error_names_own_id_twice=False,
        describes_raw_client_metrics=False,
        has_two_phase_commit_operation=True,
    ),
    topic_configs={name: each for name, each in _OLDER.topic_configs.items() if name not in _REMOVED_TOPIC_CONFIGS}
    | by_name(_TOPIC_CONFIGS),
    setting_names=NAMES_4_1,
    broker_lists={name: each for name, each in _OLDER.broker_lists.items() if name not in _REMOVED_LISTS}
    | _BROKER_LISTS,
    group_configs=by_name(_GROUP_CONFIGS),
    group_bounds=(
        *(*bounds_of_kind("consumer"), *bounds_of_kind("share"), LOCKS),
        *(*bounds_of_kind("streams"), STANDBYS),
    ),
)
