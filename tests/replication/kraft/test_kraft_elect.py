"""`elect` at KRaft's levels: kinds, several brokers at once, directories and ELR, against the slow twin."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kcore.errors import LevelError
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import elect
from kcore.replication.kraft_results import KraftElections
from reference import partition_change as twin
from replication.kraft_tables import Partition, brokers_of, kraft_table, records_of
from replication.random_partitions import IDS, Dice, rule_of
from seeds import seeds

SEEDS = seeds(8, 20)


class Scene:
    """A random table, `elect` with its settings, and the twin's result."""

    def __init__(self, seed: int) -> None:
        dice = Dice(seed)
        self.partitions = dice.partitions(IDS, 4, 80)
        self.cluster = dice.cluster(IDS)
        release = ("4.3.1", "4.1.2", "3.9.1")[seed % 3]
        self.rule = rule_of(release, elr=seed % 2 == 0)
        major, minor, revision = self.rule["version"]
        self.level = f"{major}.{minor}-IV{revision}@{release}"
        self.table = kraft_table(self.partitions, brokers_of(IDS, self.cluster["active"], self.cluster["directories"]))

    def elect(self, kind: str, **options: Any) -> dict[int, Partition]:
        """The records of an election."""
        found = elect(
            self.table,
            kind,
            level=self.level,
            elr=self.rule["elr"],
            unclean=np.array([p["unclean"] for p in self.partitions]),
            min_isr=np.array([p["min_isr"] for p in self.partitions]),
            **options,
        )
        assert isinstance(found, KraftElections)
        return records_of(found)

    def expected(
        self, looked_at: Callable[[Partition], bool], election: str = "configured", leaving: set[int] = frozenset()
    ) -> dict[int, Partition]:
        """The same by the twin."""
        cluster = self.cluster | {"leaving": leaving}
        decided = {
            row: twin.change(p, cluster, self.rule, election) for row, p in enumerate(self.partitions) if looked_at(p)
        }
        return {row: record for row, record in decided.items() if record}

    def is_led(self, p: Partition) -> bool:
        """Whether the leader may lead, wherever it is in sync."""
        return twin.may_lead(p["leader"], p, self.cluster, stranger=False)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("leaving", [[3], [5, 0], [1, 2, 3, 4]])
def test_brokers_that_are_fenced_at_once(seed: int, leaving: list[int]) -> None:
    """One change a partition for all leaving brokers; Kafka would make one for each broker."""
    scene = Scene(seed)
    gone = {*leaving}
    wanted = scene.expected(lambda p: bool(gone & {*p["isr"]}), leaving=gone)
    assert scene.elect("online", leaving=leaving) == wanted
    assert scene.elect("controlled-shutdown", leaving=leaving) == wanted
    wanted = scene.expected(lambda p: bool(gone & {*p["isr"]}), "unclean", gone)
    assert scene.elect("unclean", leaving=leaving) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_partitions_whose_leader_may_not_lead(seed: int) -> None:
    """With directories (KIP-858) that is also a leader whose directory is offline."""
    scene = Scene(100 + seed)
    assert scene.elect("online") == scene.expected(lambda p: not scene.is_led(p))
    assert scene.elect("unclean") == scene.expected(lambda p: p["leader"] == -1, "unclean")
    assert scene.elect("preferred") == scene.expected(lambda p: p["leader"] != p["replicas"][0], "preferred")


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_are_named(seed: int) -> None:
    scene = Scene(200 + seed)
    chosen = scene.partitions[::3]
    rows = range(0, len(scene.partitions), 3)
    for kind, election in (("online", "configured"), ("unclean", "unclean"), ("preferred", "preferred")):
        assert scene.elect(kind, rows=rows) == scene.expected(lambda p: p in chosen, election)


def test_the_last_two_of_an_isr_go_at_once() -> None:
    """None of them is elected, and both may have all acknowledged records: the ISR stays, or becomes the ELR."""
    table = PartitionTable.from_arrays([[1, 2, 3]], isr=[[1, 2]], leaders=[1])
    both = elect(table, "online", leaving=[1, 2])
    assert (both.leaders.tolist(), both.isr.tolist(), both.leader_epochs.tolist()) == ([-1], [1, 2], [1])
    assert both.failed.tolist() == [0]
    with_elr = elect(table, "online", leaving=[1, 2], elr=True, min_isr=2)
    assert records_of(with_elr) == {0: {"isr": [], "leader": -1, "elr": [1, 2], "last_known_elr": [1]}}


def test_epochs_are_those_after_the_change() -> None:
    """ZooKeeper mode's partition epochs are those that the write must find; `written` distinguishes them."""
    table = PartitionTable.from_arrays([[1, 2, 3]], leader_epochs=[4], partition_epochs=[7])
    kraft, zookeeper = elect(table, "online", leaving=[1]), elect(table, "offline", leaving=[1])
    assert (kraft.leader_epochs.tolist(), kraft.partition_epochs.tolist()) == ([5], [8])
    assert zookeeper.partition_epochs.tolist() == [7]
    for changes in (kraft, zookeeper):
        after = table.copy()
        after.apply(changes.written())
        assert (after.state(0).leader, after.state(0).partition_epoch) == (2, 8)


def test_the_level_left_out() -> None:
    """ZooKeeper mode's kinds are decided as 3.9.1 does, KRaft's own as the newest release."""
    table = PartitionTable.from_arrays([[1, 2, 3]], leaders=[2])
    assert isinstance(elect(table, "online", leaving=[2]), KraftElections)
    assert isinstance(elect(table, "unclean"), KraftElections)
    for kind in ("offline", "preferred", "reassign"):
        assert not isinstance(elect(table, kind), KraftElections)
    with pytest.raises(LevelError, match=r"no election 'sideways' at level 3\.9\.1"):
        elect(table, "sideways")
    with pytest.raises(LevelError, match=r"'online' at level 3\.9\.1, which is ZooKeeper's"):
        elect(table, "online", level="3.9.1")
    with pytest.raises(LevelError, match="2 brokers leave"):
        elect(table, "controlled-shutdown", leaving=[1, 2])


def test_settings_for_all_and_for_each() -> None:
    table = PartitionTable.from_arrays([[1, 2]] * 2, isr=[[1]] * 2, leaders=[1] * 2)
    each = elect(table, "online", leaving=[1], unclean=[False, True])
    assert each.leaders.tolist() == [-1, 2]
    assert each.recovery.tolist() == [0, 1]
    mixed = elect(table, "online", leaving=[1], elr=True, unclean=[False, True], min_isr=2)
    assert records_of(mixed) == {
        0: {"isr": [], "leader": -1, "elr": [1], "last_known_elr": [1]},
        1: {"isr": [2], "leader": 2, "recovery": 1},  # Unclean elections, where they are allowed, forget the ELR.
    }
