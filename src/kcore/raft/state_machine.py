"""The seam between a raft node and the one state machine that stands on it: a controller, a workload, a checker.

A machine gets four calls: its node leads, records are committed, restart from a snapshot, its node has resigned. It
returns data: appends, a resignation, and its own effects, which its edge performs. It never calls the node. `driver.py`
turns the effects of a node into these calls, and performs what they return.

A machine that leads replays its records when it decides, before they are committed. So its node does not give it those
records again: `on_committed` then gives the committed offset alone. Records that are not committed at `on_resigned` are
void: the machine reverts them, and gets them again if another leader commits them.

The machine counts offsets itself, and each append names the one it expects. The node also writes control records, which
move its end without asking the machine. An append behind such a record is refused as a value: nothing is written, and
`on_refused` says which offset is next. Source: RaftClient.Listener and KafkaRaftClient.ListenerContext.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from kcore.errors import DecodeError
from kcore.raft.log.batches import split_batches
from kcore.raft.log.raft_log import RaftLog, SnapshotPiece
from kcore.raft.log.snapshot_loading import MOST_UNREAD_BYTES
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.wire.record_batch import missing_offsets

SLICE_BYTES: Final = 1 << 19  # Of a log or a snapshot, that a machine is given at once; one batch may have more.


class Append(NamedTuple):
    """Records for the log of the leader of `epoch`, all in one batch; the first has `expected_offset`, or none has."""

    records: Sequence[bytes]  # Their values.
    epoch: int
    expected_offset: int


class AppendBatches(NamedTuple):
    """The same as whole batches of data, encoded from offset 0 on: the node writes offsets and epoch into the headers.

    Each batch is in the log as a whole or not at all; of several, a leader that loses its place may lose the last ones.
    """

    batches: bytes
    epoch: int
    expected_offset: int


class Resign(NamedTuple):
    """The machine cannot lead `epoch` any longer: its node resigns."""

    epoch: int


class UpgradeKraftVersion(NamedTuple):
    """The node shall write kraft.version and the voters as the leader of `epoch`; nothing happens where it cannot."""

    version: int
    epoch: int


AnyAppend: TypeAlias = Append | AppendBatches
E_co = TypeVar("E_co", covariant=True)  # Effects of a machine's own.


class StateMachine(Protocol[E_co]):
    """The calls of a machine. Each returns what must be done next, in order."""

    reads_batches: ClassVar[bool]  # False: it has no state, and of what is committed the end offset is enough for it.

    @property
    def is_at_work(self) -> bool:
        """Whether it still applies or reverts, part by part, what it was given: until then it is given nothing more.

        Its edge gives it the events for that. Only the end of leadership reaches it all the same.
        """

    def on_leader(self, epoch: int, offset: int) -> Sequence[AnyAppend | Resign | E_co]:
        """Its node leads `epoch`; all records below `offset` were given, and the first append is expected there."""

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[AnyAppend | Resign | E_co]:
        """All below `end_offset` is committed. `batches` are those that the machine has not replayed, as in the log.

        Whole batches, in order, each once; those with control records are marked in their headers. There are none while
        the machine leads, since it has replayed them, and none for a machine that reads none.
        """

    def on_snapshot(self, reader: "SnapshotReader") -> Sequence[AnyAppend | Resign | E_co]:
        """Drop the state and read it from `reader`.

        There is no further call before that is read to its end or closed.
        """

    def on_resigned(self, epoch: int) -> Sequence[AnyAppend | Resign | E_co]:
        """Its node has resigned `epoch`: records that the machine has appended and that are not committed are void."""

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[AnyAppend | Resign | E_co]:
        """The node leads on, but `append` expects the wrong offset: neither it nor any append behind it was written.

        The next append must expect `next_offset`.
        """


class SnapshotReader:
    """A snapshot, read by its machine when that has time for it: an iterator of slices, each of whole batches.

    A snapshot may be deleted meanwhile, when there is a newer one. Then the iterator ends, `is_lost` is true, and the
    machine is given a newer snapshot.
    """

    def __init__(self, snapshot: OffsetAndEpoch, piece: Callable[[int, int], SnapshotPiece | None]) -> None:
        """`piece`: by position and size, as `RaftLog.snapshot_piece`."""
        self.snapshot = snapshot  # The state is that at this offset.
        self.is_done = False
        self.is_lost = False
        self._piece, self._position, self._unread = piece, 0, b""
        self._next_offset = 0  # The next of the snapshot's own offsets, which have no gap.

    @classmethod
    def of_log(cls, log: RaftLog, snapshot: OffsetAndEpoch) -> Self:
        return cls(snapshot, lambda position, size: log.snapshot_piece(snapshot, position, size))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """DecodeError for a damaged snapshot."""
        while not self.is_done:
            piece = self._piece(self._position, SLICE_BYTES)
            if piece is None or not piece.data:
                self.is_lost = piece is None
                self.is_done = True
                break
            self._position += len(piece.data)
            data = self._unread + piece.data
            batches, problem = split_batches(data)
            if problem is not None:
                raise problem
            for batch in batches:
                if batch.base_offset != self._next_offset:
                    text = missing_offsets(self._next_offset, batch.base_offset)
                    raise DecodeError(f"a snapshot whose {text}", self._position)
                self._next_offset = batch.last_offset + 1
            size = sum(len(batch.data) for batch in batches)
            self._unread = data[size:]
            if len(self._unread) > MOST_UNREAD_BYTES:
                raise DecodeError(f"a batch of a snapshot has more than {MOST_UNREAD_BYTES} bytes", self._position)
            if size:
                return data[:size]
        raise StopIteration

    def close(self) -> None:
        """The machine stops reading."""
        self.is_done = True
