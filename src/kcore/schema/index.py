"""Lists all messages and their files. A file is imported when one of its messages is first used."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Final, TypeVar, cast

from kcore.errors import UnknownMessageError
from kcore.schema.structure import Message
from kcore.suggestions import did_you_mean

# By file of a family: API key and name. Each API has the classes <name>Request and <name>Response.
APIS: Final[dict[str, dict[int, str]]] = {
    # ZooKeeper mode: removed in 4.0.
    "leader_and_isr": {4: "LeaderAndIsr"},
    "stop_replica": {5: "StopReplica"},
    "update_metadata": {6: "UpdateMetadata"},
    "controlled_shutdown": {7: "ControlledShutdown"},
    # Clients, groups and transactions.
    "produce": {0: "Produce"},
    "fetch": {1: "Fetch"},
    "fetch_snapshot": {59: "FetchSnapshot"},
    "list_offsets": {2: "ListOffsets", 23: "OffsetForLeaderEpoch"},
    "cluster_metadata": {3: "Metadata", 60: "DescribeCluster", 75: "DescribeTopicPartitions"},
    "committed_offsets": {8: "OffsetCommit", 9: "OffsetFetch", 47: "OffsetDelete"},
    "find_coordinator": {10: "FindCoordinator"},
    "classic_groups": {11: "JoinGroup", 14: "SyncGroup", 12: "Heartbeat", 13: "LeaveGroup"},
    "group_listing": {15: "DescribeGroups", 16: "ListGroups", 42: "DeleteGroups"},
    "consumer_groups": {68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe"},
    "share_groups": {76: "ShareGroupHeartbeat", 77: "ShareGroupDescribe"},
    "share_fetch": {78: "ShareFetch", 79: "ShareAcknowledge"},
    "share_state": {
        83: "InitializeShareGroupState",
        84: "ReadShareGroupState",
        85: "WriteShareGroupState",
        86: "DeleteShareGroupState",
        87: "ReadShareGroupStateSummary",
    },
    "share_offsets": {90: "DescribeShareGroupOffsets", 91: "AlterShareGroupOffsets", 92: "DeleteShareGroupOffsets"},
    "streams_groups": {
        88: "StreamsGroupHeartbeat",
        89: "StreamsGroupDescribe",
        93: "StreamsGroupTopologyDescriptionUpdate",
    },
    "transactions": {
        22: "InitProducerId",
        24: "AddPartitionsToTxn",
        25: "AddOffsetsToTxn",
        26: "EndTxn",
        27: "WriteTxnMarkers",
        28: "TxnOffsetCommit",
    },
    "producers": {
        67: "AllocateProducerIds",
        61: "DescribeProducers",
        65: "DescribeTransactions",
        66: "ListTransactions",
    },
    # Authentication and authorization.
    "sasl": {17: "SaslHandshake", 36: "SaslAuthenticate"},
    "scram": {50: "DescribeUserScramCredentials", 51: "AlterUserScramCredentials"},
    "delegation_tokens": {
        38: "CreateDelegationToken",
        39: "RenewDelegationToken",
        40: "ExpireDelegationToken",
        41: "DescribeDelegationToken",
    },
    "acls": {29: "DescribeAcls", 30: "CreateAcls", 31: "DeleteAcls"},
    "telemetry": {71: "GetTelemetrySubscriptions", 72: "PushTelemetry", 74: "ListClientMetricsResources"},
    # 4.1 extended API 74 and renamed it (KIP-1142): this later entry is the present meaning of the number.
    "configs": {32: "DescribeConfigs", 33: "AlterConfigs", 44: "IncrementalAlterConfigs", 74: "ListConfigResources"},
    "quotas": {48: "DescribeClientQuotas", 49: "AlterClientQuotas"},
    # Topics and partitions.
    "topics": {19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords"},
    "partitions": {
        37: "CreatePartitions",
        43: "ElectLeaders",
        45: "AlterPartitionReassignments",
        46: "ListPartitionReassignments",
    },
    "alter_partition": {56: "AlterPartition"},
    "log_dirs": {34: "AlterReplicaLogDirs", 35: "DescribeLogDirs", 73: "AssignReplicasToDirs"},
    # The controllers' quorum.
    "raft_votes": {52: "Vote", 53: "BeginQuorumEpoch", 54: "EndQuorumEpoch"},
    "raft_voters": {80: "AddRaftVoter", 81: "RemoveRaftVoter", 82: "UpdateRaftVoter"},
    "describe_quorum": {55: "DescribeQuorum"},
    # Brokers and controllers.
    "broker_lifecycle": {
        62: "BrokerRegistration",
        63: "BrokerHeartbeat",
        64: "UnregisterBroker",
        70: "ControllerRegistration",
        94: "UnregisterController",
    },
    "api_versions": {18: "ApiVersions"},
    "update_features": {57: "UpdateFeatures"},
    "envelope": {58: "Envelope"},
}

# The records of the metadata log, by file and type number.
METADATA_LOG: Final[dict[str, dict[int, str]]] = {
    "metadata_records_topics": {
        2: "TopicRecord",
        9: "RemoveTopicRecord",
        3: "PartitionRecord",
        5: "PartitionChangeRecord",
        28: "ClearElrRecord",
    },
    "metadata_records_brokers": {
        0: "RegisterBrokerRecord",
        1: "UnregisterBrokerRecord",
        7: "FenceBrokerRecord",
        8: "UnfenceBrokerRecord",
        17: "BrokerRegistrationChangeRecord",
        27: "RegisterControllerRecord",
        29: "UnregisterControllerRecord",
    },
    "metadata_records_security": {
        18: "AccessControlEntryRecord",
        19: "RemoveAccessControlEntryRecord",
        11: "UserScramCredentialRecord",
        22: "RemoveUserScramCredentialRecord",
        10: "DelegationTokenRecord",
        26: "RemoveDelegationTokenRecord",
    },
    "metadata_records_settings": {
        4: "ConfigRecord",
        14: "ClientQuotaRecord",
        12: "FeatureLevelRecord",
        15: "ProducerIdsRecord",
    },
    "metadata_records_log": {
        20: "NoOpRecord",
        23: "BeginTransactionRecord",
        24: "EndTransactionRecord",
        25: "AbortTransactionRecord",
        21: "ZkMigrationStateRecord",
    },
}

# Messages without a number, by file.
PLAIN: Final[dict[str, tuple[str, ...]]] = {
    "headers": ("RequestHeader", "ResponseHeader"),
    "control_records": (
        "ControlRecordTypeSchema",
        "EndTxnMarker",
        "LeaderChangeMessage",
        "KRaftVersionRecord",
        "VotersRecord",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
    ),
    "quorum_state": ("QuorumStateData",),
    "transaction_index": ("AbortedTxn",),
    "group_protocol": ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    "principal": ("DefaultPrincipalData",),
}

DIALECTS: Final = ("kip590",)  # Variants of messages that Kafka did not ship; each has a file of its name.

KINDS: Final = ("Request", "Response")
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    **{file: tuple(api + kind for api in apis.values() for kind in KINDS) for file, apis in APIS.items()},
    **{file: tuple(records.values()) for file, records in METADATA_LOG.items()},
    **PLAIN,
}
_FAMILY_OF: Final = {name: family for family, names in FAMILIES.items() for name in names}

Key = TypeVar("Key")


class Lazy(Mapping[Key, type[Message]]):
    """A mapping of message classes that imports a family's file when one of its classes is read."""

    def __init__(self, names: Mapping[Key, str]) -> None:
        self._names = names

    def __getitem__(self, key: Key) -> type[Message]:
        name = self._names[key]
        message: type[Message] = getattr(import_module(f"kcore.schema.{_FAMILY_OF[name]}"), name)
        return message

    def __iter__(self) -> Iterator[Key]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, key: object) -> bool:
        return key in self._names


MESSAGES: Final[Mapping[str, type[Message]]] = Lazy({name: name for name in _FAMILY_OF})
REQUESTS: Final[Mapping[int, type[Message]]] = Lazy(
    {api_key: f"{api}Request" for apis in APIS.values() for api_key, api in apis.items()}
)
METADATA_RECORDS: Final[Mapping[int, type[Message]]] = Lazy(
    {number: record for records in METADATA_LOG.values() for number, record in records.items()}
)


def message_class(name: str | type[Message], dialect: str | None = None) -> type[Message]:
    """The class of that name (or the class itself); UnknownMessageError names similar names."""
    if isinstance(name, type) and issubclass(name, Message):
        return name
    if dialect is not None and isinstance(name, str) and name in (own := dialect_module(dialect).MESSAGES):
        return cast(type[Message], own[name])
    try:
        return MESSAGES[name]
    except (KeyError, TypeError):  # An unhashable argument is not a name.
        close = did_you_mean(name, MESSAGES, "`kcore messages` lists them")
        raise UnknownMessageError(f"no message is called {name!r:.60}{close}") from None


def dialect_module(dialect: str) -> ModuleType:
    """The module of a dialect, with its `MESSAGES` by name and its function `versions`; UnknownMessageError."""
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        close = did_you_mean(dialect, DIALECTS, f"there is {', '.join(DIALECTS)}")
        raise UnknownMessageError(f"no dialect is called {dialect!r:.60}{close}")
    return import_module(f"kcore.schema.{dialect}")
