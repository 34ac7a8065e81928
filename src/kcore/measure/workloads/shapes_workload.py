"""Shapes: the bytes of a partition before KIP-380 (a topic name per partition) and after it (a name per topic)."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.clusters import cluster_of
from kcore.measure.workloads.measure import Operation
from kcore.measure.workloads.messages import leader_and_isr, memory_of, stop_replica, update_metadata
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema.structure import Message
from kcore.wire.codec import decode, encode
from kcore.wire.column_codec import decode_columns, encode_columns
from kcore.wire.columns import Columns

SHAPES = ((leader_and_isr, (1, 2)), (update_metadata, (4, 5)), (stop_replica, (0, 1)))  # Before and after KIP-380.


def setup(cell: Cell, cluster: PartitionTable | None) -> list[Operation]:
    """Operations that decode every shape, as columns and as objects; their sizes matter more than their times."""
    table = cluster_of(cell, cluster)
    return [
        operation
        for make, versions in SHAPES
        for columns in [make(table)]
        for version in versions
        for operation in _operations(columns, version, cell.partitions)
    ]


def _operations(columns: Columns, version: int, partitions: int) -> Iterator[Operation]:
    message = columns.message
    data = encode_columns(columns, version)
    group = f"{message.__name__} v{version}"
    sizes: dict[str, Any] = {"partitions": partitions, "moved_bytes": len(data), "wire_bytes": len(data)}
    yield Operation(
        f"{group}: as columns",
        lambda: decode_columns(message, version, data),
        lambda decoded: [encode_columns(decoded, version)],
        memory_bytes=memory_of(decode_columns(message, version, data)),
        **sizes,
    )
    yield Operation(
        f"{group}: as objects",
        lambda: decode(message, version, data),
        lambda decoded: [encode(decoded, version)],
        memory_bytes=live_bytes(message, version, data),
        **sizes,
    )


def live_bytes(message: type[Message], version: int, data: bytes) -> int:
    """The bytes of Python's allocations for the decoded objects that are live after decoding."""
    gc.collect()
    tracemalloc.start()
    try:
        decoded = decode(message, version, data)
        live, _ = tracemalloc.get_traced_memory()
        del decoded
    finally:
        tracemalloc.stop()
    return live
