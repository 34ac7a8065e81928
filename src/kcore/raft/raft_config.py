"""The settings of a raft node, with Kafka's names and defaults (QuorumConfig, MetadataLogConfig)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kcore.raft.membership.replicas import Address, Endpoints, Voter
from kcore.types import Uuid

LONGEST_LINGER_MS = 25  # A leader's records wait at most so long for a flush before they are written.
FETCH_MAX_WAIT_MS = 500  # A follower's Fetch waits at most so long at the leader.
MAX_BATCH_BYTES = 8 << 20  # The largest record batch.
FETCH_SNAPSHOT_MAX_BYTES = 8 << 20  # The largest piece of a snapshot in one response.
MOST_WAITING = 40_000  # Fetches that may wait at a leader.

CheckData: TypeAlias = Callable[[Sequence[bytes], str], None]
"""Raises NewerReleaseError for batches of data that only a newer release can read; the text names the log."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """The settings of one node of a quorum.

    A node with a `node_id` below 0 is an anonymous observer. `voters` are the static voters; empty if the log holds the
    voters (KIP-853): the node then finds the leader through `bootstrap_servers`. `jitter_ms(n)` returns a random number
    from 0 to n-1. `level` is the release whose protocol the node uses: 3.9 has no pre-votes.
    """

    cluster_id: str | None  # None: the first leader generates the id (`cluster_id.py`).
    node_id: int
    directory_id: Uuid
    endpoints: Endpoints
    jitter_ms: Callable[[int], int]
    voters: tuple[Voter, ...] = ()
    bootstrap_servers: tuple[Address, ...] = ()
    listener: str = "CONTROLLER"  # The listener that nodes use among themselves.
    level: str = "4.3"
    can_become_voter: bool = True
    auto_join: bool = False  # KIP-853 in 4.x: an observer of a dynamic quorum sends AddRaftVoter for itself.
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    # Above this size of log and snapshots the oldest snapshots are deleted. Below 0: no limit.
    metadata_max_retention_bytes: int = 100 << 20
    # Snapshots above this age are deleted, but never the newest. Below 0: no limit.
    metadata_max_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    fetch_max_bytes: int = MAX_BATCH_BYTES  # A Fetch response has at least one batch. 4.3: 1 MiB (KIP-1219).
    fetch_snapshot_max_bytes: int = FETCH_SNAPSHOT_MAX_BYTES  # 4.3: 1 MiB.
    # Bounds of a leader's memory, above the size of any real cluster: any client can invent replica ids.
    most_observers: int = 40_000
    most_waiting: int = MOST_WAITING
    check_data: CheckData | None = None  # The node neither stores data that it refuses, nor starts with such data.
    append_linger_ms: int | None = None  # Kafka: 25. None: write when no flush is running, after 25 ms at most.
    # Options that KIP-595 or an issue discusses and Kafka does not have; figures by `bench/test_raft_options.py`.
    pipelined_fetch: bool = False  # A follower fetches while its disk flushes, if the leader counts flushed offsets.
    early_high_watermark: bool = False  # A leader sends new high watermarks at once, even to versions before KIP-1166.
    pre_votes_after_resignation: bool = False  # A follower grants pre-votes after EndQuorumEpoch (KAFKA-20895).
    elects_when_refused: bool = False  # A voter starts an election soon if the leader's address refuses connections.
    endless_elections: bool = False  # A leader without fetching followers starts elections; Kafka's resigns.
