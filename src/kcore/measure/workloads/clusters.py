"""The cluster of a cell: generated, or a real cluster, at its own size or scaled."""

import numpy as np

from kcore.errors import TableError
from kcore.measure.workloads.cell import MIXED, PARTITIONS_A_TOPIC, REPLICATION_FACTOR, Cell
from kcore.measure.workloads.generate import generate, scramble
from kcore.measure.workloads.scaling import scaled
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import zookeeper_elect

LEAST_LIVE = 2  # Brokers that must stay: the one that is lost, and another.


def cluster_of(cell: Cell, cluster: PartitionTable | None) -> PartitionTable:
    """The cell's cluster: a copy of `cluster`, scaled to the cell's sizes, or without `cluster` a generated one.

    Its ISRs are mixed if the cell says so, and the cell's share of live brokers has failed.
    """
    table = _usual(cell) if cluster is None else scaled(cluster, cell.partitions, cell.brokers, cell.seed)
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
