"""KRaft tables for tests, from the plain dicts of `reference/partition_change.py`, and decisions as such dicts."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.replication.kraft_changes import KraftSettings, Setting
from kcore.replication.kraft_results import ChangedFields, KraftElections, SparseLists
from kcore.replication.levels import level_of
from kcore.types import Int16s, Int32s, Uuid
from replication.small_tables import padded

Partition = dict[str, Any]
MOST_DIRECTORIES = 64
FIELDS = {
    "isr": ChangedFields.ISR,
    "leader": ChangedFields.LEADER,
    "replicas": ChangedFields.REPLICAS,
    "removing": ChangedFields.REMOVING_REPLICAS,
    "adding": ChangedFields.ADDING_REPLICAS,
    "recovery": ChangedFields.LEADER_RECOVERY_STATE,
    "elr": ChangedFields.ELIGIBLE_LEADER_REPLICAS,
    "last_known_elr": ChangedFields.LAST_KNOWN_ELR,
    "directories": ChangedFields.DIRECTORIES,
}
SPARSE = {
    "replicas": "replicas",
    "removing": "removing_replicas",
    "adding": "adding_replicas",
    "elr": "eligible_leader_replicas",
    "last_known_elr": "last_known_elr",
    "directories": "directories",
}


def directory_uuid(row: int) -> Uuid:
    """The Uuid of a row of the DirectoryTable: the reserved ones are the first three."""
    return Uuid(bytes([0 if row < 3 else 1, *[0] * 11, *row.to_bytes(4, "big")]))


def brokers_of(ids: Sequence[int], active: set[int], directories: dict[int, list[int]]) -> BrokerTable:
    """Brokers that are registered; those not active are fenced or shutting down, in turn."""
    brokers = BrokerTable.from_arrays(np.array(ids, np.int32), live=np.zeros(len(ids), np.bool_))
    brokers.directory_table.name([directory_uuid(row) for row in range(3, MOST_DIRECTORIES)])
    for at, broker in enumerate(ids):
        idle = broker not in active
        listed = tuple(directory_uuid(row) for row in directories.get(broker, []))
        brokers.put(
            BrokerRegistration(
                broker, 1, fenced=idle and at % 2 == 0, in_controlled_shutdown=idle and at % 2 == 1, directories=listed
            )
        )
    return brokers


def kraft_table(partitions: Sequence[Partition], brokers: BrokerTable) -> PartitionTable:
    """A table of these partitions, in this order, with their `topic` and `index`."""
    topics = sorted({p["topic"] for p in partitions})
    width = max((len(p["replicas"]) for p in partitions), default=1)
    directories = [[*p["directories"], *[0] * (width - len(p["replicas"]))] for p in partitions]
    lists = {name: padded([p[name] for p in partitions]) for name in ("elr", "last_known_elr")}
    return PartitionTable.from_arrays(
        padded([p["replicas"] for p in partitions], width),
        isr=padded([p["isr"] for p in partitions]),
        leaders=[p["leader"] for p in partitions],
        leader_epochs=[p["leader_epoch"] for p in partitions],
        partition_epochs=[p["partition_epoch"] for p in partitions],
        leader_recovery_states=[p["recovery"] for p in partitions],
        topics=TopicTable([f"topic-{topic}" for topic in topics]),
        topic_rows=[topics.index(p["topic"]) for p in partitions],
        partition_indexes=[p["index"] for p in partitions],
        brokers=brokers,
        adding={row: p["adding"] for row, p in enumerate(partitions) if p["adding"]},
        removing={row: p["removing"] for row, p in enumerate(partitions) if p["removing"]},
        directories=directories if any(map(any, directories)) else None,
        **{name: each for name, each in lists.items() if (each >= 0).any()},
    )


def settings_of(partitions: Sequence[Partition], rule: dict[str, Any]) -> KraftSettings:
    """The rule of the twin; settings by partition row."""
    major, minor, revision = rule["version"]
    return KraftSettings(
        level=level_of(f"{major}.{minor}-IV{revision}@{rule['release']}"),
        elr_enabled=rule["elr"],
        unclean=Setting.by_partition(np.array([p["unclean"] for p in partitions], np.uint8)),
        min_isr=Setting.by_partition(np.array([p["min_isr"] for p in partitions], np.int32)),
        use_last_known_leader=rule["last_known_leader"],
        zk_migration=rule["migration"],
    )


def broker_rows(brokers: BrokerTable, lists: Sequence[Sequence[int] | None]) -> Int16s:
    """Targets in the kernel's form: broker rows, padded, None as -2."""
    rows = [[-2] if each is None else [brokers.row(broker) for broker in each] for each in lists]
    return padded(rows).astype(np.int16)


def rows_in(table: PartitionTable, broker_id: int, directories: Collection[int]) -> Int32s:
    """The partitions with a replica on the broker in one of the directories that its registration lists."""
    row = table.brokers.row(broker_id)
    failed = [each for each in directories if each in table.brokers.directories[row]]
    if table.directories__ps is None:
        return np.empty(0, np.int32)
    is_there__ps = (table.replicas__ps == row) & np.isin(table.directories__ps, failed)
    return np.flatnonzero(is_there__ps.any(axis=1)).astype(np.int32)


def records_of(changes: KraftElections) -> dict[int, Partition]:
    """By partition row, the fields that its PartitionChangeRecord sets."""
    lists = {name: _by_place(getattr(changes, long)) for name, long in SPARSE.items()}
    records: dict[int, Partition] = {}
    for place, row in enumerate(changes.rows.tolist()):
        isr = changes.isr[changes.isr_offsets[place] : changes.isr_offsets[place + 1]].tolist()
        values = {"isr": isr, "leader": int(changes.leaders[place]), "recovery": int(changes.recovery[place])}
        values |= {name: found[place] for name, found in lists.items() if place in found}
        named = {name for name, bit in FIELDS.items() if changes.fields[place] & bit}
        assert {name for name in lists if name in values} == named & {*SPARSE}, "fields and lists disagree"
        records[row] = {name: values[name] for name in named}
    return records


def _by_place(lists: SparseLists | None) -> dict[int, list[int]]:
    if lists is None:
        return {}
    bounds = lists.offsets.tolist()
    return {place: lists.values[bounds[at] : bounds[at + 1]].tolist() for at, place in enumerate(lists.places.tolist())}


def states_of(changes: KraftElections) -> dict[int, Partition]:
    """By partition row, the state after the change as the columns have it."""
    bounds = changes.isr_offsets.tolist()
    return {
        row: {
            "isr": changes.isr[bounds[place] : bounds[place + 1]].tolist(),
            "leader": int(changes.leaders[place]),
            "leader_epoch": int(changes.leader_epochs[place]),
            "partition_epoch": int(changes.partition_epochs[place]),
            "recovery": int(changes.recovery[place]),
        }
        for place, row in enumerate(changes.rows.tolist())
    }
