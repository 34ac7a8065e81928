"""Rows of `kcore bench designs`: one per repetition and design, way to write or way to send a command."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import Any, Final, Self

import pyarrow as pa

NOT_KNOWN: Final = -1
ARTICLE_WRITE_MS: Final = 4.0  # One ZooKeeper write in the article: 10K partitions take 40 s.
ONE_BY_ONE: Final = "one by one"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; a figure that does not apply is -1."""

    kind: str  # "design", "writes", "command"
    name: str
    repetition: int
    partitions: int
    brokers: int
    count: int = NOT_KNOWN  # Lost leaders, writes or commands, by `kind`.
    watchers: int = NOT_KNOWN  # In the healthy cluster, by ZooKeeper's own count.
    znodes: int = NOT_KNOWN
    setup_reads: int = NOT_KNOWN
    setup_writes: int = NOT_KNOWN
    setup_ms: float = NOT_KNOWN
    reads: int = NOT_KNOWN  # Znodes read by all brokers and the controller.
    writes: int = NOT_KNOWN
    events: int = NOT_KNOWN  # Watches that fired, by ZooKeeper's own count.
    packets: int = NOT_KNOWN  # Received and sent by ZooKeeper.
    bytes: int = NOT_KNOWN  # Through ZooKeeper.
    rpc_bytes: int = NOT_KNOWN  # The size of requests to brokers.
    ms: float = NOT_KNOWN
    routed_ms: float = NOT_KNOWN  # Until clients have read the external view.
    predicted_ms: float = NOT_KNOWN  # `writes` x the measured time of one write.
    article_ms: float = NOT_KNOWN  # `writes` x 4 ms.
    note: str = ""
    error: str | None = None

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        """Makes a row from a row of a result file."""
        return cls(**row)


SCHEMA: Final = pa.schema(
    [
        (each.name, pa.int64() if each.type is int else pa.float64() if each.type is float else pa.string())
        for each in fields(Row)
    ]
)

NEEDED: Final = ("kind", "name", "repetition", "partitions", "brokers", "ms", "error")
"""The columns that name a measurement and its time; earlier runs must have them."""


def table_of(rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table, for the result file."""
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=SCHEMA)


def one_write_ms(rows: Iterable[Row]) -> float:
    """The median time of one write, each written after the one before; -1 if none was measured."""
    times = [
        row.ms / row.count for row in rows if row.name == ONE_BY_ONE and row.error is None and row.kind == "writes"
    ]
    return median(times) if times else NOT_KNOWN


def predicted(rows: Sequence[Row]) -> list[Row]:
    """The rows with the time that their writes should take one after the other: as measured, and as in the article."""
    each_ms = one_write_ms(rows)

    def with_prediction(row: Row) -> Row:
        if row.writes < 0 or row.error is not None:
            return row
        here_ms = row.writes * each_ms if each_ms > 0 else NOT_KNOWN
        return replace(row, predicted_ms=here_ms, article_ms=row.writes * ARTICLE_WRITE_MS)

    return [with_prediction(row) for row in rows]


def merged(rows: Iterable[Row]) -> list[Row]:
    """Merges the repetitions of each measurement: all figures are medians. Rows with errors are left out."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.error is None:
            groups.setdefault((row.kind, row.name), []).append(row)
    return [_merged(group) for group in groups.values()]


def _merged(group: Sequence[Row]) -> Row:
    figures = {each.name for each in fields(Row) if each.type in (int, float)}
    typical: dict[str, Any] = {name: median(getattr(row, name) for row in group) for name in figures}
    counts = {each.name for each in fields(Row) if each.type is int}
    typical |= {name: int(typical[name]) for name in counts} | {"repetition": len(group)}
    return replace(group[0], **typical)
