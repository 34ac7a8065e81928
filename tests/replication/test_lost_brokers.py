"""A table keeps the set of lost brokers: no later election makes them leaders until they are back."""

import pytest

from kcore.errors import TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import elect

KINDS = [("offline", "3.9.1"), ("online", "3.9.1"), ("online", "4.3.1")]


def cluster() -> PartitionTable:
    """Every partition on brokers 0 to 2, of which each leads some."""
    return PartitionTable.from_arrays([[p % 3, (p + 1) % 3, (p + 2) % 3] for p in range(6)])


def level_of(kind: str, level: str) -> str:
    return level if kind == "offline" else f"{'3.9-IV0' if level == '3.9.1' else '4.3-IV0'}@{level}"


@pytest.mark.parametrize(("kind", "level"), KINDS)
def test_a_broker_that_was_lost_leads_nothing_after_the_next_loss(kind: str, level: str) -> None:
    table = cluster()
    for leaving in ([0], [1]):
        table.apply(elect(table, kind, leaving=leaving, level=level_of(kind, level)).written(), leaving=leaving)
    assert {*table.leaders_by_broker().items()} == {(0, 0), (1, 0), (2, 6)}
    last = elect(table, kind, leaving=[2], unclean=True, level=level_of(kind, level))
    assert {*last.leaders.tolist()} <= {-1, 2}, "all brokers are lost"
    preferred = elect(table, "preferred", level=level_of(kind, level))
    assert not {*preferred.leaders.tolist()} & {0, 1}


@pytest.mark.parametrize(("kind", "level"), KINDS)
def test_a_broker_that_is_back_may_lead(kind: str, level: str) -> None:
    table = cluster()
    table.apply(elect(table, kind, leaving=[0], level=level_of(kind, level)).written(), leaving=[0])
    table.brokers.set_lost([0], lost=False)
    again = elect(table, kind, leaving=[1, 2], unclean=True, level=level_of(kind, level))
    assert {*again.leaders.tolist()} == {0}


def test_a_broker_may_be_marked_without_changes() -> None:
    table = cluster()
    table.brokers.set_lost([0, 1])
    assert {*elect(table, "offline").leaders.tolist()} == {2}
    image = ClusterImage(cluster())
    image.table.brokers.set_lost([0, 1])
    assert {*elect(image).leaders.tolist()} == {2}


def test_an_unknown_broker_is_refused_and_nothing_is_changed() -> None:
    table, untouched = cluster(), cluster()
    lost = elect(table, "offline", leaving=[0]).written()
    for leaving, said in (([0, 7], "unknown broker 7"), (0, "give a list of broker ids, not 0")):
        with pytest.raises(TableError, match=said):
            table.apply(lost, leaving=leaving)  # type: ignore[arg-type]
        assert table == untouched and table.brokers.live.all()


def test_a_lost_broker_is_taken_back_with_the_journal() -> None:
    image = ClusterImage(cluster())
    image.keep_journal()
    image.begin(10)
    image.table.apply(elect(image, leaving=[0]).written(), leaving=[0])
    assert not image.brokers.live[0]
    image.revert_to(10)
    assert image.brokers.live.all()
