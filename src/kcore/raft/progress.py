"""The leader's view of one replica's progress. Source: LeaderState.ReplicaState."""

from typing import Final

from kcore.raft.membership.replicas import ReplicaKey

UNKNOWN: Final = -1


class ReplicaProgress:
    """The offset that a replica has reached, and when it last fetched and was caught up."""

    __slots__ = (
        "end_offset",
        "key",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "sent_high_watermark",
    )

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset = UNKNOWN  # The end of the records that it has flushed.
        self.last_fetch_ms = UNKNOWN
        self.last_fetch_leader_end = UNKNOWN  # The leader's log end at the last fetch.
        self.last_caught_up_ms = UNKNOWN  # When it last had all of the leader's records.
        self.sent_high_watermark = UNKNOWN

    def caught_up_with(self, end_offset: int, fetch_ms: int, leader_end: int, caught_up_ms: int) -> None:
        """Merges progress that the compiled request loop has seen; values older than the known ones are dropped."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, caught_up_ms)
        if fetch_ms >= self.last_fetch_ms:
            self.end_offset, self.last_fetch_ms, self.last_fetch_leader_end = end_offset, fetch_ms, leader_end

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Records a fetch. If it reaches the leader's end at the last fetch, it was caught up then (KIP-836)."""
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.last_fetch_leader_end <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset
