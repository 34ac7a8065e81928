"""An active controller without a raft node: a test commits or discards its appended records."""

from typing import Any

from controller.kraft.runtime import BEGIN_MS, BOOTSTRAP, controller_of
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.outputs import LogLine, Outputs, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.raft.log.batches import restamped, split_batches
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import AppendBatches, Resign, SnapshotReader, UpgradeKraftVersion
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.structure import Message
from kcore.wire.records import decode_records


class Active:
    """It leads an epoch: the first one, or a later one of a log that another wrote. `now_ms` is its clock's time."""

    def __init__(self, log: bytes = b"", epoch: int = 1, bootstrap: Bootstrap = BOOTSTRAP, **settings: Any) -> None:
        self.now_ms = BEGIN_MS
        self.controller = controller_of(lambda: self.now_ms, bootstrap=bootstrap, seed=epoch, **settings)
        self.log, self.committed_log = log, log
        self.answers: dict[Any, Message | None] = {}
        self.log_lines: list[LogLine] = []
        self.kraft_versions: list[int] = []  # That it asked raft to write.
        self.has_given_up = False
        if log:
            self.controller.on_committed(log, _end_of(log))
        self.take(self.controller.on_leader(epoch, self.controller.image.end_offset))

    def take(self, outputs: Outputs) -> None:
        for each in outputs:
            if isinstance(each, AppendBatches):
                self.log += each.batches
            elif isinstance(each, RequestAnswer):
                assert each.reply_to not in self.answers, "answered twice"
                self.answers[each.reply_to] = each.response
            elif isinstance(each, LogLine):
                self.log_lines.append(each)
            elif isinstance(each, UpgradeKraftVersion):
                self.kraft_versions.append(each.version)
            elif isinstance(each, Resign):
                self.has_given_up = True
                self.resign()
            elif isinstance(each, WorkOn):
                self.take(self.controller.on_work())

    def ask(self, request: Message, name: Any = None, version: int | None = None, **info: Any) -> Any:
        """`name` is that under which it is answered; the answer, where it depends on no commit."""
        name = object() if name is None else name
        newest = type(request).versions.highest
        asked = RequestInfo(newest if version is None else version, self.now_ms, self.now_ms, **info)
        self.take(self.controller.on_request(request, asked, name))
        return self.answers.get(name)

    def answer(self, request: Message, version: int | None = None, **info: Any) -> Any:
        """All is committed, and what the controller answered."""
        name = object()
        self.ask(request, name, version, **info)
        self.commit()
        return self.answers[name]

    def commit(self) -> None:
        """All that it appended."""
        self.committed_log = self.log
        self.take(self.controller.on_committed(b"", self.controller.image.end_offset))

    def resign(self) -> None:
        """Uncommitted records are lost with the leadership."""
        self.log = self.committed_log
        assert self.controller.epoch is not None
        self.take(self.controller.on_resigned(self.controller.epoch))

    def replayed(self) -> ClusterImage:
        """The image of a reader of its log."""
        image = ClusterImage()
        replay(image, decode_records(self.log))
        return image


def read_snapshot(controller: KraftController, data: bytes, offset: int) -> int:
    """The controller of a standby loads it; how many calls that took. `data`: slices, each from any offset on."""
    snapshot, data = OffsetAndEpoch(offset, 1), counted_from_zero(data)
    reader = SnapshotReader(snapshot, lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
    outputs, calls = controller.on_snapshot(reader), 0
    while any(isinstance(each, ReadSnapshotSlice) for each in outputs):
        outputs = controller.on_read_slice()
        calls += 1
    return calls


def counted_from_zero(data: bytes) -> bytes:
    """The batches with the offsets of a snapshot, as the node writes them (SnapshotWriter)."""
    parts, next_offset = [], 0
    for batch in split_batches(data)[0]:
        parts.append(restamped(batch, next_offset, batch.epoch))
        next_offset += batch.last_offset - batch.base_offset + 1
    return b"".join(parts)


def _end_of(log: bytes) -> int:
    return int(decode_records(log).offset[-1]) + 1
