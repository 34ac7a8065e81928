"""Generates clusters of any size; the same seed gives the same cluster."""

from collections.abc import Sequence

import numpy as np

from kcore._ext.elections.placement import place_shifted
from kcore.constants import MAX_BROKERS, MAX_PARTITIONS, MAX_REPLICAS, NO_BROKER_ROW, NO_LEADER, RECOVERED
from kcore.errors import PlacementError, TableError
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, BrokerTable, Endpoint
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.replication.placement import place
from kcore.types import Int16s, Int32s, Uuid, is_whole

CONTROLLER_EPOCH = 1
_MAX_SEED = 2**64 - 1
_CHUNK = 1 << 18  # Partitions that are handled at once, so that temporary arrays stay small.
_FIRST_BROKER_EPOCH = 25  # The czxid of the first broker's registration in a new ZooKeeper.


def generate(
    partitions: int,
    brokers: int,
    replication_factor: int,
    topics: int,
    seed: int,
    racks: int | Sequence[str] | None = None,
) -> PartitionTable:
    """A healthy cluster, placed as Kafka 3.9 does: brokers 0, 1 ...; topic sizes differ by at most one partition.

    `racks`: the number of racks, which brokers get in turn, or the name of each broker's rack. All replicas are in
    sync, the first leads; epochs are those of a cluster with some history. Raises TableError or PlacementError for
    invalid sizes.
    """
    _check("brokers", brokers, 1, MAX_BROKERS)
    _check("replication_factor", replication_factor, 1, MAX_REPLICAS)
    _check("topics", topics, 1, MAX_PARTITIONS)
    _check("partitions", partitions, 1, MAX_PARTITIONS)
    if partitions < topics:
        raise TableError(f"{partitions} partitions are too few for {topics} topics: each topic has at least one")
    _check("seed", seed, 0, _MAX_SEED)
    random = np.random.default_rng(seed)
    if isinstance(racks, int):
        _check("racks", racks, 1, brokers)
    broker_racks = [f"rack-{broker % racks}" for broker in range(brokers)] if isinstance(racks, int) else racks
    sizes__t = np.full(topics, partitions // topics, np.int32)
    sizes__t[: partitions % topics] += 1
    replicas__ps = _placed(sizes__t, brokers, replication_factor, broker_racks, random)
    leader_epoch__p = random.integers(0, 20, partitions, dtype=np.int8).astype(np.int32)
    # Each new leader and each change of the ISR is a write of the state.
    partition_epoch__p = random.integers(0, 40, partitions, dtype=np.int8).astype(np.int32)
    partition_epoch__p += leader_epoch__p
    columns: dict[str, Array] = {
        "topic_row__p": np.repeat(np.arange(topics, dtype=np.int32), sizes__t),
        "partition_index__p": _indexes(sizes__t),
        "replicas__ps": replicas__ps,
        "isr__pi": replicas__ps.copy(),
        "leader__p": replicas__ps[:, 0].copy(),
        "leader_epoch__p": leader_epoch__p,
        "partition_epoch__p": partition_epoch__p,
        "controller_epoch__p": np.full(partitions, CONTROLLER_EPOCH, np.int32),
        "leader_recovery_state__p": np.full(partitions, RECOVERED, np.int8),
    }
    return PartitionTable(columns, _topics(topics, random), _brokers(brokers, broker_racks))


def _placed(
    sizes__t: Int32s,
    brokers: int,
    replication_factor: int,
    racks: Sequence[str] | None,
    random: "np.random.Generator",  # Quoted: the name itself would import numpy.random.
) -> Int16s:
    """Broker rows of all replicas, topic by topic. Each topic draws a start and a shift, as in AdminUtils."""
    # Placing one partition per broker with one replica gives brokers in Kafka's order, which alternates racks (KIP-36).
    order = place("kafka-3.9", np.arange(brokers), brokers, 1, racks=racks, start=0)[:, 0]
    if replication_factor > brokers:
        raise PlacementError(f"replication factor {replication_factor} is larger than the {brokers} available brokers")
    names = sorted(set(racks or [""]))
    racks__b = np.array([names.index(racks[broker]) if racks else 0 for broker in order], np.int32)
    replicas__ps = np.empty((int(sizes__t.sum()), replication_factor), np.int16)
    placed = np.empty((int(sizes__t.max()), replication_factor), np.int32)
    taken_by__b, taken_by__r = np.empty(brokers, np.int32), np.empty(len(names), np.int32)
    starts, shifts = random.integers(0, brokers, (2, len(sizes__t))).tolist()
    first_row = 0
    for size, start, shift in zip(sizes__t.tolist(), starts, shifts, strict=True):
        taken_by__b.fill(-1)
        taken_by__r.fill(-1)
        place_shifted(placed[:size], order, racks__b, taken_by__b, taken_by__r, start, shift, 0)
        replicas__ps[first_row : first_row + size] = placed[:size]
        first_row += size
    return replicas__ps


def _indexes(sizes__t: Int32s) -> Int32s:
    firsts = np.cumsum(sizes__t, dtype=np.int32) - sizes__t
    indexes = np.arange(int(sizes__t.sum()), dtype=np.int32)
    indexes -= np.repeat(firsts, sizes__t)
    return indexes


def _topics(topics: int, random: np.random.Generator) -> TopicTable:
    drawn = random.integers(0, 256, (topics, 16), dtype=np.uint8)
    # The version and variant bits of a random UUID (RFC 9562), as in Uuid.randomUuid ...
    drawn[:, 6] = drawn[:, 6] & 0x0F | 0x40
    drawn[:, 8] = drawn[:, 8] & 0x3F | 0x80
    drawn[:, 0] &= 0x7F  # ... whose text does not begin with a dash.
    raw = drawn.tobytes()
    digits = max(5, len(str(topics - 1)))
    names = [f"topic-{topic:0{digits}}" for topic in range(topics)]
    return TopicTable(names, [Uuid(raw[at : at + 16]) for at in range(0, len(raw), 16)])


def _brokers(brokers: int, racks: Sequence[str] | None) -> BrokerTable:
    plaintext = SECURITY_PROTOCOLS["PLAINTEXT"]
    return BrokerTable.from_arrays(
        np.arange(brokers),
        # A broker's start makes other writes between two registrations.
        epochs=_FIRST_BROKER_EPOCH + 18 * np.arange(brokers),
        racks=racks,
        endpoints=[
            [Endpoint(9092, f"broker-{broker}.kafka.example.com", "PLAINTEXT", plaintext)] for broker in range(brokers)
        ],
    )


def _check(name: str, value: int, low: int, high: int) -> None:
    if not is_whole(value):
        raise TableError(f"{name} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise TableError(f"{name} must be from {low} to {high}, not {value}")


def scramble(table: PartitionTable, seed: int) -> None:
    """Gives the partitions of a table the mixed states of a cluster with a history; brokers do not change.

    About 20% get a smaller ISR, 20% an ISR out of assignment order, 10% the ISR's last member as leader, and 1% a
    single member and no leader. Each partition's leader epoch and partition epoch grow by one.
    """
    random = np.random.default_rng(seed)
    for start in range(0, len(table), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(table)), dtype=np.int32)
        table.apply(_mixed_states(table, rows[table.topic_row__p[rows] >= 0], random))


def _mixed_states(table: PartitionTable, rows: Int32s, random: np.random.Generator) -> PartitionChanges:
    replicas = table.replicas__ps[rows]
    count, width = replicas.shape
    shrunk, shuffled, led_by_last, leaderless = random.random((4, count)) < [[0.2], [0.2], [0.1], [0.01]]
    in_sync = replicas != NO_BROKER_ROW
    survivor = np.arange(width) == random.integers(0, in_sync.sum(axis=1))[:, None]
    in_sync &= ~(shrunk[:, None] & (random.random((count, width)) < 0.4)) & ~leaderless[:, None] | survivor
    # The ISR is sorted by rank, a replica's slot or a random number; replicas out of sync come last.
    rank = np.where(shuffled[:, None], random.random((count, width)), np.arange(width))
    isr = np.take_along_axis(replicas, np.argsort(np.where(in_sync, rank, np.inf), axis=1), axis=1)
    sizes = in_sync.sum(axis=1)
    leaders = np.where(
        led_by_last, isr[np.arange(count), sizes - 1], replicas[np.arange(count), in_sync.argmax(axis=1)]
    )
    ids = table.brokers.ids
    return PartitionChanges(
        rows=rows,
        leaders=np.where(leaderless, np.int32(NO_LEADER), ids[leaders]),
        isr_offsets=np.cumsum(np.concatenate([[0], sizes]), dtype=np.int32),
        isr=ids[isr[np.arange(width) < sizes[:, None]]],
        leader_epochs=table.leader_epoch__p[rows] + 1,
        partition_epochs=table.partition_epoch__p[rows] + 1,
        recovery=table.leader_recovery_state__p[rows],
    )
