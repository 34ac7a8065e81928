"""Fetch sessions in plain Python: every rule looks at all sessions (FetchManager, FetchSessionCacheShard of 4.3.1)."""

from dataclasses import dataclass, field
from typing import Any

EVICTION_MS = 120_000


@dataclass
class Session:
    number: int  # Its number among all sessions ever made; its id does not matter.
    privileged: bool
    by_id: bool
    created_ms: int
    used_ms: int
    turn: int  # Place of its last use, among all uses.
    epoch: int = 1
    size: int = 0
    partitions: list[Any] = field(default_factory=list)  # In order.
    sent: dict[Any, tuple[int, int]] = field(default_factory=dict)  # High watermark and log start offset, as sent.

    def may_go_for(self, privileged: bool) -> bool:
        settled = self.used_ms - self.created_ms > EVICTION_MS
        return settled or (privileged and not self.privileged)


class Sessions:
    """`read` returns the state of the log: (error, has records, high watermark, log start offset)."""

    def __init__(self, slots: int) -> None:
        self.slots, self.kept, self.turns, self.made = slots, list[Session](), 0, 0

    def full(
        self, names: list[Any], closes: int | None, read: Any, *, now_ms: int, privileged: bool, by_id: bool
    ) -> Any:
        """The number of the new session, or None; all partitions are answered."""
        self.close(closes)
        if names and all(read(name)[0] for name in names):
            return None, names
        mine = (privileged, len(names), -1)
        if len(self.kept) >= self.slots:
            oldest = min(self.kept, key=lambda each: (each.used_ms, each.turn), default=None)
            others = [each for each in self.kept if each.may_go_for(privileged)]
            worst = min(others, key=lambda each: (each.privileged, each.size, each.number), default=None)
            if oldest is not None and now_ms - oldest.used_ms > EVICTION_MS:
                self.kept.remove(oldest)
            elif worst is not None and (worst.privileged, worst.size) < mine[:2]:
                self.kept.remove(worst)
            else:
                return None, names
        self.made += 1
        made = Session(self.made, privileged, by_id, now_ms, now_ms, self._turn(), size=len(names), partitions=[*names])
        for name in names:
            self._is_changed(made, name, read(name))
        self.kept.append(made)
        return made.number, names

    def close(self, number: int | None) -> None:
        self.kept = [each for each in self.kept if each.number != number]

    def incremental(
        self, number: int, epoch: int, names: list[Any], forget: list[Any], read: Any, *, now_ms: int, by_id: bool
    ) -> Any:
        """An error's name, or the session's number (None if it is closed) and the partitions in the answer."""
        found = [each for each in self.kept if each.number == number]
        if not found:
            return "FETCH_SESSION_ID_NOT_FOUND"
        [session] = found
        if session.epoch != epoch:
            return "INVALID_FETCH_SESSION_EPOCH"
        if session.by_id != by_id:
            return "FETCH_SESSION_TOPIC_ID_ERROR"
        session.partitions += [name for name in names if name not in session.partitions]
        for name in forget:
            if name in session.partitions:
                session.partitions.remove(name)
                session.sent.pop(name, None)
        if not session.partitions:
            self.close(number)
            return None, names
        session.epoch, session.used_ms, session.size = epoch + 1, now_ms, len(session.partitions)
        session.turn = self._turn()
        answered = [name for name in session.partitions if self._is_changed(session, name, read(name))]
        for name in answered:
            if read(name)[1]:
                session.partitions.remove(name)
                session.partitions.append(name)
        return number, answered

    @staticmethod
    def _is_changed(session: Session, name: Any, found: tuple[bool, bool, int, int]) -> bool:
        error, has_records, high_watermark, start_offset = found
        before = session.sent.get(name, (-1, -1))
        session.sent[name] = (-1 if error else high_watermark), start_offset
        return error or has_records or before != (high_watermark, start_offset)

    def _turn(self) -> int:
        self.turns += 1
        return self.turns
