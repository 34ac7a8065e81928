"""Checks the columns of a table. Kernels trust columns that passed these checks, and check nothing again."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from kcore._ext.tables import broker_rows
from kcore.constants import MAX_PARTITIONS, MAX_REPLICAS, NO_BROKER_ROW, NO_EPOCH, RECOVERED, RECOVERING
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.column_list import ON_DEMAND_COLUMNS, PARTITION_COLUMNS
from kcore.types import Int16s, Int32s

MAX_EPOCH: Final = 2**31 - 1


def check_columns(columns: Mapping[str, Array], brokers: BrokerTable, topics: int) -> None:
    """TableError unless `columns` are PARTITION_COLUMNS, and any of ON_DEMAND_COLUMNS, of equal length and valid."""
    partitions = len(columns["replicas__ps"])
    if partitions > MAX_PARTITIONS:
        raise TableError(f"{partitions} partitions; at most {MAX_PARTITIONS} fit")
    for column in (*PARTITION_COLUMNS, *(each for each in ON_DEMAND_COLUMNS if each.name in columns)):
        array = columns[column.name]
        axes = len(column.name.rpartition("__")[2])
        if array.ndim != axes or array.dtype != column.dtype or not array.flags.c_contiguous:
            raise TableError(
                f"{column.name} must be {axes}-D {column.dtype} in C order, not {array.ndim}-D {array.dtype}"
            )
        if len(array) != partitions:
            raise TableError(f"{column.name} is {len(array)} long, not {partitions}")
    check_replicas(columns["replicas__ps"], brokers)
    check_broker_rows("isr", columns["isr__pi"], brokers)
    check_range("leader", columns["leader__p"], NO_BROKER_ROW, len(brokers) - 1)
    check_range("topic row", columns["topic_row__p"], 0, topics - 1)
    check_range("partition index", columns["partition_index__p"], 0, MAX_PARTITIONS)
    for name in ("leader_epoch__p", "partition_epoch__p", "controller_epoch__p"):
        check_range(name.removesuffix("__p"), columns[name], NO_EPOCH, MAX_EPOCH)
    check_range("leader recovery state", columns["leader_recovery_state__p"], RECOVERED, RECOVERING)
    for name in ("elr__pi", "last_known_elr__pi"):
        if name in columns:
            check_broker_rows(name.removesuffix("__pi"), columns[name], brokers)
    if "directories__ps" in columns:
        check_directories(columns["directories__ps"], columns["replicas__ps"], brokers)


def check_directories(directories__ps: Int32s, replicas__ps: Int16s, brokers: BrokerTable) -> None:
    """TableError unless every replica is in a directory of the table; slots without a replica must have 0."""
    if directories__ps.shape != replicas__ps.shape:
        raise TableError(f"directories has shape {directories__ps.shape}, not {replicas__ps.shape}")
    wrong = (directories__ps < 0) | (directories__ps >= len(brokers.directory_table))
    wrong |= (directories__ps != 0) & (replicas__ps == NO_BROKER_ROW)
    if wrong.any():
        row = int(wrong.any(axis=1).argmax())
        raise TableError(f"directories of row {row} are {directories__ps[row].tolist()}")


def check_replicas(replicas__ps: Int16s, brokers: BrokerTable) -> None:
    """As `check_broker_rows`; also every partition must have a replica."""
    check_broker_rows("replicas", replicas__ps, brokers)
    if len(replicas__ps) and not replicas__ps.shape[1]:
        raise TableError("partition row 0 has no replicas")
    if len(replicas__ps) and replicas__ps[:, 0].min() == NO_BROKER_ROW:
        raise TableError(f"partition row {int(replicas__ps[:, 0].argmin())} has no replicas")


def check_broker_rows(name: str, brokers__ps: Int16s, brokers: BrokerTable) -> None:
    """TableError unless every row is distinct brokers of the table, then -1 to the end; at most MAX_REPLICAS wide."""
    if brokers__ps.shape[1] > MAX_REPLICAS:
        raise TableError(f"{name} is {brokers__ps.shape[1]} wide; at most {MAX_REPLICAS} fit")
    if (row := broker_rows.first_unsound(brokers__ps, len(brokers))) >= 0:
        slots = brokers__ps[row].tolist()
        members = [slot for slot in slots if slot != NO_BROKER_ROW]
        packed = slots[: len(members)] == members
        fault = "names a broker twice" if packed else "has a hole before its last broker"
        raise TableError(f"{name} of row {row} {fault}: {[_name(brokers, slot) for slot in slots]}")


def _name(brokers: BrokerTable, row: int) -> int:
    return int(brokers.ids[row]) if row >= 0 else row


def check_range(name: str, values: Array, low: int, high: int) -> None:
    """TableError naming the first row whose value is not in low..high."""
    if len(values) and (values.min() < low or values.max() > high):
        row = int(np.flatnonzero((values < low) | (values > high))[0])
        raise TableError(f"{name} of row {row} is {values[row]}, not in {low}..{high}")
