"""KRaft's decisions onto a table: as columns, as records from columns, and as the slow twin has it."""

from typing import Any

import numpy as np
import pytest

from kcore._ext.elections.election import CALLS, LEAVES
from kcore.errors import TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.partition_values import records_of_changes
from kcore.replication.elect import elect
from kcore.replication.kraft_changes import CONFIGURED, BulkTargets, decide, described_brokers
from kcore.replication.kraft_results import KraftElections
from kcore.types import Uuid
from metadata.stories import log_of
from reference import partition_change as twin
from replication.kraft_tables import (
    Partition,
    broker_rows,
    brokers_of,
    directory_uuid,
    kraft_table,
    records_of,
    settings_of,
)
from replication.random_partitions import IDS, Dice, rule_of


def lived(dice: Dice) -> tuple[list[Partition], ClusterImage, KraftElections]:
    """Partitions, the image that holds them, and a decision that names every field of a record somewhere."""
    partitions = dice.partitions(IDS, 4, 80)
    cluster = dice.cluster(IDS)
    table = kraft_table(partitions, brokers_of(IDS, cluster["active"], cluster["directories"]))
    for number, name in enumerate(table.topics.names):
        table.topics.set_id(name, Uuid((number + 1).to_bytes(16)))
    image = ClusterImage(table)
    targets: list[dict[str, Any]] = []
    for _ in partitions:
        wanted = {"replicas": dice.some(IDS, 6, 1)} if dice.chance(0.4) else {}
        wanted |= {name: dice.some(IDS, 3) for name in ("removing", "adding") if dice.chance(0.3)}
        targets.append(wanted)
    lists = {
        name: broker_rows(table.brokers, [each.get(name) for each in targets])
        for name in ("replicas", "removing", "adding")
    }
    leaving = [table.brokers.row(broker) for broker in (3, 5)]
    changes = decide(
        table,
        settings_of(partitions, rule_of("4.3.1")),
        np.arange(len(partitions), dtype=np.int32),
        described_brokers(table, leaving, CALLS | LEAVES),
        election=CONFIGURED,
        targets=BulkTargets(**lists),
    )
    return partitions, image, changes


def as_twin(table: PartitionTable, row: int) -> dict[str, Any]:
    found = table.registration(row)
    return {
        "replicas": list(found.replicas),
        "isr": list(found.isr),
        "leader": found.leader,
        "leader_epoch": found.leader_epoch,
        "partition_epoch": found.partition_epoch,
        "recovery": found.leader_recovery_state,
        "elr": list(found.elr),
        "last_known_elr": list(found.last_known_elr),
        "removing": list(found.removing_replicas),
        "adding": list(found.adding_replicas),
        "directories": list(found.directories),
    }


@pytest.mark.parametrize("seed", range(25))
def test_a_decision_applied_is_its_records_replayed(seed: int) -> None:
    partitions, image, changes = lived(Dice(3000 + seed))
    before = image.copy()
    values = list(records_of_changes(image.table, changes.records(), "4.3.1"))
    image.table.apply(changes.written())
    through_image, replayed = before.copy(), before.copy()
    through_image.apply_changes(changes, 7)
    replay(replayed, log_of(values))
    assert image == through_image == replayed != before
    for row, record in records_of(changes).items():
        wanted = twin.after(partitions[row], record)
        wanted["directories"] = [directory_uuid(each) for each in wanted["directories"]]
        wanted["last_known_elr"] = [each for each in wanted["last_known_elr"] if each >= 0]  # -1: there was no leader.
        found = as_twin(image.table, row)
        assert found == {name: wanted[name] for name in found}, row


@pytest.mark.parametrize("seed", range(10))
def test_a_decision_applied_can_be_taken_back(seed: int) -> None:
    _, image, changes = lived(Dice(4000 + seed))
    before = image.copy()
    image.keep_journal()
    image.begin(0)
    image.apply_changes(changes, 0)
    assert image != before
    image.revert_to(0)
    assert image == before


def test_brokers_that_leave_become_eligible_leaders_of_the_table() -> None:
    table = PartitionTable.from_arrays([[0, 1, 2]])
    table.apply(elect(table, "online", leaving=[1, 2], elr=True, min_isr=2).written())
    found = table.registration(0)
    assert (found.isr, sorted(found.elr), found.leader) == ((0,), [1, 2], 0)


def test_only_what_is_written_is_applied() -> None:
    table = PartitionTable.from_arrays([[0, 1]])
    changes = elect(table, "offline", leaving=[0])
    assert isinstance(changes, UnwrittenChanges)
    with pytest.raises(TableError, match="not written"):
        ClusterImage(table).apply_changes(changes)  # type: ignore[arg-type]
