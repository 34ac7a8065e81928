"""Reads the voters from a log independently of the node, so that checkers can judge the node's own view."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.raft.membership.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.control_records import KRaftVersionRecord, VotersRecord
from kcore.sim.raft.disk import WatchedLog
from kcore.wire.records import control_message, records_of


class LoggedVoters(NamedTuple):
    """The latest kraft.version and voters. `offset`: where the record of the voters is, None for static voters."""

    kraft_version: int
    voters: VoterSet
    offset: int | None


@lru_cache(maxsize=1024)
def _logged_in(batch: bytes) -> Sequence[tuple[int, int | VoterSet]]:
    """Versions and voters in a control batch, and the offsets of their records.

    Cached, because all nodes have the same batches and read them at each start.
    """
    found: list[tuple[int, int | VoterSet]] = []
    for record in records_of(batch):
        message = control_message(record)
        if isinstance(message, KRaftVersionRecord):
            found.append((record.offset, message.kraft_version))
        elif isinstance(message, VotersRecord):
            found.append((record.offset, VoterSet.from_record(message)))
    return tuple(found)


@lru_cache(maxsize=64)
def _logged_in_snapshot(data: bytes) -> Sequence[tuple[int, int | VoterSet]]:
    """Versions and voters in a whole snapshot."""
    batches = split_batches(data, check_crc=False)[0]
    return tuple([logged for batch in batches if batch.is_control for logged in _logged_in(batch.data)])


class VotersOfLog:
    """kraft.version and voters by the offset of the record that set them; the static voters before any record."""

    def __init__(
        self,
        static_voters: VoterSet,
        log: WatchedLog,
        batches: Iterable[StoredBatch],
        snapshots: Mapping[OffsetAndEpoch, bytes],
    ) -> None:
        """Reads the latest snapshot and the log after it.

        `batches`: all batches of the log, or only those of control records; `snapshots`: the bytes of each snapshot.
        """
        self.last = LoggedVoters(0, static_voters, None)
        self._entries: list[tuple[int, LoggedVoters]] = [(-2, self.last)]
        begin, latest = 0, log.latest_snapshot
        if latest is not None:
            for _, logged in _logged_in_snapshot(snapshots[latest]):
                self._read(latest.offset - 1, logged)
            begin = latest.offset
        for batch in batches:
            if batch.is_control and begin <= batch.base_offset < log.end_offset:
                self.read(batch)

    def read(self, batch: StoredBatch) -> None:
        """Reads the next batch of the log."""
        if batch.is_control:
            for offset, logged in _logged_in(batch.data):
                self._read(offset, logged)

    def _read(self, offset: int, logged: int | VoterSet) -> None:
        before = self.last
        if isinstance(logged, VoterSet):
            self._add(offset, LoggedVoters(before.kraft_version, logged, offset))
        else:
            self._add(offset, before._replace(kraft_version=logged))

    def _add(self, offset: int, logged: LoggedVoters) -> None:
        self._entries.append((offset, logged))
        self.last = logged

    def cut(self, end_offset: int) -> None:
        """Forgets records from `end_offset` on, because the log was cut there."""
        while self._entries[-1][0] >= end_offset:
            self._entries.pop()
        self.last = self._entries[-1][1]
