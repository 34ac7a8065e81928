"""The partitions of each event of the KRaft controller, and their targets, against the slow twin."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kcore.errors import TableError
from kcore.replication import kraft_events as events
from kcore.replication import kraft_moves as moves
from kcore.replication.levels import level_of
from reference import partition_change as twin
from replication.kraft_tables import (
    Partition,
    broker_rows,
    brokers_of,
    directory_uuid,
    kraft_table,
    records_of,
    rows_in,
    settings_of,
)
from replication.random_partitions import IDS, Dice, rule_of
from seeds import seeds

SEEDS = seeds(10, 25)


class Scene:
    """A random cluster with its table, and the twin's result."""

    def __init__(self, seed: int, **rule: Any) -> None:
        self.dice = Dice(seed)
        self.partitions = self.dice.partitions(IDS, 4, 70)
        self.cluster = self.dice.cluster(IDS)
        self.rule = self.dice.rule() | rule
        self.brokers = brokers_of(IDS, self.cluster["active"], self.cluster["directories"])
        self.table = kraft_table(self.partitions, self.brokers)
        self.settings = settings_of(self.partitions, self.rule)

    def expected(
        self,
        looked_at: Callable[[Partition], bool],
        election: str = "configured",
        targets: Callable[[Partition], dict[str, Any]] = lambda p: {},
        defaults: dict[int, int] | None = None,
        **event: set[int],
    ) -> dict[int, Partition]:
        """By row, the changes of the partitions that the event looks at."""
        decided = {
            row: twin.change(p, self.cluster | event, self.rule, election, targets(p), defaults)
            for row, p in enumerate(self.partitions)
            if looked_at(p)
        }
        return {row: record for row, record in decided.items() if record}


def is_member(brokers: set[int], *lists: str) -> Callable[[Partition], bool]:
    """Whether any of the brokers is in any of these lists of a partition."""
    return lambda p: any(brokers & {*p[name]} for name in lists)


@pytest.mark.parametrize("seed", SEEDS)
def test_brokers_fenced(seed: int) -> None:
    scene = Scene(seed)
    for gone in ([3], [5, 0, 16]):
        wanted = scene.expected(is_member({*gone}, "isr"), leaving={*gone})
        assert records_of(events.brokers_fenced(scene.table, scene.settings, gone)) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_broker_unregistered(seed: int) -> None:
    scene = Scene(100 + seed)
    wanted = scene.expected(is_member({3}, "isr", "elr"), leaving={3})
    assert records_of(events.broker_unregistered(scene.table, scene.settings, 3)) == wanted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("clean", [True, False])
def test_broker_registered_after_an_unclean_shutdown(seed: int, clean: bool) -> None:
    scene = Scene(200 + seed)
    release, elr = scene.rule["release"], scene.rule["elr"]
    if release == "3.9.1":  # It has no clean shutdown, and does nothing below 4.0-IV0.
        assert records_of(events.broker_registered(scene.table, scene.settings, 3, clean_shutdown=clean)) == {}
        scene = Scene(200 + seed, release=release, version=(4, 0, 0))
        wanted = scene.expected(is_member({3}, "isr", "elr"), crashed={3})
    elif clean or not elr:
        wanted = scene.expected(is_member({3}, "isr"), leaving={3})
    else:
        wanted = scene.expected(is_member({3}, "isr", "elr"), crashed={3})
    got = events.broker_registered(scene.table, scene.settings, 3, clean_shutdown=clean)
    assert records_of(got) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_broker_unfenced(seed: int) -> None:
    scene = Scene(300 + seed)
    wanted = scene.expected(lambda p: p["leader"] == -1, arriving={3})
    assert records_of(events.broker_unfenced(scene.table, scene.settings, 3)) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_directories_failed(seed: int) -> None:
    scene = Scene(400 + seed)
    for broker in scene.cluster["directories"]:
        listed = scene.cluster["directories"][broker]
        failed = [*listed[::2], 2, 30]  # Reserved directories and those of other brokers are ignored.

        def is_there(p: Partition, broker: int = broker, failed: Sequence[int] = tuple(listed[::2])) -> bool:
            places = dict(zip(p["replicas"], p["directories"], strict=True))
            return places.get(broker) in failed

        got = events.replicas_lost(scene.table, scene.settings, broker, rows_in(scene.table, broker, failed))
        assert records_of(got) == scene.expected(is_there, leaving={broker})


@pytest.mark.parametrize("seed", SEEDS)
def test_leaders_elected(seed: int) -> None:
    scene = Scene(500 + seed)
    rows = np.arange(len(scene.partitions), dtype=np.int32)
    wanted = scene.expected(lambda p: p["leader"] != p["replicas"][0], "preferred")
    assert records_of(events.leaders_elected(scene.table, scene.settings, rows)) == wanted
    wanted = scene.expected(lambda p: p["leader"] == -1, "unclean")
    assert records_of(events.leaders_elected(scene.table, scene.settings, rows, unclean=True)) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_isrs_altered(seed: int) -> None:
    scene = Scene(600 + seed)
    for p in scene.partitions:
        p["wanted"] = {"isr": scene.dice.some(p["replicas"], least=1), "recovery": int(scene.dice.chance(0.3))}
    chosen = scene.partitions[::2]
    targets = [p["wanted"] for p in chosen]
    got = events.isrs_altered(
        scene.table,
        scene.settings,
        np.arange(0, len(scene.partitions), 2, dtype=np.int32),
        broker_rows(scene.brokers, [each["isr"] for each in targets]),
        np.array([each["recovery"] for each in targets], np.int8),
    )
    wanted = scene.expected(lambda p: p in chosen, targets=lambda p: p["wanted"])
    assert records_of(got) == wanted


def default_directories(scene: Scene) -> dict[int, int]:
    """ClusterControlManager.defaultDir."""
    if scene.rule["version"] < (3, 7, 2):
        return {}
    listed = {broker: scene.cluster["directories"].get(broker, []) for broker in IDS}
    return {broker: 0 if not each else each[0] if len(each) == 1 else 1 for broker, each in listed.items()}


@pytest.mark.parametrize("keeps_earlier", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_reassignments_begun(seed: int, keeps_earlier: bool) -> None:
    scene = Scene(700 + seed)
    for p in scene.partitions:
        p["wanted"] = scene.dice.some(IDS, 4, 1)
        if scene.dice.chance(0.2):
            p["wanted"] = scene.dice.some(p["replicas"], least=1)

    def targets(p: Partition) -> dict[str, Any]:
        original = {*p["replicas"]} - (set() if keeps_earlier else {*p["adding"]})
        removing = sorted({*p["replicas"]} - {*p["wanted"]})
        named = {"removing": removing, "adding": sorted({*p["wanted"]} - original)}
        lists = {name: each for name, each in named.items() if each or not keeps_earlier}
        return {"replicas": [*p["wanted"], *removing]} | lists

    rows = np.arange(len(scene.partitions), dtype=np.int32)
    replicas = broker_rows(scene.brokers, [p["wanted"] for p in scene.partitions])
    got = moves.reassignments_begun(scene.table, scene.settings, rows, replicas, keeps_earlier=keeps_earlier)
    wanted = scene.expected(lambda p: True, "online", targets, default_directories(scene))
    assert records_of(got) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_reassignments_cancelled(seed: int) -> None:
    scene = Scene(800 + seed)

    def targets(p: Partition) -> dict[str, Any]:
        replicas = [replica for replica in p["replicas"] if replica not in p["adding"]]
        isr = [member for member in p["isr"] if member not in p["adding"]]
        return {"replicas": replicas, "isr": isr or replicas[:1], "removing": [], "adding": []}

    def is_refused(p: Partition) -> bool:
        asked = targets(p)
        return not asked["replicas"] or (not {*p["isr"]} - {*p["adding"]} and not p["unclean"])

    rows = np.array([row for row, p in enumerate(scene.partitions) if p["adding"] or p["removing"]], np.int32)
    got = moves.reassignments_cancelled(scene.table, scene.settings, rows)
    moving = [scene.partitions[row] for row in rows.tolist()]
    assert got.refused.tolist() == [row for row, p in zip(rows.tolist(), moving, strict=True) if is_refused(p)]
    wanted = scene.expected(lambda p: p in moving and not is_refused(p), targets=targets)
    assert records_of(got.changes) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_directories_assigned(seed: int) -> None:
    scene = Scene(900 + seed)
    rows = scene.table.index.rows(scene.brokers.row(3))
    homes_by_row = {row: int(scene.dice.random.integers(0, 30)) for row in rows.tolist()}
    chosen = {id(scene.partitions[row]): directory for row, directory in homes_by_row.items()}
    homes = np.array(list(homes_by_row.values()), np.int32)
    assigned = moves.directories_assigned(scene.table, scene.settings, 3, rows, homes)
    lost = events.replicas_lost(scene.table, scene.settings, 3, rows[~moves.are_online(scene.table, 3, homes)])
    rule = scene.rule
    if rule["release"] != "4.3.1":  # It does not pass ELR and a migration to the builder.
        scene.rule = rule | {"elr": False, "migration": False}
    wanted = scene.expected(lambda p: id(p) in chosen, "online", lambda p: {"directory": (3, chosen[id(p)])})
    assert records_of(assigned) == wanted
    scene.rule = rule

    def is_lost(p: Partition) -> bool:
        return id(p) in chosen and not twin.is_online(3, chosen[id(p)], scene.cluster)

    assert records_of(lost) == scene.expected(is_lost, leaving={3})


def test_too_many_replicas_while_moving() -> None:
    ids = list(range(40))
    p = Dice(1).partition(ids, 4) | {"replicas": ids[:20], "directories": [0] * 20, "isr": [0], "leader": 0}
    p |= {"topic": 0, "index": 0, "factor": 20, "min_isr": 1, "unclean": False, "adding": [], "removing": [], "elr": []}
    table = kraft_table([p], brokers_of(ids, {*ids}, {}))
    settings = settings_of([p], rule_of("4.3.1"))
    replicas = broker_rows(table.brokers, [ids[20:]])
    with pytest.raises(TableError, match="row 0 would have 40 replicas while it moves"):
        moves.reassignments_begun(table, settings, np.array([0], np.int32), replicas)


def test_default_directories_of_brokers() -> None:
    """UNASSIGNED of a broker that is not registered or lists several, its one directory, MIGRATING if it lists none."""
    brokers = brokers_of([1, 2, 3, 4], {1, 2, 3, 4}, {1: [5], 2: [6, 7]})
    brokers.unregister(4)
    assert moves.default_directories(brokers, level_of("4.3.1")).tolist() == [5, 1, 0, 1]
    assert brokers.directory_table.uuids[5] == directory_uuid(5)
    assert moves.default_directories(brokers, level_of("3.6-IV2")).tolist() == [0, 0, 0, 0]
