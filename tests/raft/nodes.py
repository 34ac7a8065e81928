"""Raft nodes for tests: how to make one, what to tell it, what came out of it."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from kcore.raft.effects import Effect, LeaderChanged, Send, SendResponse, StoreElection
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.replicas import NO_DIRECTORY, Address, ElectionState, ReplicaKey, Voter
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.schema.raft_votes import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    LeaderEndpoint,
    NodeEndpoint,
    QuorumEpochPartitionData,
    QuorumEpochTopicData,
    ReplicaInfo,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from kcore.types import Uuid
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

CLUSTER = "the-cluster-of-the-tests"
LISTENER = "CONTROLLER"
TOPIC = "__cluster_metadata"
T = TypeVar("T")


def directory(node_id: int) -> Uuid:
    return Uuid((1000 + node_id).to_bytes(16))


def address(node_id: int) -> Address:
    return Address(f"host{node_id}", 9000 + node_id)


def voter(node_id: int, directory_id: Uuid = NO_DIRECTORY, kraft_version: int = 1) -> Voter:
    return Voter(ReplicaKey(node_id, directory_id), {LISTENER: address(node_id)}, 0, kraft_version)


def log_of(*epochs: int) -> MemoryLog:
    """One record an epoch, flushed."""
    log = MemoryLog()
    for offset, epoch in enumerate(epochs):
        log.append_as_leader(encode_records([Record(offset, 0, None, b"x")], partition_leader_epoch=epoch), epoch)
    log.flush()
    return log


def raft_node(
    node_id: int = 1,
    voters: Sequence[int | Voter] = (1, 2, 3),
    log: RaftLog | None = None,
    jitter: int = 0,
    **settings: Any,
) -> RaftNode:
    """A node that is not started: static voters, time-outs of 1,000 (elections) and 2,000 ms (fetches), no jitter."""
    config = RaftConfig(
        cluster_id=settings.pop("cluster_id", CLUSTER),
        node_id=node_id,
        directory_id=directory(node_id),
        endpoints={LISTENER: address(node_id)},
        jitter_ms=lambda bound: min(jitter, bound - 1),
        voters=tuple(v if isinstance(v, Voter) else voter(v) for v in voters),
        **settings,
    )
    return RaftNode(config, MemoryLog() if log is None else log)


def started(
    node_id: int = 1, election: ElectionState | None = None, now_ms: int = 0, **settings: Any
) -> tuple[RaftNode, list[Effect]]:
    node = raft_node(node_id, **settings)
    return node, node.start(election, now_ms)


# Effects.


def of(kind: type[T], effects: Iterable[Effect]) -> list[T]:
    return [effect for effect in effects if isinstance(effect, kind)]


def answer(effects: Iterable[Effect]) -> Any:
    """The one response among the effects."""
    (only,) = of(SendResponse, effects)
    return only.response


def partition(message: Any) -> Any:
    """The partition of a message about the metadata partition alone."""
    return message.topics[0].partitions[0]


def sent(effects: Iterable[Effect], kind: type[Any]) -> list[Send]:
    """Requests of a kind, by destination."""
    return sorted((s for s in of(Send, effects) if isinstance(s.request, kind)), key=lambda send: send.destination)


def stored(effects: Iterable[Effect]) -> list[ElectionState]:
    return [effect.election for effect in of(StoreElection, effects)]


def leaders(effects: Iterable[Effect]) -> list[tuple[int, int]]:
    """The leader id and epoch of each LeaderChanged."""
    return [(effect.leader_id, effect.epoch) for effect in of(LeaderChanged, effects)]


def state(node: RaftNode) -> tuple[str, int, int]:
    """Name, epoch, leader."""
    return node.state.name, node.epoch, node.leader_id


# Events.


def vote_request(
    epoch: int,
    candidate: int = 2,
    last: tuple[int, int] = (0, 0),
    *,
    pre_vote: bool = False,
    voter_id: int = 1,
    voter_directory: Uuid = NO_DIRECTORY,
    candidate_directory: Uuid | None = None,
    cluster_id: str | None = CLUSTER,
) -> VoteRequest:
    """`last`: the epoch of the last record, and where the log ends."""
    asked = VoteRequestPartitionData(
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=directory(candidate) if candidate_directory is None else candidate_directory,
        voter_directory_id=voter_directory,
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=pre_vote,
    )
    topic = VoteRequestTopicData(topic_name=TOPIC, partitions=[asked])
    return VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def vote_response(epoch: int, granted: bool, leader_id: int = -1, error: int = 0) -> VoteResponse:
    vote = VoteResponsePartitionData(error_code=error, leader_id=leader_id, leader_epoch=epoch, vote_granted=granted)
    topic = VoteResponseTopicData(topic_name=TOPIC, partitions=[vote])
    endpoints = [] if leader_id < 0 else [NodeEndpoint(node_id=leader_id, host=f"host{leader_id}", port=9000)]
    return VoteResponse(topics=[topic], node_endpoints=endpoints)


def begin_request(
    epoch: int, leader_id: int = 2, voter_id: int = 1, voter_directory: Uuid = NO_DIRECTORY, endpoints: bool = True
) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequestPartitionData(
        voter_directory_id=voter_directory, leader_id=leader_id, leader_epoch=epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=CLUSTER,
        voter_id=voter_id,
        topics=[BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[LeaderEndpoint(name=LISTENER, host=f"host{leader_id}", port=9000)] if endpoints else [],
    )


def end_request(
    epoch: int, leader_id: int = 2, candidates: Sequence[ReplicaKey] = (), successors: Sequence[int] = ()
) -> EndQuorumEpochRequest:
    infos = [ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in candidates]
    partition = EndQuorumEpochRequestPartitionData(
        leader_id=leader_id, leader_epoch=epoch, preferred_successors=list(successors), preferred_candidates=infos
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=CLUSTER, topics=[topic])


def epoch_response(kind: type[T], epoch: int, leader_id: int = -1, error: int = 0) -> T:
    """A response to BeginQuorumEpoch or EndQuorumEpoch."""
    partition = QuorumEpochPartitionData(error_code=error, leader_id=leader_id, leader_epoch=epoch)
    return kind(topics=[QuorumEpochTopicData(topic_name=TOPIC, partitions=[partition])])  # type: ignore[call-arg]


# How to get there.


def candidate(node_id: int = 1, now_ms: int = 0, **settings: Any) -> tuple[RaftNode, list[Effect]]:
    """In epoch 1, its vote requests among the effects; time has gone on to its election time-out."""
    node, _ = started(node_id, now_ms=now_ms, **settings)
    now_ms += node.config.election_timeout_ms
    effects = node.on_timer(now_ms)
    if node.state.name == "Prospective":
        effects = grant(node, effects, now_ms, len(node.voters) // 2)
    return node, effects


def grant(node: RaftNode, effects: Iterable[Effect], now_ms: int, voters: int | None = None) -> list[Effect]:
    """All that are asked for their votes give them, or as many as are wanted."""
    out: list[Effect] = []
    for send in sent(effects, VoteRequest)[:voters]:
        out += node.on_response(send.correlation_id, vote_response(node.epoch, True), now_ms)
    return out


def leader(node_id: int = 1, **settings: Any) -> tuple[RaftNode, list[Effect]]:
    """A leader of epoch 1, elected at 1,000 ms."""
    node, effects = candidate(node_id, **settings)
    return node, grant(node, effects, 1000, len(node.voters) // 2)


def follower(node_id: int = 1, epoch: int = 1, now_ms: int = 0, **settings: Any) -> RaftNode:
    """A follower of node 2 after its BeginQuorumEpoch."""
    node, _ = started(node_id, now_ms=now_ms, **settings)
    node.on_request(begin_request(epoch, voter_id=node_id), 1, "begin", now_ms)
    return node
