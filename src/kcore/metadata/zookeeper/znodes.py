"""The paths of Kafka's znodes, and encoders and decoders of their data, byte for byte as 3.9.1 writes it.

Decoders raise TableError with the path for data that Kafka would not write. `znode_states` encodes states of many
partitions, `znode_brokers` registrations. Source: kafka.zk.ZkData.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kcore.constants import RECOVERED, RECOVERING
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper.znode_json import (
    Fields,
    encode_json,
    fault,
    immutable_order,
    mutable_order,
    parse_integer,
    properties_order,
)
from kcore.types import Uuid

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE_ID: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
CONSUMERS: Final = "/consumers"
CLUSTER_ID: Final = "/cluster/id"
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"

CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")

# The znodes that every broker creates when it starts, in this order (ZkData.PersistentZkPaths).
PERSISTENT_PATHS: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    *(f"{CONFIG}/{entity_type}" for entity_type in CONFIG_TYPES),
)


def broker_path(broker_id: int) -> str:
    """The path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """The path of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The path of the znode above a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """The path of the znode above a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """The path of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(entity_type: str, entity_name: str) -> str:
    """The path of an entity's settings; `entity_type` is one of CONFIG_TYPES."""
    return f"{CONFIG}/{entity_type}/{entity_name}"


def delete_topic_path(topic: str) -> str:
    """The path of the request to delete a topic."""
    return f"{DELETE_TOPICS}/{topic}"


class Controller(NamedTuple):
    """The content of /controller."""

    broker_id: int
    kraft_controller_epoch: int | None  # None: written before 3.4; -1: not a KRaft controller


def encode_controller(broker_id: int, timestamp_ms: int, kraft_controller_epoch: int = -1) -> bytes:
    """The data of /controller (ControllerZNode)."""
    return encode_json(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": kraft_controller_epoch,
        }
    )


def decode_controller(data: bytes) -> Controller:
    """The content of /controller (ControllerZNode)."""
    fields = Fields.of(CONTROLLER, data)
    return Controller(fields.integer("brokerid"), fields.integer("kraftControllerEpoch", None))


def encode_controller_epoch(epoch: int) -> bytes:
    """The data of /controller_epoch (ControllerEpochZNode)."""
    return b"%d" % epoch


def decode_controller_epoch(data: bytes) -> int:
    """The controller epoch in /controller_epoch (ControllerEpochZNode)."""
    return parse_integer(CONTROLLER_EPOCH, data.decode(errors="replace"))


class TopicAssignment(NamedTuple):
    """The content of /brokers/topics/<topic>: the topic's id, and replicas by partition index."""

    topic_id: Uuid | None  # None before KIP-516
    partitions: dict[int, ReplicaAssignment]


def encode_topic(assignment: TopicAssignment) -> bytes:
    """The data of a topic's znode, in version 3 (TopicZNode)."""
    by_text = {str(partition): replicas for partition, replicas in assignment.partitions.items()}
    adding = mutable_order(text for text, replicas in by_text.items() if replicas.adding_replicas)
    removing = mutable_order(text for text, replicas in by_text.items() if replicas.removing_replicas)
    return encode_json(
        {
            "partitions": {text: by_text[text].replicas for text in mutable_order(by_text)},
            **({} if assignment.topic_id is None else {"topic_id": str(assignment.topic_id)}),
            "adding_replicas": {text: by_text[text].adding_replicas for text in adding},
            "removing_replicas": {text: by_text[text].removing_replicas for text in removing},
            "version": 3,
        }
    )


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    """The content of a topic's znode of any version, partitions ascending (TopicZNode)."""
    path = topic_path(topic)
    fields = Fields.of(path, data)
    partitions, adding, removing = (
        fields.object(name, {}) for name in ("partitions", "adding_replicas", "removing_replicas")
    )
    found = {
        parse_integer(path, text): ReplicaAssignment(
            partitions.integers(text), adding.integers(text, ()), removing.integers(text, ())
        )
        for text in partitions
    }
    return TopicAssignment(_topic_id(path, fields), dict(sorted(found.items())))


def _topic_id(path: str, fields: Fields) -> Uuid | None:
    text = fields.text("topic_id", None)
    try:
        return None if text is None else Uuid(text)
    except ValueError as error:
        raise fault(path, f"topic_id {text[:40]!r}") from error


class PartitionStateNode(NamedTuple):
    """The content of a partition's state znode, `state_path`; the znode's version is the partition epoch."""

    leader: int  # -1 for none
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = RECOVERED


def encode_state(state: PartitionStateNode) -> bytes:
    """The data of a state znode; the recovery state is left out if it is RECOVERED (TopicPartitionStateZNode)."""
    recovering = {"leader_recovery_state": state.leader_recovery_state} if state.leader_recovery_state else {}
    return encode_json(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            **recovering,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


def decode_state(path: str, data: bytes) -> PartitionStateNode:
    """The content of a state znode (TopicPartitionStateZNode)."""
    fields = Fields.of(path, data)
    recovery = fields.integer("leader_recovery_state", RECOVERED)
    if recovery not in (RECOVERED, RECOVERING):
        raise fault(path, f"leader_recovery_state {recovery}")
    return PartitionStateNode(
        fields.integer("leader"),
        fields.integer("leader_epoch"),
        fields.integers("isr"),
        fields.integer("controller_epoch"),
        recovery,
    )


def encode_config(config: Mapping[str, str]) -> bytes:
    """The data of the znode of an entity's settings (ConfigEntityZNode)."""
    return encode_json({"version": 1, "config": {name: config[name] for name in properties_order(config)}})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """An entity's settings; a znode without data or without `config` has none (ConfigEntityZNode)."""
    config = Fields.of(path, data or b"{}").object("config", {})
    return {name: config.text(name) for name in config}


def encode_config_change(entity_path: str) -> bytes:
    """A notification of changed settings. `entity_path` is, for example, topics/<topic>.

    Source: ConfigEntityChangeNotificationSequenceZNode.
    """
    return encode_json({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """The entity's path under /config, in either version (ZkConfigManager.ConfigChangedNotificationHandler)."""
    fields = Fields.of(path, data)
    version = fields.integer("version")
    if version not in (1, 2):
        raise fault(path, f"version {version}")
    names = ("entity_path",) if version == 2 else ("entity_type", "entity_name")
    return "/".join(map(fields.text, names))


TopicPartition = tuple[str, int]


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """A notification that the ISRs of these partitions changed (IsrChangeNotificationSequenceZNode)."""
    return _encode_partitions(partitions)


def decode_isr_change(path: str, data: bytes) -> list[TopicPartition]:
    """The partitions in a notification of changed ISRs (IsrChangeNotificationSequenceZNode)."""
    return _decode_partitions(path, data)


def decode_preferred_replica_election(data: bytes) -> list[TopicPartition]:
    """The partitions in /admin/preferred_replica_election (PreferredReplicaElectionZNode)."""
    return _decode_partitions(PREFERRED_REPLICA_ELECTION, data)


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode_json({"version": 1, "partitions": listed})


def _decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    listed = [(each.text("topic"), each.integer("partition")) for each in Fields.of(path, data).objects("partitions")]
    return list(dict.fromkeys(listed))


def encode_log_dir_event(broker_id: int) -> bytes:
    """A notification that a log directory of the broker failed (LogDirEventNotificationSequenceZNode)."""
    return encode_json({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> int:
    """The id of the broker whose log directory failed (LogDirEventNotificationSequenceZNode)."""
    broker_id: int = Fields.of(path, data).integer("broker")
    return broker_id


def encode_reassign_partitions(replicas: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    """The data of /admin/reassign_partitions (ReassignPartitionsZNode)."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(brokers)}
        for (topic, partition), brokers in replicas.items()
    ]
    return encode_json({"version": 1, "partitions": partitions})


def decode_reassign_partitions(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """The target replicas by partition; if a partition is named twice, the last counts (ReassignPartitionsZNode)."""
    listed = Fields.of(REASSIGN_PARTITIONS, data).objects("partitions")
    return {(each.text("topic"), each.integer("partition")): each.integers("replicas") for each in listed}


class ProducerIdsBlock(NamedTuple):
    """The content of /latest_producer_id_block: the last allocated block of producer ids, and its broker."""

    broker_id: int
    first_producer_id: int
    last_producer_id: int


def encode_producer_id_block(block: ProducerIdsBlock) -> bytes:
    """The data of /latest_producer_id_block (ProducerIdBlockZNode)."""
    return encode_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first_producer_id),
            "block_end": str(block.last_producer_id),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdsBlock | None:
    """The last allocated block; None if no block is allocated yet (ProducerIdBlockZNode)."""
    if not data:
        return None
    fields = Fields.of(LATEST_PRODUCER_ID_BLOCK, data)
    first, last = fields.number_in_text("block_start"), fields.number_in_text("block_end")
    return ProducerIdsBlock(fields.integer("broker"), first, last)


def encode_cluster_id(cluster_id: str) -> bytes:
    """The data of /cluster/id (ClusterIdZNode)."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """The cluster id in /cluster/id (ClusterIdZNode)."""
    cluster_id: str = Fields.of(CLUSTER_ID, data).text("id")
    return cluster_id


class Feature(NamedTuple):
    """The content of /feature: finalized features (KIP-584)."""

    enabled: bool
    features: dict[str, int]  # the highest level of each
    version: int = 2  # 1 below metadata version 3.3-IV0


def encode_feature(feature: Feature) -> bytes:
    """The data of /feature (FeatureZNode)."""
    keys = ("max_version_level", "min_version_level")[: 1 if feature.version == 2 else 2]
    levels = {name: dict.fromkeys(keys, feature.features[name]) for name in immutable_order(feature.features)}
    return encode_json({"features": levels, "version": feature.version, "status": int(feature.enabled)})


def decode_feature(data: bytes) -> Feature:
    """The content of /feature (FeatureZNode)."""
    fields = Fields.of(FEATURE, data)
    version, status = fields.integer("version"), fields.integer("status")
    if version not in (1, 2) or status not in (0, 1):
        raise fault(FEATURE, f"version {version}, status {status}")
    features = fields.object("features")
    levels = {name: _level(features.object(name), version) for name in features}
    return Feature(bool(status), levels, version)


def _level(levels: Fields, version: int) -> int:
    highest: int = levels.integer("max_version_level", bits=16)
    if not 1 <= (levels.integer("min_version_level", bits=16) if version == 1 else 1) <= highest:
        raise fault(FEATURE, f"levels {levels.values}")
    return highest


class Migration(NamedTuple):
    """The content of /migration: the progress of the migration to KRaft (KIP-866)."""

    kraft_controller_id: int
    kraft_controller_epoch: int
    kraft_metadata_offset: int
    kraft_metadata_epoch: int


def decode_migration(data: bytes) -> Migration:
    """The content of /migration (MigrationZNode)."""
    fields = Fields.of(MIGRATION, data)
    if (version := fields.integer("version")) != 0:
        raise fault(MIGRATION, f"version {version}")
    return Migration(*(fields.integer(name, bits=64 if "offset" in name else 32) for name in Migration._fields))
