"""The state behind a recorded story of a real KRaft controller: Kafka's JSON records replayed into plain dicts."""

from collections.abc import Collection
from typing import Any, Final

import numpy as np

from kcore.metadata.metadata_version import MetadataVersion
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import RESERVED
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.kraft_changes import KraftSettings, Setting
from kcore.replication.levels import Level
from kcore.types import Uuid
from reference import partition_change as twin
from replication.kraft_tables import Partition, kraft_table

Record = dict[str, Any]
Key = tuple[str, int]  # Topic id and partition index.
TOPIC, BROKER = 2, 4  # ConfigResource.Type
CHANGE_FIELDS: Final = {
    "isr": "isr",
    "leader": "leader",
    "replicas": "replicas",
    "removingReplicas": "removing",
    "addingReplicas": "adding",
    "leaderRecoveryState": "recovery",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
}


class StoryState:
    """The input of decisions, brokers and directories by their names in the story."""

    def __init__(self, story: Record) -> None:
        self.story = story
        self.topics: dict[str, str] = {}
        self.partitions: dict[Key, Partition] = {}
        self.brokers: dict[int, Record] = {}
        self.features: dict[str, int] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.directories = {uuid: row for row, uuid in enumerate(RESERVED)}

    def directory(self, uuid: str) -> int:
        """Its row in the tables made here."""
        return self.directories.setdefault(Uuid(uuid), len(self.directories))

    def apply(self, kind: str, record: Record) -> None:
        """One record of the log, by the name of its class."""
        if handler := getattr(self, f"_on_{kind}", None):
            handler(record)

    def _on_FeatureLevelRecord(self, record: Record) -> None:
        self.features[record["name"]] = record["featureLevel"]

    def _on_TopicRecord(self, record: Record) -> None:
        self.topics[record["topicId"]] = record["name"]

    def _on_RemoveTopicRecord(self, record: Record) -> None:
        gone = record["topicId"]
        self.configs.pop((TOPIC, self.topics.pop(gone)), None)
        self.partitions = {key: p for key, p in self.partitions.items() if key[0] != gone}

    def _on_PartitionRecord(self, record: Record) -> None:
        directories = record.get("directories") or [str(RESERVED[0])] * len(record["replicas"])
        self.partitions[record["topicId"], record["partitionId"]] = {
            **{ours: record.get(theirs) or [] for theirs, ours in CHANGE_FIELDS.items()},
            "leader": record["leader"],
            "recovery": record.get("leaderRecoveryState", 0),
            "leader_epoch": record["leaderEpoch"],
            "partition_epoch": record["partitionEpoch"],
            "directories": [self.directory(each) for each in directories],
        }

    def _on_PartitionChangeRecord(self, record: Record) -> None:
        key = record["topicId"], record["partitionId"]
        self.partitions[key] = twin.after(self.partitions[key], self.change(record))

    def change(self, record: Record) -> Partition:
        """The fields that a PartitionChangeRecord names."""
        named = {ours: record[theirs] for theirs, ours in CHANGE_FIELDS.items() if record.get(theirs) is not None}
        if record.get("directories") is not None:
            named["directories"] = [self.directory(each) for each in record["directories"]]
        return named

    def _on_ClearElrRecord(self, record: Record) -> None:
        for (topic, index), p in self.partitions.items():
            if record["topicName"] in ("", self.topics[topic]) and (p["elr"] or p["last_known_elr"]):
                self.partitions[topic, index] = twin.after(p, {"elr": [], "last_known_elr": []})

    def _on_RegisterBrokerRecord(self, record: Record) -> None:
        self.brokers[record["brokerId"]] = {
            "epoch": record["brokerEpoch"],
            "incarnation_id": Uuid(record["incarnationId"]),
            "rack": record.get("rack"),
            "fenced": record.get("fenced", True),
            "in_controlled_shutdown": record.get("inControlledShutdown", False),
            "directories": [self.directory(each) for each in record.get("logDirs") or []],
            "cordoned_directories": self._cordoned(record),
        }

    def _cordoned(self, record: Record) -> list[int] | None:
        cordoned = record.get("cordonedLogDirs")
        return None if cordoned is None else [self.directory(each) for each in cordoned]

    def _on_UnregisterBrokerRecord(self, record: Record) -> None:
        del self.brokers[record["brokerId"]]

    def _on_BrokerRegistrationChangeRecord(self, record: Record) -> None:
        broker = self.brokers[record["brokerId"]]
        if record.get("fenced", 0):
            broker["fenced"] = record["fenced"] == 1
        broker["in_controlled_shutdown"] |= record.get("inControlledShutdown", 0) == 1
        if record.get("logDirs"):
            broker["directories"] = [self.directory(each) for each in record["logDirs"]]
        if record.get("cordonedLogDirs") is not None:
            broker["cordoned_directories"] = self._cordoned(record)

    def _on_FenceBrokerRecord(self, record: Record) -> None:
        self.brokers[record["id"]]["fenced"] = True

    def _on_UnfenceBrokerRecord(self, record: Record) -> None:
        self.brokers[record["id"]]["fenced"] = False

    def _on_ConfigRecord(self, record: Record) -> None:
        settings = self.configs.setdefault((record["resourceType"], record["resourceName"]), {})
        if record["value"] is None:
            settings.pop(record["name"], None)
        else:
            settings[record["name"]] = record["value"]

    def topic_setting(self, topic: str, name: str, default: str) -> str:
        """Resolved as by the controller: the topic, the controller itself, all brokers, its properties file."""
        for resource in ((TOPIC, topic), (BROKER, str(self.story["controllerId"])), (BROKER, "")):
            if name in self.configs.get(resource, {}):
                return self.configs[resource][name]
        return str(self.story["config"].get(name, default))

    def keys(self) -> list[Key]:
        """The partitions in the order of the table's rows."""
        return sorted(self.partitions)

    def broker_table(self, named: Collection[int] = ()) -> BrokerTable:
        """The registered brokers, and rows for those that are only named."""
        ids = sorted({*self.brokers, *named} - {-1})
        brokers = BrokerTable.from_arrays(np.array(ids, np.int32), live=np.zeros(len(ids), np.bool_))
        uuids = list(self.directories)
        brokers.directory_table.name(uuids)
        for broker, known in self.brokers.items():
            lists = {
                name: None if known[name] is None else tuple(uuids[row] for row in known[name])
                for name in ("directories", "cordoned_directories")
            }
            brokers.put(BrokerRegistration(broker, **(known | lists)))
        return brokers

    def table(self) -> PartitionTable:
        """The partitions and brokers as a table."""
        topics = sorted({topic for topic, _ in self.partitions})
        partitions = [
            self.partitions[topic, index] | {"topic": topics.index(topic), "index": index}
            for topic, index in self.keys()
        ]
        named = {b for p in partitions for name in ("replicas", "isr", "elr", "last_known_elr") for b in p[name]}
        return kraft_table(partitions, self.broker_table(named))

    def settings(self) -> KraftSettings:
        """The finalized levels and the topics' settings."""
        release, config = self.story["release"], self.story["config"]
        version = MetadataVersion.of_level(self.features["metadata.version"], release)
        elr = self.features.get("eligible.leader.replicas.version", 0) >= 1
        if release == "3.9.1":
            elr = version.elr_supported and config.get("eligible.leader.replicas.enable") == "true"
        names = [self.topics[topic] for topic in sorted({topic for topic, _ in self.partitions})]
        unclean = [self.topic_setting(name, "unclean.leader.election.enable", "false") == "true" for name in names]
        min_isr = [int(self.topic_setting(name, "min.insync.replicas", "1")) for name in names]
        return KraftSettings(
            Level(False, release, version.name),
            elr_enabled=elr,
            unclean=Setting.by_topic(np.array(unclean, np.uint8)),
            min_isr=Setting.by_topic(np.array(min_isr, np.int32)),
        )
