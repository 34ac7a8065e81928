"""Encodes PartitionChangeRecords of decisions, and TopicRecords and PartitionRecords of new topics, from columns.

No Python object is made for a record. Values for which the level's records have no field are refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kcore._ext.tables import record_values as kernel
from kcore.errors import TableError, UnwritableMetadataError
from kcore.metadata.metadata_version import MetadataVersion
from kcore.metadata.table.arrays import Array, as_broker_lists, as_integers
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.validation import check_directories, check_range, check_replicas
from kcore.types import Bools, Int16s, Int32s, Int64s, UInt8s, Uuid
from kcore.wire.columns import Vectors
from kcore.wire.encoded_records import EncodedRecords

CHANGE_BYTES: Final = 3 + 4 + 16 + 1 + 6 + 3  # At most: frame, number, topic, count of tags, leader, recovery state.
LIST_BYTES: Final = 1 + 5 + 5  # At most: tag, size and count of a list.
PARTITION_BYTES: Final = 3 + 4 + 16 + 12 + 1 + 3 + 7 * LIST_BYTES
TOPIC_BYTES: Final = 3 + 5 + 16 + 1
NOTHING: Final[Mapping[int, Sequence[int]]] = {}
_BROKER_LISTS: Final = ("isr", "replicas", "removing", "adding", "elr", "last_known_elr")  # The kernel's order.


def records_of_changes(table: PartitionTable, changes: KraftChanges, version: MetadataVersion | str) -> EncodedRecords:
    """A PartitionChangeRecord for each change, with only the fields that change.

    UnwritableMetadataError for directories and ELRs at a level whose records have none. TableError for invalid rows.
    """
    level = MetadataVersion.parse(version) if isinstance(version, str) else version
    rows = table.known_rows(changes.rows)
    if changes.directories is not None and not level.directories_supported:
        raise UnwritableMetadataError(level.name, "the directory assignment state of one or more replicas")
    if (changes.elr is not None or changes.last_known_elr is not None) and not level.elr_supported:
        raise UnwritableMetadataError(level.name, "the eligible leader replicas of one or more partitions")
    lists = tuple(_ragged(getattr(changes, name), len(rows)) for name in _BROKER_LISTS)
    directories = _ragged(changes.directories, len(rows))
    if directories is not None:
        check_range("directory", directories[1], 0, len(table.directories) - 1)
    room = len(rows) * (CHANGE_BYTES + LIST_BYTES * 7) + sum(4 * len(each[1]) for each in lists if each is not None)
    room += 16 * len(directories[1]) if directories is not None else 0
    out, offsets = np.empty(room + 1, np.uint8), np.empty(len(rows) + 1, np.int64)
    kernel.changes(
        rows,
        table.topic_row__p,
        table.partition_index__p,
        table.topics.by_id.ids,
        _contiguous(changes.leaders, np.int32),
        _contiguous(changes.recovery, np.int8),
        lists,
        directories,
        table.directories.index.ids,
        level.partition_record_version,
        out,
        offsets,
    )
    return EncodedRecords(out[: offsets[-1]], offsets)


def _contiguous(values: Array | None, dtype: type[np.generic]) -> Any:
    return None if values is None else np.ascontiguousarray(values, dtype)


def _ragged(lists: Vectors | None, count: int) -> tuple[Int32s, Int32s, UInt8s | None] | None:
    """The lists in the kernel's form; TableError if there are not `count` lists, or offsets are invalid."""
    if lists is None:
        return None
    # Copies: no other thread can change them between this check and the kernel.
    offsets, values = np.array(lists.offsets, np.int32), np.array(lists.values, np.int32)
    if len(offsets) != count + 1 or offsets[0] or offsets[-1] > len(values) or (offsets[1:] < offsets[:-1]).any():
        raise TableError(f"lists of {count} changes: offsets must rise from 0 to the {len(values)} values they divide")
    valid = None if lists.valid is None else np.ascontiguousarray(lists.valid).view(np.uint8)
    return offsets, values, valid


@dataclass(slots=True, eq=False)
class PartitionCreations:
    """Partitions to create, by topic; c partitions of t topics. Brokers are ids, padded with -1.

    Defaults: the ISR is the replicas, the leader the first of them, directories are MIGRATING.
    """

    names: Sequence[str]  # t
    topic_ids: Sequence[Uuid]  # t
    is_new: npt.ArrayLike  # t: True if the topic itself is new
    topics: npt.ArrayLike  # c, indexes of `names`, ascending
    partitions: npt.ArrayLike  # c, their numbers
    replicas: npt.ArrayLike  # c by slot
    isr: npt.ArrayLike | None = None  # c by position
    leaders: npt.ArrayLike | None = None  # c
    directories: npt.ArrayLike | None = None  # c by slot, rows of DirectoryTable, 0 in unused slots
    further: Mapping[int, Sequence[bytes]] | None = None  # By index of `names`: values that follow a TopicRecord.

    def __len__(self) -> int:
        """The number of partitions."""
        return len(np.asarray(self.topics))


def records_of_creation(
    brokers: BrokerTable, created: PartitionCreations, version: MetadataVersion | str
) -> EncodedRecords:
    """A TopicRecord for each new topic, before its PartitionRecords: epochs 0, recovered, no reassignment.

    TableError for unknown brokers or directories, UnwritableMetadataError for directories at a level whose records have
    none.
    """
    level = MetadataVersion.parse(version) if isinstance(version, str) else version
    replicas = brokers.rows(as_broker_lists("replicas", created.replicas))
    check_replicas(replicas, brokers)
    shape = (len(replicas),)
    topics = as_integers("topics", created.topics, np.int32, shape)
    check_range("topic", topics, 0, len(created.names) - 1)
    isr = replicas if created.isr is None else brokers.rows(as_broker_lists("isr", created.isr))
    leaders = replicas[:, 0] if created.leaders is None else brokers.rows(created.leaders)
    directories = None
    if created.directories is not None:
        directories = as_integers("directories", created.directories, np.int32, replicas.shape)
        check_directories(directories, replicas, brokers)
        if directories.any() and not level.directories_supported:
            raise UnwritableMetadataError(level.name, "the directory assignment state of one or more replicas")
    if len(isr) != len(replicas) or leaders.shape != shape or (topics[1:] < topics[:-1]).any():
        raise TableError("an ISR and a leader for each partition, and topics in order")
    zeros = np.zeros(shape, np.int32)
    partitions = as_integers("partitions", created.partitions, np.int32, shape)
    columns = topics, partitions, replicas, np.ascontiguousarray(isr), np.ascontiguousarray(leaders), zeros, zeros
    ids = np.frombuffer(b"".join(created.topic_ids), np.uint8).reshape(-1, 16)
    slice_ = TopicSlice(
        np.arange(len(replicas), dtype=np.int32),
        np.searchsorted(topics, np.arange(len(created.names) + 1)),
        np.arange(len(created.names), dtype=np.int32),
        created.names,
        np.asarray(created.is_new, np.bool_),
    )
    elrs = None, None
    everything = *columns, zeros.astype(np.int8), directories, *elrs
    records = encode_topics(everything, (brokers.ids, ids, brokers.directory_table.index.ids), level, slice_)
    return _with_further(records, slice_, created.further) if created.further else records


def _with_further(
    created: EncodedRecords, topics: "TopicSlice", further: Mapping[int, Sequence[bytes]]
) -> EncodedRecords:
    """Insert the further values of each topic after its TopicRecord, before its PartitionRecords."""
    behind__t = np.cumsum(topics.writes_topic) + topics.starts[:-1]
    parts: list[EncodedRecords] = []
    begin = 0
    for place in sorted(further):
        end = int(behind__t[place])
        parts.append(EncodedRecords(created.values, created.offsets[begin : end + 1]))
        parts.append(EncodedRecords.of(further[place]))
        begin = end
    parts.append(EncodedRecords(created.values, created.offsets[begin:]))
    return EncodedRecords.joined(parts)


class TopicSlice(NamedTuple):
    """Topics and partitions to write; the partitions of topic j are in rows[starts[j]:starts[j + 1]]."""

    rows: Int32s  # rows of the columns
    starts: Int64s  # one more than topics
    topic_rows: Int32s  # rows of the topic ids
    names: Sequence[str]
    writes_topic: Bools  # False: write only its partitions


def encode_topics(
    columns: tuple[Array | None, ...],
    ids: tuple[Int32s, UInt8s, UInt8s],
    version: MetadataVersion,
    topics: TopicSlice,
    adding: Mapping[int, Sequence[int]] = NOTHING,
    removing: Mapping[int, Sequence[int]] = NOTHING,
) -> EncodedRecords:
    """TopicRecords and PartitionRecords, in the slice's order.

    `columns`: topic row, partition index, replicas, ISR, leader, leader epoch, partition epoch, recovery state,
    directories or None, ELR or None, last known ELR or None. `ids`: of brokers, topics and directories by row.
    `adding`, `removing`: broker rows by partition row. All are in the form of a PartitionTable.
    """
    names = [name.encode() for name in topics.names]
    name_offsets = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=name_offsets[1:])
    moves = [_moves_of(topics.rows, each) for each in (adding, removing)]
    elements = sum(len(offsets_and_rows[1]) for offsets_and_rows in moves)
    widths = [0 if each is None or each.ndim == 1 else each.shape[1] for each in columns]
    directories = widths[8] or (widths[2] if version.directories_supported else 0)
    a_partition = PARTITION_BYTES + 4 * (widths[2] + widths[3] + widths[9] + widths[10]) + 16 * directories
    room = len(topics.rows) * a_partition + 4 * elements + len(names) * TOPIC_BYTES + int(name_offsets[-1])
    out, offsets = np.empty(room + 1, np.uint8), np.empty(len(topics.rows) + len(names) + 1, np.int64)
    count = kernel.topics(
        columns,
        ids,
        version.partition_record_version,
        topics.rows,
        topics.starts,
        topics.topic_rows,
        np.frombuffer(b"".join(names), np.uint8),
        name_offsets,
        topics.writes_topic.view(np.uint8),
        moves[0],
        moves[1],
        out,
        offsets,
    )
    return EncodedRecords(out[: offsets[count]], offsets[: count + 1])


def _moves_of(rows: Int32s, moves: Mapping[int, Sequence[int]]) -> tuple[Int32s, Int16s]:
    """A list of broker rows for each of `rows`: offsets and values."""
    if not moves:
        return np.broadcast_to(np.int32(0), (len(rows) + 1,)).copy(), np.empty(0, np.int16)
    lists = [moves.get(row, ()) for row in rows.tolist()]
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(each) for each in lists], out=offsets[1:])
    return offsets, np.array([broker for each in lists for broker in each], np.int16)
