"""The interface between a raft node and its state machine: a controller, a workload, a checker.

`driver.py` calls the machine when its node leads, when records are committed, when it must restart from a snapshot,
when its node has resigned, and when an append was refused. The machine returns data: appends, a resignation, and its
own effects, which its edge performs. It never calls the node; `driver.py` performs the appends and the resignation.

A machine whose node leads replays its records when it decides, before they are committed. So `on_committed` gives it
only the committed offset, not the records. Records that are not committed at `on_resigned` are void: the machine
reverts them, and gets them again if another leader commits them.

The machine counts offsets itself, and each append names the offset that it expects. The node's own control records also
advance the log's end. If an append expects an offset before them, the node writes nothing, and `on_refused` gives the
next offset. Source: RaftClient.Listener and KafkaRaftClient.ListenerContext.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from kcore.errors import DecodeError
from kcore.raft.log.batches import split_batches
from kcore.raft.log.raft_log import RaftLog, SnapshotPiece
from kcore.raft.log.snapshot_loading import MOST_UNREAD_BYTES
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.wire.record_batch import missing_offsets

SLICE_BYTES: Final = 1 << 19  # A machine gets at most so many bytes per call, unless a single batch is larger.


class Append(NamedTuple):
    """Append records in one batch as the leader of `epoch`; refused unless the next offset is `expected_offset`."""

    records: Sequence[bytes]  # The values of the records.
    epoch: int
    expected_offset: int


class AppendBatches(NamedTuple):
    """Append whole batches of data, encoded from offset 0 on; the node writes offsets and epoch into the headers.

    The log has each batch as a whole or not at all. If the leader changes, the last batches may be lost.
    """

    batches: bytes
    epoch: int
    expected_offset: int


class Resign(NamedTuple):
    """Resign from `epoch`, because the machine cannot lead any longer."""

    epoch: int


class UpgradeKraftVersion(NamedTuple):
    """Write kraft.version and the voters as the leader of `epoch`; no effect if the node cannot upgrade."""

    version: int
    epoch: int


AnyAppend: TypeAlias = Append | AppendBatches
E_co = TypeVar("E_co", covariant=True)  # The type of a machine's own effects.


class StateMachine(Protocol[E_co]):
    """The calls that a machine gets. Each returns its outputs, in the order in which they must be performed."""

    reads_batches: ClassVar[bool]  # False: the machine ignores records, and needs only the committed end offset.

    @property
    def is_at_work(self) -> bool:
        """Whether the machine is still applying or reverting records in slices, between other events of its edge.

        While it is true, the driver calls only `on_resigned`.
        """

    def on_leader(self, epoch: int, offset: int) -> Sequence[AnyAppend | Resign | E_co]:
        """The node leads `epoch`; the machine has all records below `offset`, where its first append must be."""

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[AnyAppend | Resign | E_co]:
        """All records below `end_offset` are committed. `batches` has the records that the machine has not replayed.

        `batches` are whole batches of the log, control batches included, in order, each once. It is empty while the
        node leads, since the machine has replayed its own records, and for a machine with `reads_batches` False.
        """

    def on_snapshot(self, reader: "SnapshotReader") -> Sequence[AnyAppend | Resign | E_co]:
        """Drop the state and read it from `reader`. No call follows before the reader is at its end or closed."""

    def on_resigned(self, epoch: int) -> Sequence[AnyAppend | Resign | E_co]:
        """The node has resigned from `epoch`: the machine's records that are not committed are void."""

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[AnyAppend | Resign | E_co]:
        """The node still leads, but `append` expects the wrong offset: this append and later ones were not written.

        The next append must expect `next_offset`.
        """


class SnapshotReader:
    """A snapshot that a machine reads at its own pace: an iterator of slices, each of whole batches.

    If the log deletes the snapshot meanwhile, the iterator ends, `is_lost` is true, and the driver calls `on_snapshot`
    with a newer snapshot.
    """

    def __init__(self, snapshot: OffsetAndEpoch, piece: Callable[[int, int], SnapshotPiece | None]) -> None:
        """`piece` returns bytes by position and size, as `RaftLog.snapshot_piece` does."""
        self.snapshot = snapshot  # The snapshot's id: its end offset and epoch.
        self.is_done = False
        self.is_lost = False
        self._piece, self._position, self._unread = piece, 0, b""
        self._next_offset = 0  # Offsets within a snapshot begin at 0 and have no gap.

    @classmethod
    def of_log(cls, log: RaftLog, snapshot: OffsetAndEpoch) -> Self:
        return cls(snapshot, lambda position, size: log.snapshot_piece(snapshot, position, size))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The next slice; raises DecodeError for a damaged snapshot."""
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
        """Stops reading."""
        self.is_done = True
