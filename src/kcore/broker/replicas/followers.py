"""A follower's progress, which its leader derives from its fetches (Replica and ReplicaState of 3.9.1)."""

from dataclasses import dataclass
from typing import Final

from kcore.constants import UNKNOWN_BROKER_EPOCH

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class Follower:
    """One follower of a partition that this broker leads; times in milliseconds."""

    end_offset: int = UNKNOWN_OFFSET  # The offset of its last fetch: it has all records below.
    start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = 0  # The leader's end offset at its last fetch.
    last_fetch_ms: int = 0
    last_caught_up_ms: int = 0
    broker_epoch: int = UNKNOWN_BROKER_EPOCH  # The epoch of the newest incarnation that fetched (KIP-903).

    def is_outdated(self, broker_epoch: int) -> bool:
        """Whether a fetch is from an earlier incarnation; False for fetches without a broker epoch."""
        return broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self.broker_epoch

    def fetched(self, offset: int, start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Records a fetch from `offset`.

        If `offset` is at least the leader's end offset at the fetch before, the follower had caught up at that time. A
        busy leader's log grows between fetches, so its current end is not the measure.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.start_offset = offset, start_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms

    def reset(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, in_isr: bool) -> None:
        """Starts a leader epoch: ISR members count as caught up now, other followers do not."""
        self.last_caught_up_ms = now_ms if in_isr else 0
        if is_new_leader:
            self.end_offset = self.start_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms, self.broker_epoch = 0, UNKNOWN_BROKER_EPOCH
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if in_isr else 0

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has all records, or had all of them within the last `max_lag_ms`."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
