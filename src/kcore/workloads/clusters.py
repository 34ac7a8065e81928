"""The cluster that a cell works on: generated, or a real one from a file, as it is or scaled up.

A file is a ZooKeeper dump in text form, or one raw LeaderAndIsr or UpdateMetadata request with its header, with or
without the four bytes of its frame's size.
"""

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.errors import ClusterFileError, DecodeError, KcoreError, TableError
from kcore.metadata.arrays import Array
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.topics import TopicTable
from kcore.schema.index import REQUESTS
from kcore.types import Int16s, Int64s, Uuid
from kcore.wire.codec import decode
from kcore.wire.column_codec import decode_columns
from kcore.workloads.cell import Cell
from kcore.workloads.generate import generate

REPLICATION_FACTOR = 3
PARTITIONS_A_TOPIC = 100
FIRST_BROKER_EPOCH = 25


def cluster_of(cell: Cell, file: bytes | None) -> PartitionTable:
    """The cell's cluster: the file's, scaled to the cell's sizes, or without a file a generated one."""
    if file is None:
        topics = max(1, cell.partitions // PARTITIONS_A_TOPIC)
        return generate(cell.partitions, cell.brokers, REPLICATION_FACTOR, topics, cell.seed)
    return scaled(table_of_file(file), cell.partitions, cell.brokers)


def cluster_size(file: bytes) -> tuple[int, int]:
    """Partitions and brokers of a cluster file; ClusterFileError if it is none."""
    table = table_of_file(file)
    return len(table), len(table.brokers)


def table_of_file(file: bytes) -> PartitionTable:
    """The cluster that a file shows; ClusterFileError if it shows none."""
    try:
        table = _of_dump(file) if file.startswith(b"/") else _of_request(file)
    except (KcoreError, UnicodeDecodeError) as error:
        raise ClusterFileError(f"neither a ZooKeeper dump nor a raw request with its header: {error}") from None
    if not len(table) or not table.brokers.live.any():
        raise ClusterFileError("the cluster file has no partition, or no live broker")
    return table


def _of_dump(file: bytes) -> PartitionTable:
    return PartitionTable.from_zookeeper_dump(file.decode())


def _of_request(file: bytes) -> PartitionTable:
    framed = len(file) >= 4 and int.from_bytes(file[:4], "big", signed=True) == len(file) - 4
    request = file[4:] if framed else file
    if len(request) < 8:
        raise DecodeError("no room for a request header", 0)
    api_key, version = (int.from_bytes(request[at : at + 2], "big", signed=True) for at in (0, 2))
    message = REQUESTS.get(api_key)
    if message is None or message.__name__ not in ("LeaderAndIsrRequest", "UpdateMetadataRequest"):
        raise TableError(f"a request with API key {api_key} shows no cluster")
    begin = _header_size(request, message.header_version(version))
    return PartitionTable.from_columns(decode_columns(message, version, request[begin:]))


def _header_size(request: bytes, header_version: int) -> int:
    """Where the body begins: the shortest start of the request that is a whole header."""
    client_id = int.from_bytes(request[8:10], "big", signed=True)
    size = 10 + max(0, client_id)
    for end in range(size, min(len(request), size + 1024)):  # From version 2 on tagged fields may follow.
        try:
            decode("RequestHeader", header_version, request[:end])
        except DecodeError:
            continue
        return end
    raise DecodeError("no request header", 0)


def scaled(table: PartitionTable, partitions: int, brokers: int) -> PartitionTable:
    """The cluster repeated until it has that many partitions, under more topics and over more brokers.

    Each copy goes to the next brokers, round and round, so that replicas, ISRs and leaders keep their pattern.
    TableError where fewer brokers are asked for than the cluster has.
    """
    if (len(table), len(table.brokers)) == (partitions, brokers):
        return table
    if brokers < len(table.brokers):
        raise TableError(f"the cluster has {len(table.brokers)} brokers and cannot do with {brokers}")
    rows = np.arange(partitions, dtype=np.int64) % len(table)
    copy = np.arange(partitions, dtype=np.int64) // len(table)
    shift = copy * len(table.brokers)
    topics = len(table.topics)
    columns: dict[str, Array] = {
        "replicas__ps": _shifted(table.replicas__ps[rows], shift[:, None], brokers),
        "isr__pi": _shifted(table.isr__pi[rows], shift[:, None], brokers),
        "leader__p": _shifted(table.leader__p[rows], shift, brokers),
        "topic_row__p": (table.topic_row__p[rows] + copy * topics).astype(np.int32),
    }
    kept = ("partition_index", "leader_epoch", "partition_epoch", "controller_epoch", "leader_recovery_state")
    columns |= {name: getattr(table, name)[rows] for name in (f"{each}__p" for each in kept)}
    copies = int(copy[-1]) + 1
    return PartitionTable(columns, _more_topics(table.topics, copies), _more_brokers(table.brokers, brokers))


def _shifted(broker_rows: Int16s, shift: Int64s, brokers: int) -> Int16s:
    moved = (broker_rows + shift) % brokers
    return np.where(broker_rows == NO_BROKER_ROW, NO_BROKER_ROW, moved).astype(np.int16)


def _more_topics(topics: TopicTable, copies: int) -> TopicTable:
    """The topics of all copies; ids count on from the original's, so that they differ."""
    names, ids = list(topics.names), list(topics.ids)
    for copy in range(1, copies):
        names += [f"{name}-{copy}" for name in topics.names]
        ids += [Uuid(each[:8] + (int.from_bytes(each[8:]) ^ copy).to_bytes(8)) for each in topics.ids]
    return TopicTable(names, ids)


def _more_brokers(brokers: BrokerTable, count: int) -> BrokerTable:
    """The first brokers unchanged, then live ones of the same kind with ids that continue from the largest."""
    more = count - len(brokers)
    source = [row % len(brokers) for row in range(count)]
    first_id, first_epoch = int(brokers.ids.max()) + 1, max(FIRST_BROKER_EPOCH, int(brokers.epochs.max()) + 1)
    return BrokerTable.from_arrays(
        np.concatenate([brokers.ids, first_id + np.arange(more)]),
        live=np.concatenate([brokers.live, np.ones(more, np.bool_)]),
        epochs=np.concatenate([brokers.epochs, first_epoch + np.arange(more)]),
        racks=[brokers.racks[row] for row in source],
        endpoints=[brokers.endpoints[row] for row in source],
    )
