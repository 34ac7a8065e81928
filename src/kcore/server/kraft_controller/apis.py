"""The APIs and features in the ApiVersionsResponse of a controller, by release.

Source: ApiMessageType's listeners, QuorumFeatures.defaultSupportedFeatureMap.
"""

from collections.abc import Mapping
from typing import Final

from kcore.constants import (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from kcore.metadata.metadata_version import FEATURE_NAME as METADATA_VERSION
from kcore.replication.raft_log import Level

Bounds = tuple[int, int]

_OF_4_3: Final[Mapping[str, Bounds]] = {
    "AddRaftVoter": (0, 1),
    "AllocateProducerIds": (0, 0),
    "AlterClientQuotas": (0, 1),
    "AlterConfigs": (0, 2),
    "AlterPartition": (2, 3),
    "AlterPartitionReassignments": (0, 1),
    "AlterUserScramCredentials": (0, 0),
    "ApiVersions": (0, 4),
    "AssignReplicasToDirs": (0, 0),
    "BeginQuorumEpoch": (0, 1),
    "BrokerHeartbeat": (0, 2),
    "BrokerRegistration": (0, 4),
    "ControllerRegistration": (0, 0),
    "CreateAcls": (1, 3),
    "CreateDelegationToken": (1, 3),
    "CreatePartitions": (0, 3),
    "CreateTopics": (2, 7),
    "DeleteAcls": (1, 3),
    "DeleteTopics": (1, 6),
    "DescribeAcls": (1, 3),
    "DescribeCluster": (0, 2),
    "DescribeConfigs": (1, 4),
    "DescribeDelegationToken": (1, 3),
    "DescribeQuorum": (0, 2),
    "DescribeUserScramCredentials": (0, 0),
    "ElectLeaders": (0, 2),
    "EndQuorumEpoch": (0, 1),
    "Envelope": (0, 0),
    "ExpireDelegationToken": (1, 2),
    "Fetch": (4, 18),
    "FetchSnapshot": (0, 1),
    "IncrementalAlterConfigs": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "RemoveRaftVoter": (0, 0),
    "RenewDelegationToken": (1, 2),
    "SaslAuthenticate": (0, 2),
    "SaslHandshake": (0, 1),
    "UnregisterBroker": (0, 0),
    "UpdateFeatures": (0, 2),
    "UpdateRaftVoter": (0, 0),
    "Vote": (0, 2),
}
_OF_4_1: Final[Mapping[str, Bounds]] = {
    **_OF_4_3,
    "AddRaftVoter": (0, 0),
    "BrokerHeartbeat": (0, 1),
}
_OF_3_9: Final[Mapping[str, Bounds]] = {
    **{name: (0, highest) for name, (_, highest) in _OF_4_3.items()},  # 4.0 removed the oldest versions (KIP-896).
    "AddRaftVoter": (0, 0),
    "AlterPartitionReassignments": (0, 0),
    "BrokerHeartbeat": (0, 1),
    "ControlledShutdown": (0, 3),
    "DescribeCluster": (0, 1),
    "Fetch": (0, 17),
    "UpdateFeatures": (0, 1),
    "Vote": (0, 1),
}
RAFT_LEVELS: Final[Mapping[str, tuple[str, Level]]] = {
    "4.3.1": ("4.3", "4.1.2"),
    "4.1.2": ("4.3", "4.1.2"),
    "3.9.1": ("3.9", "3.9.1"),
}
"""By release: the level of a node's raft requests, and the level of the rules for its log."""

APIS: Final = {"4.3.1": _OF_4_3, "4.1.2": _OF_4_1, "3.9.1": _OF_3_9}
"""By release: the lowest and the highest version of each API."""

FEATURES: Final[Mapping[str, Mapping[str, Bounds]]] = {
    "4.3.1": {
        ELR_VERSION: (0, 1),
        GROUP_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (7, 30),
        SHARE_VERSION: (0, 1),
        STREAMS_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
    },
    "4.1.2": {
        ELR_VERSION: (0, 1),
        GROUP_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (7, 27),
        SHARE_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
    },
    "3.9.1": {
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (1, 21),
    },
}
"""By release: the lowest and the highest level of each feature."""
