"""Kafka 3.9.1: the last release with ZooKeeper mode, and the oldest whose rules kcore has."""

from typing import Final

from kcore.constants import INT64_MAX, KRAFT_VERSION
from kcore.releases.release import Release
from kcore.releases.rules import Rules
from kcore.releases.setting_names import NAMES_3_9
from kcore.releases.settings import TopicConfig, by_name
from kcore.schema.configs import ConfigType

_VERSIONS: Final = (
    *("2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0"),
    *("2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "2.8-IV1", "3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0"),
    *("3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2"),
    *("3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1"),
)
CHANGED_UP_TO_3_9: Final = frozenset(
    {
        *("3.0-IV1", "3.2-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
        *("3.5-IV2", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV2"),
    }
)
_APIS: Final = {
    "AddRaftVoter": (0, 0),
    "AllocateProducerIds": (0, 0),
    "AlterClientQuotas": (0, 1),
    "AlterConfigs": (0, 2),
    "AlterPartition": (0, 3),
    "AlterPartitionReassignments": (0, 0),
    "AlterUserScramCredentials": (0, 0),
    "ApiVersions": (0, 4),
    "AssignReplicasToDirs": (0, 0),
    "BeginQuorumEpoch": (0, 1),
    "BrokerHeartbeat": (0, 1),
    "BrokerRegistration": (0, 4),
    "ControlledShutdown": (0, 3),
    "ControllerRegistration": (0, 0),
    "CreateAcls": (0, 3),
    "CreateDelegationToken": (0, 3),
    "CreatePartitions": (0, 3),
    "CreateTopics": (0, 7),
    "DeleteAcls": (0, 3),
    "DeleteTopics": (0, 6),
    "DescribeAcls": (0, 3),
    "DescribeCluster": (0, 1),
    "DescribeConfigs": (0, 4),
    "DescribeDelegationToken": (0, 3),
    "DescribeQuorum": (0, 2),
    "DescribeUserScramCredentials": (0, 0),
    "ElectLeaders": (0, 2),
    "EndQuorumEpoch": (0, 1),
    "Envelope": (0, 0),
    "ExpireDelegationToken": (0, 2),
    "Fetch": (0, 17),
    "FetchSnapshot": (0, 1),
    "IncrementalAlterConfigs": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "RemoveRaftVoter": (0, 0),
    "RenewDelegationToken": (0, 2),
    "SaslAuthenticate": (0, 2),
    "SaslHandshake": (0, 1),
    "UnregisterBroker": (0, 0),
    "UpdateFeatures": (0, 1),
    "UpdateRaftVoter": (0, 0),
    "Vote": (0, 1),
}

_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST = ConfigType.DOUBLE, ConfigType.LIST
_MOST: Final = str(INT64_MAX)
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TOPIC_CONFIGS: Final = (
    TopicConfig("segment.bytes", _INT, "1073741824", 14, server="log.segment.bytes"),
    TopicConfig("segment.ms", _LONG, "604800000", 1, server="log.roll.ms", server_default=False),
    TopicConfig("segment.jitter.ms", _LONG, "0", 0, server="log.roll.jitter.ms", server_default=False),
    TopicConfig("segment.index.bytes", _INT, "10485760", 4, server="log.index.size.max.bytes"),
    TopicConfig("flush.messages", _LONG, _MOST, 1, server="log.flush.interval.messages"),
    TopicConfig("flush.ms", _LONG, _MOST, 0, server="log.flush.interval.ms", server_default=False),
    TopicConfig("retention.bytes", _LONG, "-1", server="log.retention.bytes"),
    TopicConfig("retention.ms", _LONG, "604800000", -1, server="log.retention.ms", server_default=False),
    TopicConfig("max.message.bytes", _INT, "1048588", 0, server="message.max.bytes"),
    TopicConfig("index.interval.bytes", _INT, "4096", 0, server="log.index.interval.bytes"),
    TopicConfig("delete.retention.ms", _LONG, "86400000", 0, server="log.cleaner.delete.retention.ms"),
    TopicConfig("min.compaction.lag.ms", _LONG, "0", 0, server="log.cleaner.min.compaction.lag.ms"),
    TopicConfig("max.compaction.lag.ms", _LONG, _MOST, 1, server="log.cleaner.max.compaction.lag.ms"),
    TopicConfig("file.delete.delay.ms", _LONG, "60000", 0, server="log.segment.delete.delay.ms"),
    TopicConfig("min.cleanable.dirty.ratio", _DOUBLE, "0.5", 0, 1, server="log.cleaner.min.cleanable.ratio"),
    TopicConfig("cleanup.policy", _LIST, "delete", among=("compact", "delete"), server="log.cleanup.policy"),
    TopicConfig("unclean.leader.election.enable", _BOOLEAN, "false", server="unclean.leader.election.enable"),
    TopicConfig("min.insync.replicas", _INT, "1", 1, server="min.insync.replicas"),
    TopicConfig("compression.type", _STRING, "producer", among=_CODECS, server="compression.type"),
    # -1 is valid for gzip too (`_integer`).
    TopicConfig("compression.gzip.level", _INT, "-1", 1, 9, server="compression.gzip.level"),
    TopicConfig("compression.lz4.level", _INT, "9", 1, 17, server="compression.lz4.level"),
    TopicConfig("compression.zstd.level", _INT, "3", -131072, 22, server="compression.zstd.level"),
    TopicConfig("preallocate", _BOOLEAN, "false", server="log.preallocate"),
    TopicConfig("message.format.version", _STRING, "3.0-IV1", server="log.message.format.version"),
    TopicConfig(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        among=("CreateTime", "LogAppendTime"),
        server="log.message.timestamp.type",
    ),
    TopicConfig(
        "message.timestamp.difference.max.ms", _LONG, _MOST, 0, server="log.message.timestamp.difference.max.ms"
    ),
    TopicConfig("message.timestamp.before.max.ms", _LONG, _MOST, 0, server="log.message.timestamp.before.max.ms"),
    TopicConfig("message.timestamp.after.max.ms", _LONG, _MOST, 0, server="log.message.timestamp.after.max.ms"),
    TopicConfig("leader.replication.throttled.replicas", _LIST, ""),
    TopicConfig("follower.replication.throttled.replicas", _LIST, ""),
    TopicConfig("message.downconversion.enable", _BOOLEAN, "true", server="log.message.downconversion.enable"),
    TopicConfig("remote.storage.enable", _BOOLEAN, "false"),
    TopicConfig("local.retention.ms", _LONG, "-2", -2, server="log.local.retention.ms"),
    TopicConfig("local.retention.bytes", _LONG, "-2", -2, server="log.local.retention.bytes"),
    TopicConfig("remote.log.copy.disable", _BOOLEAN, "false"),
    TopicConfig("remote.log.delete.on.disable", _BOOLEAN, "false"),
)

_SSL: Final = "TLSv1.2,TLSv1.3"
_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor."
_BROKER_LISTS: Final = {
    "process.roles": "",
    "log.cleanup.policy": "delete",
    "controller.quorum.voters": "",
    "controller.quorum.bootstrap.servers": "",
    "kafka.metrics.reporters": "",
    "ssl.enabled.protocols": _SSL,
    "ssl.cipher.suites": "",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.oauthbearer.expected.audience": "",
    "group.coordinator.rebalance.protocols": "classic",
    "group.consumer.assignors": f"{_ASSIGNOR}UniformAssignor,{_ASSIGNOR}RangeAssignor",
    "metric.reporters": "",
    "zookeeper.ssl.enabled.protocols": "",
    "zookeeper.ssl.cipher.suites": "",
}

RELEASE: Final = Release(
    "3.9.1",
    version_names=_VERSIONS,
    oldest_version="3.0-IV1",
    default_version="3.9-IV0",
    changed_metadata=CHANGED_UP_TO_3_9 | {"4.0-IV0"},
    features={KRAFT_VERSION: (0, 1)},
    features_since={},
    known_features={},
    apis=_APIS,
    raft_level="3.9",
    rules=Rules(
        elr_since="4.0-IV0",  # 4.0 moved ELR one level up before it shipped.
        migrates_from_zookeeper=True,
        levels_may_be_unnamed=True,
        knows_no_clean_shutdown=True,
        elects_dead_last_known_leader=True,
        last_known_leader_of_empty_isr=True,
        assignments_clear_elr=True,
        reassignment_awaits_all_replicas=True,
        kraft_version_is_a_feature=True,
        only_unfenced_brokers_have_sessions=True,
        runs_tasks_when_needed=True,
        registration_is_atomic=True,
        advertised_listeners_are_dynamic=True,
        logger_error_names_own_id_twice=True,
        describes_raw_client_metrics=True,
    ),
    topic_configs=by_name(_TOPIC_CONFIGS),
    setting_names=NAMES_3_9,
    broker_lists=_BROKER_LISTS,
    broker_defaults={},
    group_configs={},
    group_bounds=(),
)
