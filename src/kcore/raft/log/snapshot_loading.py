"""Checks a leader's snapshot while a follower loads it in pieces."""

from typing import Final

from kcore.errors import DecodeError
from kcore.raft.log.batches import split_batches
from kcore.raft.log.control_records import control_messages, replay_batches
from kcore.raft.membership.voters import VoterHistory, VoterSet
from kcore.raft.raft_config import MAX_BATCH_BYTES, CheckData
from kcore.replication.raft_log import OffsetAndEpoch, snapshot_name
from kcore.schema.control_records import SnapshotFooterRecord, SnapshotHeaderRecord

MOST_UNREAD_BYTES: Final = 8 * MAX_BATCH_BYTES  # Bound of an incomplete batch's bytes, above any batch of a leader.


class LoadingSnapshot:
    """A snapshot that arrives in pieces of any size. Checks each piece, so that no damaged snapshot is installed."""

    __slots__ = ("_check_data", "_has_footer", "_has_header", "history", "id", "size", "total", "unread")

    def __init__(
        self,
        snapshot: OffsetAndEpoch,
        static_voters: VoterSet,
        check_data: CheckData | None = None,
    ) -> None:
        """`check_data`: as in RaftConfig."""
        self.id = snapshot
        self.size = 0
        self.total: int | None = None  # The size that the leader sent with the first piece.
        self.unread = b""  # The beginning of an incomplete batch.
        self.history = VoterHistory(static_voters)
        self._check_data = check_data
        self._has_header = self._has_footer = False

    @property
    def is_whole(self) -> bool:
        """Whether the last record that was read is the snapshot's footer."""
        return self._has_footer and not self.unread

    def read(self, data: bytes) -> None:
        """Checks the snapshot's next bytes, and adds its kraft.version and voters to `history`.

        Raises DecodeError for invalid bytes, NewerReleaseError for a snapshot that only a newer release can load.
        """
        pending = self.unread + data
        batches, problem = split_batches(pending)
        if problem:
            raise problem
        self.unread = pending[sum(len(batch.data) for batch in batches) :]
        if len(self.unread) > MOST_UNREAD_BYTES:
            raise DecodeError(f"a batch of a snapshot has more than {MOST_UNREAD_BYTES} bytes", self.size)
        replay_batches(self.history, batches, at=self.id.offset - 1)
        if self._check_data is not None:
            self._check_data([batch.data for batch in batches if not batch.is_control], snapshot_name(self.id))
        if not batches:
            return
        first, last = batches[0], batches[-1]
        if not self._has_header:
            self._has_header = first.is_control and isinstance(control_messages(first)[0][1], SnapshotHeaderRecord)
            if not self._has_header:
                raise DecodeError("a snapshot does not begin with its header", 0)
        self._has_footer = last.is_control and isinstance(control_messages(last)[-1][1], SnapshotFooterRecord)
