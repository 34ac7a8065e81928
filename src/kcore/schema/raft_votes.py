"""Leader election in the controllers' quorum (KIP-595): Vote, BeginQuorumEpoch, EndQuorumEpoch."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class VoteRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The candidate, its epoch, and the end of its log."""

    partition_index: int32
    # The epoch of the election; in a pre-vote the candidate's present epoch.
    replica_epoch: int32 = field(json_aliases=("candidateEpoch",))
    replica_id: int32 = field(json_aliases=("candidateId",))  # The candidate; in versions 0 and 1 candidateId.
    replica_directory_id: Uuid = field(versions="1+", ignorable=True, json_aliases=("candidateDirectoryId",))
    voter_directory_id: Uuid = field(versions="1+", ignorable=True)  # Directory of the addressed voter (KIP-853).
    last_offset_epoch: int32  # Epoch of the last record in the candidate's log.
    last_offset: int64  # The end of the candidate's log.
    pre_vote: bool = field(versions="2+")  # True for a pre-vote, which changes no state of the voter (KIP-996).


class VoteRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic; in practice only the metadata partition."""

    topic_name: str
    partitions: list[VoteRequestPartitionData]


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    """A candidate asks a voter for its vote."""

    cluster_id: str | None = field(nullable="0+", default=None)  # A voter of another cluster refuses the request.
    voter_id: int32 = field(versions="1+", default=-1, ignorable=True)  # Id of the addressed voter (KIP-853).
    topics: list[VoteRequestTopicData]


class VoteResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The vote, and the present leader if the voter knows it."""

    partition_index: int32
    error_code: int16
    leader_id: int32  # -1 for unknown.
    leader_epoch: int32
    vote_granted: bool


class VoteResponseTopicData(Struct, kafka_name="TopicData"):
    """The votes for one topic."""

    topic_name: str
    partitions: list[VoteResponsePartitionData]


class NodeEndpoint(Struct):
    """The endpoint of a leader (KIP-853)."""

    node_id: int32
    host: str
    port: uint16


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    """The voter's answer."""

    error_code: int16
    topics: list[VoteResponseTopicData]
    # The endpoints of every leader named in `topics`.
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")


class BeginQuorumEpochRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The leader and its epoch."""

    partition_index: int32
    voter_directory_id: Uuid = field(versions="1+", ignorable=True)  # Directory of the addressed voter (KIP-853).
    leader_id: int32
    leader_epoch: int32


class BeginQuorumEpochRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic; in practice only the metadata partition."""

    topic_name: str
    partitions: list[BeginQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    """The endpoint of the leader (KIP-853)."""

    name: str
    host: str
    port: uint16


class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    """The new leader announces itself to every voter until the voter fetches."""

    cluster_id: str | None = field(nullable="0+", default=None)
    voter_id: int32 = field(versions="1+", default=-1, ignorable=True)  # Id of the addressed voter (KIP-853).
    topics: list[BeginQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(versions="1+", ignorable=True)


class QuorumEpochPartitionData(Struct, kafka_name="PartitionData"):
    """The present leader, if the voter knows it."""

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


class QuorumEpochTopicData(Struct, kafka_name="TopicData"):
    """The answers for one topic."""

    topic_name: str
    partitions: list[QuorumEpochPartitionData]


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    """The voter's answer."""

    error_code: int16
    topics: list[QuorumEpochTopicData]
    # The endpoints of every leader named in `topics`.
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")


class ReplicaInfo(Struct):
    """A voter and its directory."""

    candidate_id: int32
    candidate_directory_id: Uuid


class EndQuorumEpochRequestPartitionData(Struct, kafka_name="PartitionData"):
    """The leader that resigns, and its preferred successors."""

    partition_index: int32
    leader_id: int32
    leader_epoch: int32
    # The voters, those with the longest logs first; the first one stands for election at once.
    preferred_successors: list[int32] = field(versions="0", ignorable=True)
    # The preferred successors with their directories (KIP-853).
    preferred_candidates: list[ReplicaInfo] = field(versions="1+", ignorable=True)


class EndQuorumEpochRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic; in practice only the metadata partition."""

    topic_name: str
    partitions: list[EndQuorumEpochRequestPartitionData]


class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    """A resigning leader informs the voters, so that they can elect a new leader before their timeout."""

    cluster_id: str | None = field(nullable="0+", default=None)
    topics: list[EndQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(versions="1+", ignorable=True)


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    """The voter's answer."""

    error_code: int16
    topics: list[QuorumEpochTopicData]
    # The endpoints of every leader named in `topics`.
    node_endpoints: list[NodeEndpoint] = field(versions="1+", tag=0, tagged="1+")
