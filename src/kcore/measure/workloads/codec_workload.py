"""Codec: encodes and decodes the whole cluster in one control request, as columns and as objects."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.clusters import cluster_of
from kcore.measure.workloads.measure import Operation
from kcore.measure.workloads.messages import leader_and_isr, update_metadata
from kcore.metadata.table.partition_table import PartitionTable
from kcore.wire.codec import decode, encode
from kcore.wire.column_codec import decode_columns, encode_columns
from kcore.wire.columns import Columns

OBJECTS_AT_MOST = 20_000  # Partitions; for larger clusters objects are not measured.
LEADER_AND_ISR_VERSIONS = (2, 7)  # The first after KIP-380, and the newest.
UPDATE_METADATA_VERSIONS = (5, 8)


def setup(cell: Cell, cluster: PartitionTable | None) -> list[Operation]:
    """The operations. All results of a version are the message's bytes, so that their digests are equal."""
    table = cluster_of(cell, cluster)
    messages = ((leader_and_isr, LEADER_AND_ISR_VERSIONS), (update_metadata, UPDATE_METADATA_VERSIONS))
    return [
        operation
        for make, versions in messages
        for columns in [make(table)]
        for version in versions
        for operation in _operations(columns, version, cell.partitions)
    ]


def _operations(columns: Columns, version: int, partitions: int) -> Iterator[Operation]:
    message = columns.message
    data = encode_columns(columns, version)
    buffer = np.empty(len(data), np.uint8)
    group = f"{message.__name__.removesuffix('Request')} v{version}"
    sizes: dict[str, Any] = {"partitions": partitions, "moved_bytes": len(data), "wire_bytes": len(data)}

    def encode_into_buffer() -> np.ndarray:
        return buffer[: encode_columns(columns, version, out=buffer)]

    yield Operation(f"{group}: encode columns", lambda: encode_columns(columns, version), lambda made: [made], **sizes)
    yield Operation(f"{group}: encode columns, buffer reused", encode_into_buffer, lambda made: [made], **sizes)
    yield Operation(
        f"{group}: decode columns",
        lambda: decode_columns(message, version, data),
        lambda decoded: [encode_columns(decoded, version)],
        **sizes,
    )
    if partitions > OBJECTS_AT_MOST:
        return
    tree = decode(message, version, data)
    yield Operation(f"{group}: encode objects", lambda: encode(tree, version), lambda made: [made], **sizes)
    yield Operation(
        f"{group}: decode objects",
        lambda: decode(message, version, data),
        lambda decoded: [encode(decoded, version)],
        **sizes,
    )
