"""The recorded decisions of PartitionChangeBuilder in bulk: cases of the same rules in one table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kcore._ext.elections.election import CRASHED
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import LOST_UUID, RESERVED
from kcore.replication.kraft_changes import (
    ONLINE,
    PREFERRED,
    UNCLEAN,
    BulkTargets,
    KraftSettings,
    Setting,
    decide,
    described_brokers,
)
from kcore.types import Uuid
from replication.kraft_tables import Partition, broker_rows, kraft_table, records_of, states_of
from replication.recorded_partition_changes import RELEASES, Case, may_lead, recorded_changes, rules_of

ELECTIONS = {"ONLINE": ONLINE, "UNCLEAN": UNCLEAN, "PREFERRED": PREFERRED}
STEP = 1 << 20  # Between the broker ids of two cases: it leaves the order of Java's small hash sets alone.
NOT_LOST = Uuid(b"\xff" * 16)
WIDEST = 8  # Each case gets a partition 0, so that its replication factor caps no minimum ISR.
TARGETS = {"isr": "target_isr", "replicas": "target_replicas", "removing": "target_removing", "adding": "target_adding"}
LISTS = ("replicas", "isr", "removing", "adding", "elr", "last_known_elr")


def groups(release: str) -> list[list[Case]]:
    """Cases that one call can decide: at most one broker lists directories."""
    by_rules: dict[Any, list[Case]] = {}
    for case in recorded_changes(release):
        if not case["error"]:  # Errors of PartitionReassignmentRevert, before a change is built.
            alone = case["i"] if case["op"] == "set_directory" else None
            rules = ("metadata_version", "elr_enabled", "use_last_known_leader", "zk_migration", "election")
            by_rules.setdefault((*(case[name] for name in rules), alone), []).append(case)
    return list(by_rules.values())


class OneTable:
    """The cases of a group as partitions 1 of a topic each, with brokers of their own."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self.directories = {uuid: row for row, uuid in enumerate(RESERVED)}
        partitions: list[Partition] = []
        ids = list(range(2**31 - WIDEST, 2**31))
        acceptable: set[int] = set()
        for place, case in enumerate(cases):
            known = {broker for name in LISTS for broker in case["partition"][name]} | {
                *case["brokers"],
                case["subject"],
            }
            ids += sorted(self.id_of(place, broker) for broker in known - {-1})
            acceptable |= {self.id_of(place, broker) for broker in may_lead(case) & known}
            partitions += [self.first(place, ids[:WIDEST]), self.partition(place, case)]
        self.brokers = BrokerTable.from_arrays(np.array(ids), live=np.isin(ids, list(acceptable)))
        defaults = np.ones(len(ids), np.int32)
        for place, case in enumerate(cases):
            for broker, directory in case["default_dirs"].items():
                if self.id_of(place, int(broker)) in self.brokers:
                    defaults[self.brokers.row(self.id_of(place, int(broker)))] = self.directory(directory)
        self.defaults = defaults
        moved = [self.directory(case["set_dir"]) if case["set_dir"] else 0 for case in cases]
        self.moved = np.array(moved, np.int32)
        self.brokers.directory_table.name(sorted(self.directories, key=self.directories.__getitem__))
        assert len(self.brokers.directory_table) == 1 + max(self.directories.values())
        self.table = kraft_table(partitions, self.brokers)

    def id_of(self, place: int, broker: int) -> int:
        return broker + STEP * place if broker >= 0 else broker

    def directory(self, uuid: str) -> int:
        """Its row of the DirectoryTable. The recorded acceptors have no directories: LOST is one of many here."""
        known = self.directories
        return known.setdefault(NOT_LOST if Uuid(uuid) == LOST_UUID else Uuid(uuid), len(known))

    def first(self, place: int, replicas: list[int]) -> Partition:
        empty: dict[str, Any] = {name: [] for name in LISTS}
        numbers = {"leader": -1, "leader_epoch": 0, "partition_epoch": 0, "recovery": 0}
        return empty | numbers | {"topic": place, "index": 0, "replicas": replicas, "directories": [0] * WIDEST}

    def partition(self, place: int, case: Case) -> Partition:
        given = case["partition"]
        lists = {name: [self.id_of(place, broker) for broker in given[name]] for name in LISTS}
        return lists | {
            "topic": place,
            "index": 1,
            "leader": self.id_of(place, given["leader"]),
            "directories": [self.directory(directory) for directory in given["directories"]],
            "recovery": given["leader_recovery_state"],
            "leader_epoch": given["leader_epoch"],
            "partition_epoch": given["partition_epoch"],
        }

    def targets(self) -> BulkTargets:
        """As the cases have them."""
        lists = {
            ours: broker_rows(
                self.brokers,
                [
                    None if case[theirs] is None else [self.id_of(place, broker) for broker in case[theirs]]
                    for place, case in enumerate(self.cases)
                ],
            )
            for ours, theirs in TARGETS.items()
        }
        mover = self.cases[0]["set_dir_broker"]
        return BulkTargets(
            **lists,
            recovery=np.array([0 if case["target_recovered"] else -1 for case in self.cases], np.int8),
            directories=None if mover is None else self.moved,
            directory_broker=-1 if mover not in self.brokers else self.brokers.row(mover),
            default_directories=self.defaults,
        )

    def expected(self, place: int, fields: Case) -> Partition:
        """A recorded change with the ids of this table, without unset fields."""
        renamed: Partition = {}
        for name, value in fields.items():
            if value is None or (name, value) in (("leader", -2), ("leader_recovery_state", -1)):
                continue
            if name in LISTS:
                value = [self.id_of(place, broker) for broker in value]
            elif name == "leader":
                value = self.id_of(place, value)
            elif name == "directories":
                value = [self.directory(directory) for directory in value]
            renamed["recovery" if name == "leader_recovery_state" else name] = value
        return renamed


@pytest.mark.recorded
@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_change_in_bulk(release: str) -> None:
    decided = 0
    for cases in groups(release):
        made = OneTable(cases)
        rules = rules_of(cases[0], release)
        minimums = [value for case in cases for value in (1, case["min_isr"])]
        settings = KraftSettings(
            rules.level,
            elr_enabled=rules.elr_enabled,
            min_isr=Setting.by_partition(np.array(minimums, np.int32)),
            use_last_known_leader=rules.use_last_known_leader,
            zk_migration=rules.zk_migration,
        )
        brokers__b = described_brokers(made.table)
        for place, case in enumerate(cases):
            for broker in case["unclean_shutdown"] or ():
                brokers__b[made.brokers.row(made.id_of(place, broker)) + 1] |= CRASHED
        rows = np.arange(1, 2 * len(cases), 2, dtype=np.int32)
        election = ELECTIONS[cases[0]["election"]]
        got = decide(made.table, settings, rows, brokers__b, election=election, targets=made.targets())
        records, states = records_of(got), states_of(got)
        for place, case in enumerate(cases):
            row = 2 * place + 1
            assert records.get(row, {}) == made.expected(place, case["out"] or {}), case["i"]
            if case["out"]:
                merged = made.expected(place, case["merged"])
                assert states[row] == {name: merged[name] for name in states[row]}, case["i"]
            decided += 1
    assert decided
