"""The option `where` of kcore's sources: conditions that the reader checks while it reads files.

Spark can push the filters of a query down to a Python source, but keeps them for the next query on the same DataFrame.
After `frame.where("partition = 0").count()`, `frame.count()` counts only partition 0 (seen with 4.3.0,
spark.sql.python.filterPushdown.enabled). So kcore does not use that feature, and takes conditions as an option.

    topic = 'orders' and partition in (0, 7) and offset >= 1000 and timestamp < '2026-01-31T12:00:00Z'
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from kcore.errors import StorageError
from kcore.extras import needs
from kcore.types import Bools, Int64s

with needs("spark"):
    import pyarrow as pa
    import pyarrow.compute as pc

FORM: Final = "COLUMN = VALUE and COLUMN in (VALUE, VALUE) ...; also <> < <= > >= like, is null, is not null"
_TOKEN: Final = re.compile(
    r"\s*(?:(<>|!=|<=|>=|[=<>(),])|(-?\d+)|([xX])'([0-9a-fA-F]*)'|'((?:[^']|'')*)'|([A-Za-z_]\w*))"
)
_ARROW: Final = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_BOUNDS: Final[dict[str, Callable[[Int64s, Int64s, int], Bools]]] = {
    "=": lambda low, high, value: (low <= value) & (value <= high),
    ">": lambda low, high, value: high > value,
    ">=": lambda low, high, value: high >= value,
    "<": lambda low, high, value: low < value,
    "<=": lambda low, high, value: low <= value,
}


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


class Condition(NamedTuple):
    """One condition; `values` has one value, the several values of `in`, or no value for `is null`."""

    column: str
    operator: str
    values: tuple[Any, ...] = ()


class _Word(NamedTuple):
    kind: str  # "sign", "value" or "name".
    value: Any


def parse_where(text: str, schema: pa.Schema) -> list[Condition]:
    """Parses conditions. Raises StorageError for a wrong form, an unknown column, or a value of a wrong type."""
    words = list(_words(text))
    found: list[Condition] = []
    while words:
        if found and _take_name(words) != "and":
            raise StorageError(f"where: {text!r}: conditions are joined by `and`: {FORM}")
        try:
            condition = _condition(words, schema)
            kept(schema.empty_table(), [condition])
        except (IndexError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            reason = error if isinstance(error, StorageError) else f"not of the form {FORM}"
            raise StorageError(f"where: {text!r}: {reason}") from None
        found.append(condition)
    return found


def _words(text: str) -> Iterator[_Word]:
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise StorageError(f"where: {text!r}: cannot parse {text[position:].strip()!r}: {FORM}")
        sign, number, is_bytes, digits, words, name = match.groups()
        if sign:
            yield _Word("sign", "<>" if sign == "!=" else sign)
        elif name:
            yield _Word("name", name)
        elif number:
            yield _Word("value", int(number))
        else:
            yield _Word("value", bytes.fromhex(digits) if is_bytes else words.replace("''", "'"))
        position = match.end()


def _condition(words: list[_Word], schema: pa.Schema) -> Condition:
    column = words.pop(0).value
    if column not in schema.names:
        raise StorageError(f"there is no column {column!r}: there are {', '.join(schema.names)}")
    type_ = schema.field(column).type
    if words[0].kind == "sign":
        return Condition(column, words.pop(0).value, (_value(words, type_),))
    operator = _take_name(words)
    if operator in ("is", "not"):
        more = _take_name(words)
        operator += f" {more}" + (f" {_take_name(words)}" if more == "not" else "")
    if operator in ("is null", "is not null"):
        return Condition(column, operator)
    if operator == "like":
        return Condition(column, operator, (_value(words, type_),))
    if operator not in ("in", "not in") or words.pop(0).value != "(":
        raise ValueError(operator)
    values = [_value(words, type_)]
    while (sign := words.pop(0).value) == ",":
        values.append(_value(words, type_))
    if sign != ")":
        raise ValueError(sign)
    return Condition(column, operator, tuple(values))


def _take_name(words: list[_Word]) -> str:
    return str(words.pop(0).value).lower()


def _value(words: list[_Word], type_: pa.DataType) -> Any:
    word = words.pop(0)
    if word.kind != "value":
        raise ValueError(word.value)
    if pa.types.is_timestamp(type_):
        time = datetime.fromisoformat(word.value)
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return word.value


def kept(rows: Rows, conditions: Sequence[Condition]) -> Rows:
    """The rows for which every condition is true. As in SQL, a condition on null is not true."""
    for each in conditions:
        rows = rows.filter(_mask(each, rows))
    return rows


def _mask(condition: Condition, rows: Any) -> Any:
    """True for each row that meets the condition. Arrow raises an error if the values are not of the column's type."""
    column, operator, values = rows.column(condition.column), condition.operator, condition.values
    if operator in ("is null", "is not null"):
        return pc.is_null(column) if operator == "is null" else pc.is_valid(column)
    if operator == "like":
        return pc.match_like(column, values[0])
    if operator in _ARROW:
        return getattr(pc, _ARROW[operator])(column, pa.scalar(values[0], column.type))
    found = pc.is_in(column, value_set=pa.array(values, column.type))
    return pc.and_(pc.is_valid(column), found if operator == "in" else pc.invert(found))


def may_hold(conditions: Sequence[Condition], column: str, low: Int64s, high: Int64s) -> Bools:
    """For each range low..high (inclusive) of a column's values: False if no value in it meets all conditions.

    Times are in milliseconds.
    """
    found = np.ones(len(low), np.bool_)
    for each in conditions:
        compare = _BOUNDS.get("=" if each.operator == "in" else each.operator)
        if each.column == column and compare is not None:
            found &= np.any([_meets(compare, low, high, value) for value in each.values], axis=0)
    return found


def _meets(compare: Callable[[Int64s, Int64s, int], Bools], low: Int64s, high: Int64s, value: Any) -> Bools:
    if not isinstance(value, datetime):
        return compare(low, high, value)
    microseconds = pa.scalar(value, pa.timestamp("us", "UTC")).value
    # A time between two milliseconds is compared rounded down and rounded up, and neither result may exclude rows.
    return compare(low, high, microseconds // 1000) | compare(low, high, -(-microseconds // 1000))
