"""The cluster of a cell: generated, or a real cluster from a file, at its own size or scaled up.

A file is a ZooKeeper dump in text form, or one raw LeaderAndIsr or UpdateMetadata request with its header, with or
without the four bytes of its frame's size.
"""

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.errors import ClusterFileError, DecodeError, KcoreError, TableError
from kcore.measure.workloads.cell import MIXED, PARTITIONS_A_TOPIC, REPLICATION_FACTOR, Cell
from kcore.measure.workloads.generate import generate, scramble
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.replication.elect import zookeeper_elect
from kcore.schema.index import REQUESTS
from kcore.storage.tools.foreign import file_of_zookeeper
from kcore.types import Int16s, Int64s, Uuid
from kcore.wire.codec import decode
from kcore.wire.column_codec import decode_columns

FIRST_BROKER_EPOCH = 25
LEAST_LIVE = 2  # Brokers that must stay: the one that is lost, and another.


def cluster_of(cell: Cell, file: bytes | None) -> PartitionTable:
    """The cell's cluster: the file's, scaled to the cell's sizes, or without a file a generated one.

    Its ISRs are mixed if the cell says so, and the cell's share of live brokers has failed.
    """
    table = _usual(cell) if file is None else scaled(table_of_file(file), cell.partitions, cell.brokers)
    if cell.isr == MIXED:
        scramble(table, cell.seed)
    live = table.brokers.ids[table.brokers.live]
    gone = brokers_gone(cell.brokers_gone, len(live))
    if gone and len(live) - gone < LEAST_LIVE:
        raise TableError(f"of {len(live)} live brokers {gone} cannot be gone: {LEAST_LIVE} must stay")
    lose(table, np.random.default_rng(cell.seed).choice(live, gone, replace=False).tolist())
    return table


def mixed_states_of(table: PartitionTable, cell: Cell) -> PartitionTable:
    """A copy with the mixed states of a cluster with a history; failed brokers of the cell stay failed."""
    mixed = table.copy()
    scramble(mixed, cell.seed)
    if cell.brokers_gone:
        lose(mixed, mixed.brokers.ids[~mixed.brokers.live].tolist())
    return mixed


def brokers_gone(share: float, brokers: int) -> int:
    """The number of brokers that is a share of them; at least 1 if the share is not 0."""
    return max(1, round(share * brokers)) if share else 0


def lose(table: PartitionTable, broker_ids: list[int]) -> None:
    """Makes brokers fail; partitions get the states that a controller in ZooKeeper mode writes if all fail together."""
    if broker_ids:
        table.apply(zookeeper_elect(table, leaving=broker_ids).written())
        for broker_id in broker_ids:
            table.brokers.set_gone(broker_id)


def _usual(cell: Cell) -> PartitionTable:
    topics = cell.topics or max(1, cell.partitions // PARTITIONS_A_TOPIC)
    factor = cell.replication_factor or REPLICATION_FACTOR
    return generate(cell.partitions, cell.brokers, factor, topics, cell.seed, cell.racks or None)


def cluster_size(file: bytes) -> tuple[int, int]:
    """The partitions and brokers of a cluster file; ClusterFileError if the file contains no cluster."""
    table = table_of_file(file)
    return len(table), len(table.brokers)


def table_of_file(file: bytes) -> PartitionTable:
    """The cluster in a file; ClusterFileError if the file contains no cluster."""
    if (kind := file_of_zookeeper(file)) is not None:
        raise ClusterFileError(f"it is {kind}")
    try:
        is_dump = file.startswith(b"/")
        table = PartitionTable.from_zookeeper_dump(file.decode()) if is_dump else _of_request(file)
    except (KcoreError, UnicodeDecodeError) as error:
        raise ClusterFileError(f"neither a ZooKeeper dump nor a raw request with its header: {error}") from None
    if not len(table) or not table.brokers.live.any():
        raise ClusterFileError("the cluster file has no partition, or no live broker")
    return table


def _of_request(file: bytes) -> PartitionTable:
    framed = len(file) >= 4 and int.from_bytes(file[:4], "big", signed=True) == len(file) - 4
    request = file[4:] if framed else file
    if len(request) < 8:
        raise DecodeError("no room for a request header", 0)
    api_key, version = (int.from_bytes(request[at : at + 2], "big", signed=True) for at in (0, 2))
    message = REQUESTS.get(api_key)
    if message is None or message.__name__ not in ("LeaderAndIsrRequest", "UpdateMetadataRequest"):
        raise TableError(f"a request with API key {api_key} contains no cluster")
    begin = _header_size(request, message.header_version(version))
    return PartitionTable.from_columns(decode_columns(message, version, request[begin:]))


def _header_size(request: bytes, header_version: int) -> int:
    """The size of a request's header."""
    client_id = int.from_bytes(request[8:10], "big", signed=True)
    size = 10 + max(0, client_id)
    for end in range(size, min(len(request), size + 1024)):  # From version 2 on, tagged fields may follow.
        try:
            decode("RequestHeader", header_version, request[:end])
        except DecodeError:
            continue
        return end
    raise DecodeError("no request header", 0)


def scaled(table: PartitionTable, partitions: int, brokers: int) -> PartitionTable:
    """The cluster repeated until it has that many partitions, with more topics and on more brokers.

    Each copy uses the next brokers in turn, so that replicas, ISRs and leaders keep their pattern. Raises TableError if
    the cluster itself has more brokers than `brokers`.
    """
    if (len(table), len(table.brokers)) == (partitions, brokers):
        return table
    if brokers < len(table.brokers):
        raise TableError(f"the cluster has {len(table.brokers)} brokers: {brokers} are too few")
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
    """The topics of all copies; the ids of a copy are the original ids with changed bits."""
    names, ids = list(topics.names), list(topics.ids)
    for copy in range(1, copies):
        names += [f"{name}-{copy}" for name in topics.names]
        ids += [Uuid(each[:8] + (int.from_bytes(each[8:]) ^ copy).to_bytes(8)) for each in topics.ids]
    return TopicTable(names, ids)


def _more_brokers(brokers: BrokerTable, count: int) -> BrokerTable:
    """The first brokers unchanged, then live copies of them with ids that continue from the largest."""
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
