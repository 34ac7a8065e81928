"""Decodes bytes to columns and encodes columns to bytes."""

from functools import cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kcore._ext.columns.columns_read import Reader
from kcore._ext.columns.columns_write import Writer
from kcore._ext.columns.vectors import pack
from kcore.errors import ArgumentError, DecodeError, EncodeError, UnsupportedVersionError
from kcore.schema.index import message_class
from kcore.schema.kinds import Kind
from kcore.schema.structure import Message
from kcore.wire.buffers import bytes_of, immutable, is_immutable
from kcore.wire.columns import Columns, Rows, Spans, Strings, UnknownTags, Vectors
from kcore.wire.gather import gather
from kcore.wire.grouping import group, old_shape, ungroup
from kcore.wire.layout import Branch, Code, Program, Slot, program

MAX_BYTES = 2**31 - 1  # A frame's size is an int32, and so are our offsets.


def decode_columns(name: str | type[Message], version: int, data: bytes | bytearray | memoryview) -> Columns:
    """Decode a message without header to columns, without an object for each partition.

    Partitions are grouped by topic in every version: consecutive ones of equal name are one topic (KIP-380). `bytes`
    and views of them are read in place. Any other buffer, such as a bytearray, a mapped file or an array, is copied
    first, since another thread may change it. DecodeError (with the offset) if the bytes are not such a message,
    UnsupportedVersionError for other versions.
    """
    try:
        message, running, shape = prepared(name, version)
    except TypeError:  # An unhashable argument is in no cache.
        raise ArgumentError(f"expected a message and a version, not {name!r:.60} and {version!r:.60}") from None
    view = bytes_of(data)
    if len(view) > MAX_BYTES:
        raise DecodeError(f"a message has at most {MAX_BYTES} bytes", MAX_BYTES)
    columns: Columns = rows_of(running.root, None, Filled(running, immutable(view), None), Columns)
    columns.message = message
    return columns if shape is None else group(columns, shape)


@cache
def prepared(name: str | type[Message], version: int) -> tuple[type[Message], Program, Any]:
    """The message's class, its program, and the old shape of a version that does not group partitions by topic."""
    message = message_class(name)
    return message, program(message, version), old_shape(message, version)


def decode_rows(
    message: type[Message], version: int, data: bytes | bytearray | memoryview, spans__mx: npt.NDArray[np.int64]
) -> Rows:
    """Many messages of one kind and version as columns, one row per message, in the order of their spans.

    `spans__mx`: int64, the begin and end of message m in `data`. Messages are read in place or copied as in
    `decode_columns`; the spans must not change meanwhile. DecodeError with the offset in `data` for the first invalid
    message, or for more than 2 GiB of messages.
    """
    view = bytes_of(data)
    spans__mx = np.ascontiguousarray(spans__mx, np.int64)
    begins, ends = spans__mx.T
    if (begins < 0).any() or (begins > ends).any() or (ends > len(view)).any():
        raise DecodeError(f"a message beyond the {len(view)} bytes", len(view))
    if (ends - begins).sum() > MAX_BYTES:
        raise DecodeError(f"messages of more than {MAX_BYTES} bytes", 0)
    running = program(message, version)
    filled = Filled(running, view, spans__mx) if is_immutable(view) else filled_of_copies(running, view, spans__mx)
    rows: Rows = rows_of(running.root, None, filled)
    return rows


def filled_of_copies(running: Program, view: memoryview, spans__mx: npt.NDArray[np.int64]) -> "Filled":
    """The columns of copies of the messages, taken once because others may change the memory of `view`."""
    begins, ends = spans__mx.T
    # One byte between two messages: the offset of an error at the end of one message is then in no other message.
    places = np.concatenate([[0], np.cumsum(ends - begins + 1)])
    packed = np.empty(int(places[-1]), np.uint8)
    pack(view, spans__mx, places[:-1], packed)
    spans = np.stack([places[:-1], places[1:] - 1], axis=1)
    try:
        return Filled(running, packed.data, spans)
    except DecodeError as error:
        m = int(np.searchsorted(places, error.offset, "right")) - 1
        raise DecodeError(error.message, int(begins[m]) + error.offset - int(places[m])) from None


@overload
def encode_columns(columns: Columns, version: int) -> bytes: ...
@overload
def encode_columns(columns: Columns, version: int, out: bytearray | memoryview | npt.NDArray[np.uint8]) -> int: ...
def encode_columns(columns: Columns, version: int, out: Any = None) -> bytes | int:
    """Encode columns as bytes, or write them to the front of `out` and return the number of bytes.

    Another thread may change the columns meanwhile. Columns that determine places (offsets, validity, starts of spans)
    are copied or read only once; values and texts are written as they are when they are read. UnsupportedVersionError
    if a field is set that the version lacks and must not drop; EncodeError for invalid columns, for an `out` that is
    too small or read-only; NotBytesError for an `out` that is not a buffer of bytes.
    """
    writer = prepare(columns, version)
    if out is None:
        return writer.to_bytes()
    room = bytes_of(out)
    if room.readonly:
        raise EncodeError(f"`out` is read-only: {type(out).__name__}")
    if len(room) < writer.size:
        raise EncodeError(f"the message takes {writer.size} bytes, `out` has room for {len(room)}")
    writer.fill(room)
    return writer.size


def encode_rows(message: type[Message], version: int, rows: Rows, count: int) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Encodes `count` messages of one kind and version, one per row; returns all bytes, and the end of each message.

    The reverse of `decode_rows`; errors as `encode_columns`. UnsupportedVersionError for a version whose partitions are
    not grouped by topic.
    """
    if old_shape(message, version) is not None:
        raise UnsupportedVersionError(f"{message.__name__} {version} has no topics: encode one message at a time")
    writer = measured(program(message, version), rows.bind(message, count), count)
    ends = np.empty(count, np.int64)
    return writer.to_bytes_each(ends), ends


def prepare(columns: Columns, version: int) -> Writer:
    """A writer with checked columns and a known size."""
    if not isinstance(columns, Columns):
        raise EncodeError(f"expected Columns, not {type(columns).__name__}")
    try:
        running = program(columns.message, version)
    except TypeError:
        raise ArgumentError(f"expected a version, not {version!r:.60}") from None
    shape = old_shape(columns.message, version)
    return measured(running, columns if shape is None else ungroup(columns, shape), 1)


def measured(running: Program, rows: Rows, count: int) -> Writer:
    """A writer of `count` messages; EncodeError for invalid columns."""
    gathered = gather(running, rows, count)
    try:
        writer = Writer(running.tables, gathered.arrays, gathered.rows, gathered.tag_counts)
    except ValueError:  # Not C-contiguous.
        arrays = [None if array is None else np.ascontiguousarray(array) for array in gathered.arrays]
        writer = Writer(running.tables, arrays, gathered.rows, gathered.tag_counts)
    problem, column = writer.measure()
    if problem:
        raise EncodeError(f"{path_of(running.root, column)}: {problem}")
    if writer.size > MAX_BYTES:
        raise EncodeError(f"the message takes {writer.size} bytes, more than a frame can have")
    return writer


class Filled:
    """The columns of messages in one arena; the array of column k is made when it is first read."""

    __slots__ = ("arena", "columns", "counts", "message", "places", "rows")

    def __init__(self, running: Program, data: memoryview, spans__mx: npt.NDArray[np.int64] | None) -> None:
        """Decodes one message, or many by their spans; DecodeError for an invalid message."""
        reader = Reader(running.tables, data, spans__mx)
        problem, offset = reader.measure()
        if problem:
            raise DecodeError(problem, offset)
        self.rows, self.counts, self.places, room = reader.arrange()
        self.columns, self.arena = running.columns, np.empty(room, np.uint8)
        reader.fill(self.arena)
        self.message = np.frombuffer(data.toreadonly() if running.keeps_message else b"", np.uint8)

    def __getitem__(self, k: int) -> npt.NDArray[Any]:
        return np.ndarray(self.counts[k], self.columns[k].dtype, self.arena, self.places[k])


class Slots:
    """Makes the columns of the fields that were sent, each when it is first read (`kcore.wire.columns.Pending`)."""

    __slots__ = ("filled", "names")

    def __init__(self, branch: Branch, filled: Filled) -> None:
        self.names, self.filled = branch.by_name, filled
        if unsent := [name for name, column in branch.tagged if filled.places[column] < 0]:
            self.names = {name: slot for name, slot in self.names.items() if name not in unsent}

    def make(self, name: str) -> Any:
        return column_of(self.names[name], self.filled)


def rows_of(branch: Branch, slot: Slot | None, filled: Filled, made: type[Rows] = Rows) -> Any:
    """The columns of a struct's node and of all nodes below it, by name."""
    assert branch.plan is not None
    offsets = valid = tags = None
    if slot is not None and (slot.code is Code.ROWS or slot.step.nullable):
        offsets = filled[slot.column]
        valid = filled[slot.column + 1] if slot.code is Code.ROWS and slot.step.nullable else None
    if branch.plan.flexible and filled.counts[branch.tag_column]:
        tags = UnknownTags(*(filled[branch.tag_column + k] for k in range(4)))
    return made.decoded(branch.plan.struct, filled.rows[branch.node], offsets, valid, tags, Slots(branch, filled))


def column_of(slot: Slot, filled: Filled) -> Any:
    """The arrays of one field as an array, Strings, Vectors or Rows."""
    if slot.code <= Code.BOOL:
        return filled[slot.column]
    if slot.begins >= 0:
        valid = valid_of(slot, filled, 2)
        return Spans(filled[slot.column], filled.message, filled[slot.begins], *valid)
    if slot.code is Code.VECTOR:
        view = Strings if slot.type.kind is Kind.STRING else Vectors
        return view(filled[slot.column], filled[slot.column + 1], *valid_of(slot, filled, 2))
    assert slot.child is not None
    if slot.child.plan is not None:
        return rows_of(slot.child, slot, filled)
    [element] = slot.child.slots
    return Vectors(filled[slot.column], column_of(element, filled), *valid_of(slot, filled, 1))


def valid_of(slot: Slot, filled: Filled, place: int) -> list[npt.NDArray[Any]]:
    return [filled[slot.column + place]] if slot.step.nullable else []


def path_of(branch: Branch, column: int) -> str:
    """The path from the message to the field whose first column is `column`."""
    slots = list(branch.slots)
    while slots:
        slot = slots.pop()
        if slot.column == column:
            return slot.path
        slots += slot.child.slots if slot.child else ()
    raise AssertionError(column)
