"""Encodes and decodes the state znodes of many partitions at once, as columns."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from kcore._ext.tables import znodes as kernel
from kcore.constants import NO_EPOCH, NO_LEADER
from kcore.errors import TableError
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.zookeeper import znodes
from kcore.types import Int8s, Int32s, Int64s, UInt8s

_LONGEST_PATH_PART = 64  # The most characters of a state's path beside the topic's name.
_UNREADABLE: Final = znodes.PartitionStateNode(NO_LEADER, NO_EPOCH, (), NO_EPOCH)  # Stands for an unreadable state.


class Texts(NamedTuple):
    """Many texts in one array."""

    text: UInt8s
    offsets: Int64s  # one more than the texts

    @property
    def total(self) -> int:
        """The number of texts."""
        return len(self.offsets) - 1

    def at(self, row: int) -> bytes:
        """The text in this row."""
        return self.text[self.offsets[row] : self.offsets[row + 1]].tobytes()


class StateColumns(NamedTuple):
    """The states of c partitions; the ISR of state k is `isr[isr_offsets[k]:isr_offsets[k + 1]]`."""

    leaders: Int32s
    leader_epochs: Int32s
    controller_epochs: Int32s
    recovery: Int8s
    isr_offsets: Int32s  # c + 1
    isr: Int32s


def texts_of(values: Sequence[bytes]) -> Texts:
    """Concatenates texts."""
    return Texts(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)], dtype=np.int64))


def partition_paths(
    topics: Sequence[str], topic_rows: Int32s, partitions: Int32s, *, chroot: str = "", below: str = "/state"
) -> Texts:
    """The paths of partitions' states, or of another path `below` each partition's znode."""
    topics_used, inverse = np.unique(topic_rows, return_inverse=True)
    rows: Int32s = inverse.astype(np.int32)
    names = texts_of([topics[row].encode() for row in topics_used.tolist()])
    prefix = f"{chroot}{znodes.TOPICS}/".encode()
    sizes = np.diff(names.offsets)[rows] + (_LONGEST_PATH_PART + len(prefix) + len(below))
    out, offsets = np.empty(int(sizes.sum()), np.uint8), np.empty(len(rows) + 1, np.int64)
    kernel.write_paths(
        names.text,
        names.offsets,
        rows,
        np.ascontiguousarray(partitions, np.int32),
        prefix,
        below.encode(),
        out,
        offsets,
    )
    return Texts(out, offsets)


def encode_states(changes: UnwrittenChanges, controller_epoch: int) -> Texts:
    """The data of state znodes with these changes (TopicPartitionStateZNode)."""
    out = np.empty(kernel.state_bytes(len(changes), len(changes.isr)), np.uint8)
    offsets = np.empty(len(changes) + 1, np.int64)
    columns = (changes.leaders, changes.leader_epochs, changes.isr)
    leaders, epochs, isr = (np.ascontiguousarray(column, np.int32) for column in columns)
    isr_offsets = np.array(changes.isr_offsets, np.int32)  # A copy, which cannot change after the kernel's checks.
    recovery = np.ascontiguousarray(changes.recovery, np.int8)
    kernel.write_states(leaders, epochs, isr_offsets, isr, recovery, controller_epoch, out, offsets)
    return Texts(out, offsets)


def decode_states(
    text: UInt8s | bytes,
    begins: Int64s,
    ends: Int64s,
    path: Callable[[int], str],
    on_error: Callable[[int, TableError], None] | None = None,
) -> StateColumns:
    """Decodes states: state c is `text[begins[c]:ends[c]]`, and `path(c)` is its znode's path for errors.

    With `on_error`, which gets each error, no TableError is raised; an unreadable state has leader and epochs -1.
    """
    count = len(begins)
    text = np.frombuffer(text, np.uint8)
    begins, ends = begins.copy(), ends.copy()  # Copies, which cannot change after the kernel's checks.
    values, recovery = np.empty((3, count), np.int32), np.empty(count, np.int8)
    offsets, isr = np.empty(count + 1, np.int32), np.empty(int((ends - begins).sum()) // 2 + 1, np.int32)
    is_read = np.empty(count, np.uint8)
    kernel.parse_states(text, begins, ends, values, recovery, offsets, isr, is_read)
    columns = StateColumns(values[0], values[1], values[2], recovery, offsets, isr[: offsets[-1]])
    left = np.flatnonzero(is_read == 0)
    states = []
    for row in left.tolist():
        try:
            states.append(znodes.decode_state(path(row), text[begins[row] : ends[row]].tobytes()))
        except TableError as error:
            if on_error is None:
                raise
            on_error(row, error)
            states.append(_UNREADABLE)
    return _with_states(columns, left, states) if states else columns


def _with_states(columns: StateColumns, rows: Int64s, states: list[znodes.PartitionStateNode]) -> StateColumns:
    """Adds states that the kernel could not decode, and Python's json has decoded."""
    columns.leaders[rows] = [state.leader for state in states]
    columns.leader_epochs[rows] = [state.leader_epoch for state in states]
    columns.controller_epochs[rows] = [state.controller_epoch for state in states]
    columns.recovery[rows] = [state.leader_recovery_state for state in states]
    members = np.array([broker for state in states for broker in state.isr], np.int32)
    counts = np.zeros(len(columns.isr_offsets), np.int32)
    counts[rows + 1] = [len(state.isr) for state in states]
    isr = np.insert(columns.isr, np.repeat(columns.isr_offsets[rows], counts[rows + 1]), members)
    return columns._replace(isr=isr, isr_offsets=columns.isr_offsets + np.cumsum(counts, dtype=np.int32))
