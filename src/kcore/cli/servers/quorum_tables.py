"""A quorum's description as text, in the formats of kafka-metadata-quorum.sh and of KIP-595.

Source: MetadataQuorumCommand of 4.3.1 and 3.9.1, ToolsUtils.prettyPrintTable, RaftVoterEndpoint.
"""

from collections.abc import Sequence
from typing import Any, Final

from kcore.errors import TargetError
from kcore.printable import printable
from kcore.schema.describe_quorum import ReplicaState
from kcore.server.quorum_node.describe import QuorumDescription
from kcore.types import ZERO_UUID

HEADER: Final = (
    *("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"),
)
UNKNOWN: Final = -1
# The table of KIP-595, whose columns begin at multiples of TAB characters.
SEED_HEADER: Final = ("ReplicaId", "LogEndOffset", "Lag", "LagTimeMs", "Status")
SEED_WIDTHS: Final = (12, 16, 8, 12)
TAB: Final = 4


def status(description: QuorumDescription, level: str = "4.3") -> list[str]:
    """The lines of `--status`. An unknown directory id is null at `level` 3.9, and empty at 4.3."""
    partition, endpoints = description.partition, _endpoints(description)
    lag, lag_time_ms = _max_follower_lag(description)
    voters = [_replica(each, endpoints, level) for each in partition.current_voters]
    observers = [_replica(each, endpoints, level) for each in partition.observers]
    lines = [
        f"ClusterId:              {description.cluster_id}",
        f"LeaderId:               {partition.leader_id}",
        f"LeaderEpoch:            {partition.leader_epoch}",
        f"HighWatermark:          {partition.high_watermark}",
        f"MaxFollowerLag:         {lag}",
        f"MaxFollowerLagTimeMs:   {lag_time_ms}",
        f"CurrentVoters:          [{', '.join(voters)}]",
        f"CurrentObservers:       [{', '.join(observers)}]",
    ]
    return [*map(printable, lines)]


def seed_status(description: QuorumDescription) -> list[str]:
    """The lines of `--status` in the format of KIP-595, with its tabs."""
    partition = description.partition
    lag, lag_time_ms = _max_follower_lag(description)
    return [
        f"ClusterId:              {printable(description.cluster_id)}",
        f"LeaderId:\t\t\t\t{partition.leader_id}",
        f"LeaderEpoch: \t\t\t{partition.leader_epoch}",
        f"HighWatermark:\t\t\t{partition.high_watermark}",
        f"MaxFollowerLag: \t\t{lag}",
        f"MaxFollowerLagTimeMs:\t{lag_time_ms}",
        f"CurrentVoters:\t\t\t[{', '.join(str(each.replica_id) for each in partition.current_voters)}]",
    ]


def replication(description: QuorumDescription, now_ms: int | None = None) -> list[str]:
    """The lines of `--replication`, the leader's first. With `now_ms`, times are ages, as in `--human-readable`.

    Raises TargetError for a time in the future: the clocks of the two machines disagree.
    """
    leader = leader_of(description)
    rows = [HEADER]
    for replica, role in _roles(description):
        rows.append(
            (
                *(str(replica.replica_id), str(replica.replica_directory_id), str(replica.log_end_offset)),
                str(leader.log_end_offset - replica.log_end_offset),
                _time(replica.last_fetch_timestamp, now_ms, "last fetch"),
                _time(replica.last_caught_up_timestamp, now_ms, "last caught up"),
                role,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["".join(f"{value:<{width}}\t" for value, width in zip(row, widths, strict=True)) for row in rows]


def seed_replication(description: QuorumDescription) -> list[str]:
    """The lines of `--replication` in the format of KIP-595, with its tabs."""
    leader = leader_of(description)
    rows: list[Sequence[object]] = [SEED_HEADER]
    for replica, role in _roles(description):
        lag = leader.log_end_offset - replica.log_end_offset
        rows.append((replica.replica_id, replica.log_end_offset, lag, _lag_time_ms(leader, replica), role))
    return ["".join([*map(_tabbed, row, SEED_WIDTHS), str(row[-1])]) for row in rows]


def as_json(description: QuorumDescription) -> dict[str, Any]:
    """The whole description, with Kafka's field names."""
    partition, endpoints = description.partition, _endpoints(description)
    lag, lag_time_ms = _max_follower_lag(description)
    return {
        "clusterId": description.cluster_id,
        "leaderId": partition.leader_id,
        "leaderEpoch": partition.leader_epoch,
        "highWatermark": partition.high_watermark,
        "maxFollowerLag": lag,
        "maxFollowerLagTimeMs": lag_time_ms,
        "replicas": [
            {
                "replicaId": replica.replica_id,
                "directoryId": str(replica.replica_directory_id),
                "logEndOffset": replica.log_end_offset,
                "lastFetchTimestamp": replica.last_fetch_timestamp,
                "lastCaughtUpTimestamp": replica.last_caught_up_timestamp,
                "status": role,
                "endpoints": endpoints.get(replica.replica_id, []),
            }
            for replica, role in _roles(description)
        ],
    }


def leader_of(description: QuorumDescription) -> ReplicaState:
    """The leader's state. Raises TargetError, as Kafka's tool does, if a leader that is being removed is no voter."""
    partition = description.partition
    for each in partition.current_voters:
        if each.replica_id == partition.leader_id:
            return each
    raise TargetError(f"the leader {partition.leader_id} of epoch {partition.leader_epoch} is none of the voters")


def _roles(description: QuorumDescription) -> list[tuple[ReplicaState, str]]:
    partition, leader = description.partition, leader_of(description)
    followers = (each for each in partition.current_voters if each.replica_id != leader.replica_id)
    return [
        (leader, "Leader"),
        *((each, "Follower") for each in followers),
        *((each, "Observer") for each in partition.observers),
    ]


def _max_follower_lag(description: QuorumDescription) -> tuple[int, int]:
    """The lag in records and in milliseconds of the first voter with the smallest end offset."""
    leader = leader_of(description)
    slowest = min(description.partition.current_voters, key=lambda each: each.log_end_offset)
    lag_time_ms = 0 if slowest is leader else _lag_time_ms(leader, slowest)
    return leader.log_end_offset - slowest.log_end_offset, lag_time_ms


def _lag_time_ms(leader: ReplicaState, replica: ReplicaState) -> int:
    caught_up = leader.last_caught_up_timestamp, replica.last_caught_up_timestamp
    return UNKNOWN if UNKNOWN in caught_up else caught_up[0] - caught_up[1]


def _endpoints(description: QuorumDescription) -> dict[int, list[str]]:
    """The listeners of each node by its id, as RaftVoterEndpoint prints them."""

    def text(name: str, host: str, port: int) -> str:
        return f"{name}://[{host}]:{port}" if ":" in host else f"{name}://{host}:{port}"

    return {
        node.node_id: [text(each.name, each.host, each.port) for each in node.listeners] for node in description.nodes
    }


def _replica(replica: ReplicaState, endpoints: dict[int, list[str]], level: str) -> str:
    parts = [f'"id": {replica.replica_id}']
    if replica.replica_directory_id != ZERO_UUID:
        parts.append(f'"directoryId": "{replica.replica_directory_id}"')
    elif level == "3.9":
        parts.append('"directoryId": null')
    if addresses := endpoints.get(replica.replica_id):
        quoted = ", ".join(f'"{each}"' for each in addresses)
        parts.append(f'"endpoints": [{quoted}]')
    return f"{{{', '.join(parts)}}}"


def _time(timestamp_ms: int, now_ms: int | None, what: str) -> str:
    if timestamp_ms == UNKNOWN or now_ms is None:
        return str(timestamp_ms)
    if not 0 < timestamp_ms <= now_ms:
        raise TargetError(
            f"possible drift in system clock: now is {now_ms} ms, the {what} was at {timestamp_ms} ms by the leader's"
        )
    return f"{now_ms - timestamp_ms} ms ago"


def _tabbed(value: object, width: int) -> str:
    """The value, followed by tabs up to the end of its column."""
    text = str(value)
    return text + "\t" * max(1, -(-(width - len(text)) // TAB))
