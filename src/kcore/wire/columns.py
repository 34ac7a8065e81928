"""Holds messages as columns: one NumPy array per field, for any number of partitions.

The names mirror the message: `columns.controller_epoch` is a number, `columns.topic_states.topic_name` one string per
topic, `columns.topic_states.partition_states.controller_epoch` one number per partition.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from kcore.errors import DecodeError, EncodeError
from kcore.schema.index import message_class
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.structure import Field, Message, Struct
from kcore.types import Bools, Int32s, UInt8s, Uuid
from kcore.wire.layout import DTYPES, TEXTS
from kcore.wire.same import same_nulls, same_values

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]


class Vectors:
    """One list of values per row: row k has values[offsets[k]:offsets[k + 1]].

    `offsets`: int32, rows + 1. `values`: an array, or Strings or Vectors if the lists hold strings or lists.
    `valid`: one bool per row if the field is nullable, otherwise None; a null row is empty.
    """

    __slots__ = ("offsets", "valid", "values")

    def __init__(self, offsets: Int32s, values: Any, valid: Bools | None = None) -> None:
        """EncodeError for wrong types. Whether the offsets fit the values is checked when they are used."""
        check_offsets(offsets, valid)
        if not isinstance(values, np.ndarray | Vectors) or (isinstance(values, np.ndarray) and not values.ndim):
            raise EncodeError(f"values are an array, Strings or Vectors, not {values!r:.60}")
        self.offsets, self.valid = offsets, valid
        self.values: Any = values

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Any:
        """The row's values, a view; None for a null row. EncodeError for offsets beyond the values."""
        row = range(len(self))[row]
        if self.valid is not None and not self.valid[row]:
            return None
        begin, end = int(self.offsets[row]), int(self.offsets[row + 1])
        if not 0 <= begin <= end <= len(self.values):
            raise EncodeError(f"row {row} is from {begin} to {end}, and there are {len(self.values)} values")
        return self._part(begin, end)

    def _part(self, begin: int, end: int) -> Any:
        if isinstance(self.values, Vectors):
            return [self.values[k] for k in range(begin, end)]
        return self.values[begin:end]

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """True if every row has equal values, wherever they are stored; null and empty differ."""
        if not isinstance(other, Vectors) or isinstance(self, Strings) != isinstance(other, Strings):
            return NotImplemented
        if len(self) != len(other) or not same_nulls(self.valid, other.valid):
            return False
        sizes = np.diff(self.offsets), np.diff(other.offsets)
        return bool(np.array_equal(*sizes)) and same_values(self._all_values(), other._all_values())

    __hash__ = None  # type: ignore[assignment]

    def _all_values(self) -> Any:
        """The values of all rows, without values before the first row's or after the last one's."""
        begin, end = (int(self.offsets[0]), int(self.offsets[-1])) if len(self.offsets) else (0, 0)
        whole = self.values
        if isinstance(whole, Vectors):
            valid = None if whole.valid is None else whole.valid[begin:end]
            return type(whole)(whole.offsets[begin : end + 1], whole.values, valid)
        return whole[begin:end]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"


class Strings(Vectors):
    """One string per row, stored as offsets and UTF-8 bytes (uint8); a Python string is made when a row is read.

    Reading a row whose bytes are not UTF-8 raises DecodeError with its offset in the bytes.
    """

    __slots__ = ()

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Self:
        """Make Strings from Python strings. EncodeError for anything but strings and None, and for surrogates."""
        try:
            known = list(texts)
            encoded = [b"" if text is None else text.encode() for text in known]
        except (AttributeError, TypeError, UnicodeEncodeError) as error:
            raise EncodeError(f"texts must be strings that UTF-8 can carry: {error}") from error
        offsets = np.zeros(len(encoded) + 1, np.int32)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        valid = np.array([text is not None for text in known], np.bool_) if None in known else None
        return cls(offsets, np.frombuffer(b"".join(encoded), np.uint8), valid)

    def _part(self, begin: int, end: int) -> str:
        try:
            return self.values[begin:end].tobytes().decode()  # type: ignore[no-any-return]
        except UnicodeDecodeError as error:
            raise DecodeError("a string that is not UTF-8", begin + error.start) from error

    def tolist(self) -> list[str | None]:
        """All rows as Python strings."""
        raw, offsets = self.values.tobytes(), self.offsets
        is_sound = offsets[0] >= 0 and offsets[-1] <= len(raw) and not (offsets[1:] < offsets[:-1]).any()
        if self.valid is not None or not is_sound or not raw.isascii():
            return list(self)
        text = raw.decode()
        return [text[begin:end] for begin, end in pairwise(offsets.tolist())]  # ASCII has one byte a character.


class Spans(Vectors):
    """A records field, left in the message: row k is source[begins[k]:begins[k] + offsets[k + 1] - offsets[k]].

    source: uint8, the decoded message, which is kept alive and must not change. begins: int64. `values` has the bytes
    of all rows, copied when it is first read. Copies and pickles are plain Vectors.
    """

    __slots__ = ("begins", "gathered", "source")

    def __init__(
        self, offsets: Int32s, source: UInt8s, begins: npt.NDArray[np.int64], valid: Bools | None = None
    ) -> None:
        self.offsets, self.source, self.begins, self.valid = offsets, source, begins, valid
        self.gathered: UInt8s | None = None

    @property
    def values(self) -> UInt8s:
        """The bytes of all rows, one after the other."""
        if self.gathered is None:
            whole = self.source.data
            ends = self.begins + np.diff(self.offsets)
            parts = [whole[begin:end] for begin, end in zip(self.begins.tolist(), ends.tolist(), strict=True)]
            self.gathered = np.frombuffer(b"".join(parts), np.uint8)
        return self.gathered

    def __getitem__(self, row: int) -> Any:
        """The row's bytes, a view; None for a null row."""
        row = range(len(self))[row]
        if self.valid is not None and not self.valid[row]:
            return None
        begin = int(self.begins[row])
        return self.source[begin : begin + int(self.offsets[row + 1]) - int(self.offsets[row])]

    def __reduce__(self) -> tuple[type[Vectors], tuple[Any, ...]]:
        return Vectors, (self.offsets, self.values, self.valid)


class UnknownTags:
    """Tagged fields of a newer peer, sparse: row rows[k] has tag tags[k] with values[offsets[k]:offsets[k + 1]].

    rows: int32, ascending. tags: uint32, ascending within a row. offsets: int32. values: uint8.
    """

    __slots__ = ("offsets", "rows", "tags", "values")

    def __init__(self, rows: Int32s, tags: npt.NDArray[np.uint32], offsets: Int32s, values: UInt8s) -> None:
        self.rows, self.tags, self.offsets, self.values = rows, tags, offsets, values

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnknownTags):
            return NotImplemented
        return all(same_values(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"UnknownTags({len(self)})"


class Pending(Protocol):
    """A source of decoded columns that no caller has read yet."""

    @property
    def names(self) -> Collection[str]: ...

    def make(self, name: str) -> Any:
        """The column of that name."""


class Rows:
    """Structs of one kind as columns; one attribute per field, with Kafka's name in snake_case.

    Fixed-size fields are arrays (a uuid is uint8[rows, 16]), strings `Strings`, lists `Vectors`, structs `Rows`. The
    int32 `row_offsets` assign structs to the parent's rows: row k has the rows row_offsets[k]:row_offsets[k + 1]. None
    if each parent has one struct. A field that is not set or was not sent reads as its default.
    """

    def __init__(
        self,
        row_offsets: Int32s | None = None,
        *,
        valid: Bools | None = None,
        unknown_tags: UnknownTags | None = None,
        **columns: Any,
    ) -> None:
        """EncodeError for invalid offsets, nulls and tags; `bind` checks the columns."""
        if row_offsets is not None:
            check_offsets(row_offsets, valid)
            if row_offsets[-1] < 0:
                raise EncodeError(f"row_offsets must not fall, and the last one is {row_offsets[-1]}")
        if not (unknown_tags is None or isinstance(unknown_tags, UnknownTags)):
            raise EncodeError(f"unknown_tags are UnknownTags, not {unknown_tags!r:.60}")
        self.row_offsets, self.valid, self.unknown_tags = row_offsets, valid, unknown_tags
        self._made: dict[str, Any] = columns
        self._pending: Pending | None = None
        self._struct: type[Struct] = Struct
        self._count = 0

    @classmethod
    def decoded(
        cls,
        struct: type[Struct],
        count: int,
        row_offsets: Int32s | None,
        valid: Bools | None,
        unknown_tags: UnknownTags | None,
        pending: Pending,
    ) -> Self:
        """Rows whose columns are valid already and become arrays when they are read."""
        rows = cls.__new__(cls)
        rows.row_offsets, rows.valid, rows.unknown_tags = row_offsets, valid, unknown_tags
        rows._made, rows._pending, rows._struct, rows._count = {}, pending, struct, count
        return rows

    @property
    def _columns(self) -> dict[str, Any]:
        """All columns that are set, by name."""
        pending = self._pending
        if pending is not None:
            self._made = {name: self.column(name) for name in pending.names}
            self._pending = None
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have all arrays and no reference to their source."""
        return {"_made": self._columns} | {name: value for name, value in vars(self).items() if name != "_made"}

    def bind(self, struct: type[Struct], count: int) -> Self:
        """Sets the struct of the rows; EncodeError for a column that is not a field of the struct."""
        fields = {field.name: field for field in struct.__fields__}
        if unknown := self._columns.keys() - fields:
            raise EncodeError(f"{struct.__name__} has no field {', '.join(sorted(unknown))}")
        self._struct, self._count = struct, count
        for name, value in self._columns.items():
            below = struct_in(fields[name].type)
            if isinstance(value, Rows) != (below is not None):
                raise EncodeError(f"{struct.__name__}.{name}: {fields[name].type} and {value!r} do not go together")
            if below is not None:
                value.bind(below, rows_below(value, count))
        return self

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if (found := self._stored(name)) is not None:
            return found
        raise AttributeError(f"{self._struct.__name__} has no field {name}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._struct.__match_args__]

    def column(self, name: str) -> Any:
        """The column of that field, or None if it is not set."""
        found, pending = self._made.get(name), self._pending
        if found is None and pending is not None and name in pending.names:
            found = self._made[name] = pending.make(name)
            if len(self._made) == len(pending.names):
                self._pending = None
        return found

    def columns_of(self, names: tuple[str, ...]) -> list[Any]:
        """The columns of those fields, None for each unset one."""
        if self._pending is not None:
            return [self.column(name) for name in names]
        return [*map(self._made.get, names)]

    def to_arrow(self) -> "pa.RecordBatch":
        """As Arrow, one row per struct, with nested arrays of structs; memory is shared except for bools and nulls.

        Unset fields are left out. MissingExtraError without pyarrow.
        """
        from kcore.wire.arrow import record_batch  # pyarrow is loaded on first use.

        return record_batch(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream interface of Arrow's PyCapsules, for pyarrow, Polars, DuckDB and other libraries."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        """True if both have the same rows of the same struct; an unset column equals one of defaults."""
        if not isinstance(other, Rows) or self._struct is not other._struct:
            return NotImplemented
        if len(self) != len(other) or not same_nulls(self.valid, other.valid):
            return False
        if not same_values(self.row_offsets, other.row_offsets) or (self.unknown_tags or None) != (
            other.unknown_tags or None
        ):
            return False
        names = {*self._columns, *other._columns}
        return all(same_values(self._stored(name), other._stored(name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def _stored(self, name: str) -> Any:
        """The column of that field, or a column of its default if it is not set; None if there is no such field."""
        if (found := self.column(name)) is not None:
            return found
        field = next((field for field in self._struct.__fields__ if field.name == name), None)
        return None if field is None else default_column(field, self._count)

    def __repr__(self) -> str:
        return f"<{self._struct.__name__} x {self._count}: {', '.join(self._columns)}>"


class Columns(Rows):
    """A whole message as columns. Its own fields are plain values: `columns.broker_epoch` is an int.

    Columns(LeaderAndIsrRequest, controller_id=1, topic_states=Rows(row_offsets, topic_name=Strings.of(...), ...))
    """

    def __init__(self, message: str | type[Message], *, unknown_tags: UnknownTags | None = None, **values: Any) -> None:
        super().__init__(unknown_tags=unknown_tags, **values)
        self.message = message_class(message)
        self.bind(self.message, 1)
        fields = {field.name: field for field in self.message.__fields__}
        for name, value in values.items():
            self._made[name] = one_row(fields[name], value)

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if isinstance(value, Rows):
            return value
        return plain(value[0])

    @classmethod
    def of_columns(cls, message: type[Message], columns: dict[str, Any], unknown_tags: UnknownTags | None) -> Self:
        """A message from columns that have one row each, as decoding makes them."""
        made = cls.__new__(cls)
        Rows.__init__(made, unknown_tags=unknown_tags, **columns)
        made.message = message
        return made.bind(message, 1)


def check_offsets(offsets: Any, valid: Any) -> None:
    """EncodeError unless `offsets` and `valid` are arrays of the right kind and length."""
    if not isinstance(offsets, np.ndarray) or offsets.ndim != 1 or not len(offsets) or offsets.dtype.kind != "i":
        raise EncodeError(f"offsets are an array of int32, one more than there are rows, not {offsets!r:.60}")
    if valid is not None and not (
        isinstance(valid, np.ndarray) and valid.dtype == np.bool_ and valid.shape == (len(offsets) - 1,)
    ):
        raise EncodeError(f"valid is an array of {len(offsets) - 1} bools or None, not {valid!r:.60}")


def plain(value: Any) -> Any:
    """The value of one of the message's own fields as a Python value; arrays stay arrays."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.shape == (16,) and value.dtype == np.uint8:
        return Uuid(value.tobytes())
    return value


def struct_in(type_: FieldType) -> type[Struct] | None:
    """The struct of a field that holds one struct or a list of them."""
    return type_.struct or (type_.element.struct if type_.element else None)


def rows_below(rows: Rows, count: int) -> int:
    """The number of rows for `count` rows of the parent."""
    return count if rows.row_offsets is None else int(rows.row_offsets[-1]) if len(rows.row_offsets) else 0


def one_row(field: Field, value: Any) -> Any:
    """A field of the message itself as a column of one row; EncodeError if the value does not fit."""
    kind = field.type.kind
    if isinstance(value, (Rows, Vectors)):
        return value
    try:
        if kind is Kind.UUID:
            return np.frombuffer(Uuid(value), np.uint8).reshape(1, 16)
        if kind in DTYPES:
            return np.array([value], DTYPES[kind])
        if kind is Kind.STRING:
            return Strings.of([value])
        dtype = np.dtype(np.uint8) if kind in TEXTS else DTYPES[field.type.element.kind if field.type.element else kind]
        values = np.frombuffer(value, dtype) if kind in TEXTS else np.array(value, dtype)
    except (OverflowError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EncodeError(f"{field.name}: {value!r} is no {field.type}") from error
    return Vectors(np.array([0, len(values)], np.int32), values)


def default_column(field: Field, count: int) -> Any:
    """A column with the field's default in each row, which takes no memory per row."""
    kind, default = field.type.kind, field.default()
    if kind is Kind.UUID:
        return np.broadcast_to(np.frombuffer(default, np.uint8), (count, 16))
    if kind in DTYPES:
        return np.broadcast_to(DTYPES[kind].type(default), (count,))
    nothing: Int32s = np.broadcast_to(np.int32(0), (count + 1,))
    valid = np.broadcast_to(np.False_, (count,)) if default is None else None
    if kind is Kind.STRING:
        return Strings(nothing, np.empty(0, np.uint8), valid)
    struct = struct_in(field.type)
    if struct is not None:
        rows = Rows(None if kind is Kind.STRUCT and default is not None else nothing, valid=valid)
        return rows.bind(struct, rows_below(rows, count))
    return Vectors(nothing, no_values(field.type.element), valid)


def no_values(element: FieldType | None) -> Any:
    """The values of lists that are all empty; `element` is None for bytes."""
    if element is None or element.kind in DTYPES:
        dtype = np.dtype(np.uint8) if element is None else DTYPES[element.kind]
        return np.empty(0, dtype)
    nothing = np.zeros(1, np.int32)
    return (Strings if element.kind is Kind.STRING else Vectors)(nothing, no_values(element.element))
