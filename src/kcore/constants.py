"""Kafka's sentinels and kcore's limits, each defined once.

Compiled kernels import no Python of the package. `_ext/constants.pxd` repeats the values that they need, and a test
compares the two files.
"""

from typing import Final

NO_LEADER: Final = -1  # LeaderAndIsr.NoLeader
LEADER_DURING_DELETE: Final = -2  # LeaderAndIsr.LeaderDuringDelete, seen in UpdateMetadata only
NO_LEADER_CHANGE: Final = -2  # PartitionChangeRecord.leader if the leader stays the same
EPOCH_DURING_DELETE: Final = -2  # LeaderAndIsr.EpochDuringDelete
NO_EPOCH: Final = -1  # LeaderAndIsr.NoEpoch
INITIAL_LEADER_EPOCH: Final = 0
INITIAL_PARTITION_EPOCH: Final = 0  # LeaderAndIsr.InitialPartitionEpoch: the zkVersion of a fresh state node

UNDEFINED_EPOCH: Final = -1  # OffsetsForLeaderEpochResponse.UNDEFINED_EPOCH
UNDEFINED_EPOCH_OFFSET: Final = -1

PRODUCER_ID_BLOCK_SIZE: Final = 1000  # ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE

CONSUMER_REPLICA_ID: Final = -1  # FetchRequest.CONSUMER_REPLICA_ID; ListOffsets uses the same value

UNKNOWN_BROKER_EPOCH: Final = -1  # AbstractControlRequest.UNKNOWN_BROKER_EPOCH

# Topic.INTERNAL_TOPICS. The leaders of their partitions coordinate groups and transactions.
GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
METADATA_TOPIC: Final = "__cluster_metadata"  # Topic.CLUSTER_METADATA_TOPIC_NAME; its one partition is 0.

# Names of features (KIP-584): FEATURE_NAME of MetadataVersion, KRaftVersion, GroupVersion and so on.
METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"

# TopicConfig: settings that elections depend on.
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

RECOVERED: Final = 0  # LeaderRecoveryState
RECOVERING: Final = 1
NO_RECOVERY_CHANGE: Final = -1

INT64_MAX: Final = 2**63 - 1  # Long.MAX_VALUE
JAVA_BLANKS: Final = "".join(map(chr, range(33)))  # The characters that String.trim removes.

# kcore's limits. Kernels rely on tables to keep them.
MAX_BROKERS: Final = 32_767  # Broker rows are int16.
MAX_REPLICAS: Final = 32  # Replicas of a partition; members of an ISR.
MAX_PARTITIONS: Final = 2**31 - 1  # Partition rows are int32.
NO_BROKER_ROW: Final = -1  # Pads a row of replicas or ISR; also "no leader".
