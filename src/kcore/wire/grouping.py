"""Converts between the old and the new shape of the requests whose partitions KIP-380 grouped by topic.

Old versions name the topic in every partition; new versions list partitions under their topic. Columns always have the
new shape: `topic_states`, each with its `partition_states`.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from kcore._ext.columns.vectors import repeat, starts_group
from kcore.errors import EncodeError, UnsupportedVersionError
from kcore.schema.structure import Message, Struct
from kcore.types import Int32s
from kcore.wire.columns import Columns, Rows, Strings, Vectors, struct_in
from kcore.wire.gather import checked, refuse
from kcore.wire.layout import OFFSETS
from kcore.wire.plan import plan


@dataclass(frozen=True, slots=True)
class OldShape:
    """The array of an old version: partitions with topic names, or (`indexes`) topics with partition numbers only."""

    message: str
    field: str
    indexes: bool = False


OLD_SHAPES = (
    OldShape("LeaderAndIsrRequest", "ungrouped_partition_states"),
    OldShape("UpdateMetadataRequest", "ungrouped_partition_states"),
    OldShape("StopReplicaRequest", "ungrouped_partitions"),
    OldShape("StopReplicaRequest", "topics", indexes=True),
)


@cache
def old_shape(message: type[Message], version: int) -> OldShape | None:
    """The old shape in which this version of the message lists partitions; None if the version has the new shape."""
    present = {step.field.name for step in plan(message, version).in_line}
    return next((s for s in OLD_SHAPES if s.message == message.__name__ and s.field in present), None)


def group(columns: Columns, shape: OldShape) -> Columns:
    """Convert columns that were decoded from an old version to the new shape."""
    old: Rows = columns._columns[shape.field]
    topics = topics_of_indexes(old) if shape.indexes else topics_of_partitions(old)
    others = {name: column for name, column in columns._columns.items() if name != shape.field}
    return Columns.of_columns(columns.message, others | {"topic_states": topics}, columns.unknown_tags)


def topics_of_partitions(old: Rows) -> Rows:
    """Group consecutive partitions of one topic name as a topic."""
    names: Strings = old.topic_name
    starts = np.empty(len(names), np.uint8)
    starts_group(names.offsets, names.values, starts)
    first = np.flatnonzero(starts).astype(np.int32)
    others = {name: column for name, column in old._columns.items() if name != "topic_name"}
    topic_names = Strings.of([names[int(row)] for row in first])
    partitions = Rows(np.append(first, np.int32(len(names))), **others)
    return Rows(np.array([0, len(first)], np.int32), topic_name=topic_names, partition_states=partitions)


def topics_of_indexes(old: Rows) -> Rows:
    indexes: Vectors = old.partition_indexes
    return Rows(
        old.row_offsets,
        unknown_tags=old.unknown_tags,
        topic_name=old.name,
        partition_states=Rows(indexes.offsets, partition_index=indexes.values),
    )


def ungroup(columns: Columns, shape: OldShape) -> Columns:
    """The same message with the array of an old version and without `topic_states`."""
    topics: Rows = columns.topic_states
    partitions: Rows = topics.partition_states
    if partitions.unknown_tags or (topics.unknown_tags and not shape.indexes):
        raise UnsupportedVersionError(f"{shape.message}: unknown tagged fields are set, {shape.field} has none")
    [struct] = [struct_in(field.type) for field in columns.message.__fields__ if field.name == shape.field]
    assert struct is not None
    carried = {"partition_index", *struct.__match_args__}
    lacking = [field for field in partitions._struct.__fields__ if field.name not in carried]
    refused = tuple(field for field in lacking if not field.options.ignorable)
    refuse(partitions, refused, "topic_states.partition_states")
    old = indexes_of(topics, partitions) if shape.indexes else partitions_of(topics, partitions, struct)
    others = {name: column for name, column in columns._columns.items() if name != "topic_states"}
    return Columns.of_columns(columns.message, others | {shape.field: old}, columns.unknown_tags)


def indexes_of(topics: Rows, partitions: Rows) -> Rows:
    indexes = Vectors(offsets_of(partitions, len(topics)), partitions.partition_index)
    return Rows(topics.row_offsets, unknown_tags=topics.unknown_tags, name=topics.topic_name, partition_indexes=indexes)


def partitions_of(topics: Rows, partitions: Rows, struct: type[Struct]) -> Rows:
    names: Strings = topics.topic_name
    if names.valid is not None and not names.valid.all():
        raise EncodeError("topic_states.topic_name: null, but not nullable")
    row_offsets = offsets_of(partitions, len(topics))
    name_offsets = checked_ends(names.offsets, len(topics), len(names.values), "topic_states.topic_name")
    lengths = np.diff(name_offsets)
    offsets = np.empty(len(partitions) + 1, np.int32)
    values = np.empty(int(np.dot(lengths.astype(np.int64), np.diff(row_offsets))), np.uint8)
    repeat(name_offsets, names.values, row_offsets, offsets, values)
    carried = {name: column for name, column in partitions._columns.items() if name in struct.__match_args__}
    whole = np.array([0, len(partitions)], np.int32)
    return Rows(whole, **(carried | {"topic_name": Strings(offsets, values)}))


def offsets_of(rows: Rows, parents: int) -> Int32s:
    return checked_ends(rows.row_offsets, parents, len(rows), "topic_states.partition_states")


def checked_ends(offsets: object, rows: int, elements: int, path: str) -> Int32s:
    """A checked copy of offsets that kernels may trust; EncodeError for invalid ones."""
    ends: Int32s = checked(offsets, OFFSETS, rows + 1, path, "offsets").copy()
    if ends[0] != 0 or ends[-1] != elements or (np.diff(ends) < 0).any():
        raise EncodeError(f"{path}: the offsets do not ascend from 0 to {elements}")
    return ends
