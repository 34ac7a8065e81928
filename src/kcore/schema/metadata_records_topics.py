"""Records of the metadata log: topics and partitions (KIP-631)."""

from kcore.schema.kinds import int8, int32
from kcore.schema.structure import MetadataRecord, field
from kcore.types import Uuid


class TopicRecord(MetadataRecord, api_key=2, versions="0", flexible="0+"):
    """A topic was created."""

    name: str
    topic_id: Uuid


class RemoveTopicRecord(MetadataRecord, api_key=9, versions="0", flexible="0+"):
    """A topic with all its partitions was deleted."""

    topic_id: Uuid


class PartitionRecord(MetadataRecord, api_key=3, versions="0-2", flexible="0+"):
    """A partition was created; in a snapshot, its present state."""

    partition_id: int32 = field(default=-1)
    topic_id: Uuid
    replicas: list[int32]
    isr: list[int32]
    removing_replicas: list[int32]  # Replicas that are removed when the reassignment completes.
    adding_replicas: list[int32]  # Replicas that must join the ISR before the reassignment completes.
    leader: int32 = field(default=-1)  # -1 for none.
    # 1 while the leader recovers from an unclean election (KIP-704).
    leader_recovery_state: int8 = field(tag=0, tagged="0+")
    leader_epoch: int32 = field(default=-1)  # Rises with every new leader.
    partition_epoch: int32 = field(default=-1)  # Rises with every change.
    directories: list[Uuid] = field(versions="1+")  # One for each replica (KIP-858).
    # Replicas that left the ISR with all committed records: a clean election may choose them (KIP-966).
    eligible_leader_replicas: list[int32] | None = field(versions="2+", nullable="2+", tag=1, tagged="2+", default=None)
    # Candidates for an unclean election if ISR and ELR are both empty.
    last_known_elr: list[int32] | None = field(versions="2+", nullable="2+", tag=2, tagged="2+", default=None)


class PartitionChangeRecord(MetadataRecord, api_key=5, versions="0-2", flexible="0+"):
    """A partition changed; fields that the record does not set keep their values."""

    partition_id: int32 = field(default=-1)
    topic_id: Uuid
    # In this field and those below, null stands for no change.
    isr: list[int32] | None = field(nullable="0+", tag=0, tagged="0+", default=None)
    # -1 for no leader, -2 for no change. Any value but -2 raises the leader epoch, even the present leader.
    leader: int32 = field(tag=1, tagged="0+", default=-2)
    replicas: list[int32] | None = field(nullable="0+", tag=2, tagged="0+", default=None)
    removing_replicas: list[int32] | None = field(nullable="0+", tag=3, tagged="0+", default=None)
    adding_replicas: list[int32] | None = field(nullable="0+", tag=4, tagged="0+", default=None)
    leader_recovery_state: int8 = field(tag=5, tagged="0+", default=-1)  # -1 for no change.
    # One for each replica (KIP-858).
    directories: list[Uuid] | None = field(versions="1+", nullable="1+", tag=8, tagged="1+", default=None)
    # KIP-966.
    eligible_leader_replicas: list[int32] | None = field(versions="2+", nullable="2+", tag=6, tagged="2+", default=None)
    last_known_elr: list[int32] | None = field(versions="2+", nullable="2+", tag=7, tagged="2+", default=None)


class ClearElrRecord(MetadataRecord, api_key=28, versions="0", flexible="0+"):
    """Clears the ELRs of one topic or of all topics, because min.insync.replicas changed (KIP-966)."""

    topic_name: str  # Empty for all topics.
