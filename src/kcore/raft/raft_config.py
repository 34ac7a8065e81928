"""The settings of a raft node; names and defaults as Kafka's (QuorumConfig, MetadataLogConfig)."""

from collections.abc import Callable
from dataclasses import dataclass

from kcore.raft.membership.replicas import Address, Endpoints, Voter
from kcore.types import Uuid

LONGEST_LINGER_MS = 25
FETCH_MAX_WAIT_MS = 500
MAX_BATCH_BYTES = 8 << 20
FETCH_SNAPSHOT_MAX_BYTES = 8 << 20
MOST_WAITING = 40_000  # Requests.


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """One node of a quorum.

    `node_id` below 0: an anonymous observer. `voters` are the static ones, none where the log names them (KIP-853),
    which then are found by `bootstrap_servers`. `jitter_ms(n)` gives 0 to n-1, at random, from the edge. `level` is the
    release whose protocol it speaks: 3.9 has neither pre-votes nor a high watermark in Fetch.
    """

    cluster_id: str | None  # None: the first leader makes it (`cluster_id.py`).
    node_id: int
    directory_id: Uuid
    endpoints: Endpoints
    jitter_ms: Callable[[int], int]
    voters: tuple[Voter, ...] = ()
    bootstrap_servers: tuple[Address, ...] = ()
    listener: str = "CONTROLLER"  # The one that nodes use among themselves.
    level: str = "4.3"
    can_become_voter: bool = True
    auto_join: bool = False  # KIP-853 in 4.x: an observer of a dynamic quorum asks to be added.
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    metadata_max_retention_bytes: int = 100 << 20  # Log and snapshots; older ones go then. Below 0: no limit.
    metadata_max_retention_ms: int = 7 * 24 * 60 * 60 * 1000  # Older snapshots go but the newest. Below 0: no limit.
    fetch_max_bytes: int = MAX_BATCH_BYTES  # Of a Fetch, but one batch at least. 4.3's default is 1 MiB (KIP-1219).
    fetch_snapshot_max_bytes: int = FETCH_SNAPSHOT_MAX_BYTES  # Of a FetchSnapshot; 1 MiB in 4.3, too.
    # Bounds on what a leader remembers of replicas, whose ids any client can invent: above any cluster's size.
    most_observers: int = 40_000
    most_waiting: int = MOST_WAITING  # Fetches.
    append_linger_ms: int | None = None  # Kafka's is 25. None: while a flush is under way, 25 at most.
    # Options that KIP-595 or an issue discusses and Kafka does not have; figures by `bench/test_raft_options.py`.
    pipelined_fetch: bool = False  # A follower fetches while its disk works, from a leader that counts what is flushed.
    early_high_watermark: bool = False  # A leader sends a new high watermark at once to followers before KIP-1166, too.
    # A follower grants pre-votes after its leader's EndQuorumEpoch (KAFKA-20895).
    pre_votes_after_resignation: bool = False
    # A follower whose leader's address refuses connections does not wait for the fetch timeout: no process leads there.
    elects_when_refused: bool = False
    endless_elections: bool = False  # A leader without fetching followers starts elections; Kafka's resigns.
