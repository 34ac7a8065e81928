"""How far a follower has got, as its leader sees it from its fetches (Replica and ReplicaState of 3.9.1)."""

from dataclasses import dataclass
from typing import Final

from kcore.constants import UNKNOWN_BROKER_EPOCH

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class Follower:
    """One follower of a partition that this broker leads; times in milliseconds."""

    end_offset: int = UNKNOWN_OFFSET  # What it fetched from last: it has all below.
    start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = 0  # Where the leader's log ended at its last fetch.
    last_fetch_ms: int = 0
    last_caught_up_ms: int = 0
    broker_epoch: int = UNKNOWN_BROKER_EPOCH  # Of the newest incarnation that fetched (KIP-903).

    def is_outdated(self, broker_epoch: int) -> bool:
        """Whether a fetch is of an incarnation before the one that is known; one without an epoch never is."""
        return broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self.broker_epoch

    def fetched(self, offset: int, start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A fetch from `offset`.

        One that begins where the leader's log ended at the fetch before shows that the follower had caught up then:
        a busy leader's log is longer at every fetch.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.start_offset = offset, start_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms

    def reset(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, in_isr: bool) -> None:
        """A leader epoch begins: members of the ISR have the whole time again, others hold nothing back."""
        self.last_caught_up_ms = now_ms if in_isr else 0
        if is_new_leader:
            self.end_offset = self.start_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms, self.broker_epoch = 0, UNKNOWN_BROKER_EPOCH
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if in_isr else 0

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has all records, or had all not long ago."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
