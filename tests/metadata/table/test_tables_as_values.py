"""Tables, images and changes as values: pickled, copied, compared, printed; read-only columns."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.errors import TableError
from kcore.measure.workloads.generate import generate
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import KraftChanges, PartitionChanges, UnwrittenChanges
from kcore.metadata.table.column_list import ALL_COLUMNS
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import elect
from kcore.schema.metadata_records_settings import FeatureLevelRecord

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
ANY_COPY = pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)


def table() -> PartitionTable:
    made = generate(partitions=60, brokers=6, replication_factor=3, topics=4, seed=5, racks=2)
    made.remove_topic("topic-00002")
    made.brokers.set_gone(4)
    made.apply(elect(made, "online", leaving=[1], elr=True, min_isr=3))
    return made


@ANY_COPY
def test_a_copy_of_a_table_is_equal_and_a_table_of_its_own(again: Callable[[Any], Any]) -> None:
    """A regression: methods did not write to the columns of a pickled table."""
    mine = table()
    twin = again(mine)
    assert twin == mine and twin is not mine
    assert [*twin] == [*mine] and len(twin) == len(mine)
    twin.apply(elect(twin, "online", leaving=[2]))
    twin.brokers.set_gone(3)
    twin.add_topic("new", [[5, 0]])
    assert twin != mine and mine == table()
    assert {state.leader for state in twin} & {1, 2} == set()
    assert np.array_equal(twin.index.rows(twin.brokers.row(5)), rows_with(twin, 5))
    assert twin.state(twin.row_of("new", 0)).replicas == (5, 0)
    assert 3 not in set(twin.brokers) and 3 in set(mine.brokers)


def rows_with(of: PartitionTable, broker: int) -> Any:
    return np.flatnonzero((of.replicas__ps == of.brokers.row(broker)).any(axis=1))


def test_a_pickle_has_the_columns_once() -> None:
    made = generate(partitions=100_000, brokers=10, replication_factor=3, topics=10, seed=1)
    assert len(pickle.dumps(made)) < 1.2 * sum(array.nbytes for array in made.columns_in_use().values())


def test_equality_looks_at_states_topics_and_brokers_in_whatever_rows() -> None:
    one = PartitionTable.from_arrays([[1, 2], [2, 1]])
    assert one == PartitionTable.from_arrays([[2, 1], [1, 2]], partition_indexes=[1, 0])
    assert one != PartitionTable.from_arrays([[1, 2], [2, 1]], leader_epochs=[0, 1])
    live = BrokerTable.from_arrays([1, 2], live=[True, False])
    assert one != PartitionTable.from_arrays([[1, 2], [2, 1]], brokers=live)
    assert one != "a table" and one.topics == one.copy().topics and one.topics != "topics"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@pytest.mark.parametrize("again", [lambda each: each, *COPIES.values()], ids=["made", *COPIES])
def test_columns_are_read_only(again: Callable[[Any], Any]) -> None:
    mine = again(table())
    columns = {name: getattr(mine, name) for name in ALL_COLUMNS if getattr(mine, name) is not None}
    columns |= {name: getattr(mine.brokers, name) for name in ("ids", "live", "epochs", "fenced__b")}
    columns |= {"index": mine.index.rows(0), "owners": mine.directories.owner__d}
    for array in columns.values():
        before = array.copy()
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 3
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True
        assert np.array_equal(array, before)
    with pytest.raises(TableError, match="replicas__ps is read-only"):
        mine.replicas__ps = np.zeros((60, 3), np.int16)
    with pytest.raises(TableError, match="live is read-only"):
        mine.brokers.live = np.zeros(6, np.bool_)


@ANY_COPY
def test_an_image_is_copied_without_its_journal(again: Callable[[Any], Any]) -> None:
    image = ClusterImage(table())
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=25))
    image.keep_journal()
    twin = again(image)
    twin.table.brokers.set_gone(5)
    assert twin != image and 5 in set(image.brokers)
    twin = again(image)
    assert twin == image and twin.recorder is None
    assert repr(twin) == repr(image)
    assert repr(image).startswith("<ClusterImage up to offset 0: 45 partitions of 3 topics, 6 brokers, 5 live, ")
    assert repr(image).endswith("metadata.version 4.0-IV3>")
    assert repr(ClusterImage()).endswith("0 brokers, 0 live, no metadata.version>")


def changes() -> dict[str, Any]:
    of = table()
    kraft = elect(of, "online", leaving=[2], elr=True, min_isr=3)
    return {
        "ZooKeeperElections": elect(of, "offline", leaving=[2]),
        "PartitionChanges": elect(of, "offline", leaving=[2]).written(),
        "KraftElections": kraft,
        "KraftChanges": kraft.records(),
        "SparseLists": kraft.eligible_leader_replicas,
    }


@ANY_COPY
def test_a_copy_of_changes_is_equal(again: Callable[[Any], Any]) -> None:
    for name, each in changes().items():
        assert type(each).__name__ == name
        twin = again(each)
        assert twin == each, name


def test_changes_that_differ_are_not_equal() -> None:
    made = changes()
    others = [each for each in made.values() if type(each) is not UnwrittenChanges]
    assert all((one == other) == (one is other) for one in others for other in others)
    more = elect(table(), "offline", leaving=[3])
    assert made["ZooKeeperElections"] != more
    written = made["PartitionChanges"]
    again = PartitionChanges(*(getattr(written, name) for name in PartitionChanges.__match_args__))
    again.leader_epochs = again.leader_epochs + 1
    assert written != again


def test_repr_of_changes_has_counts_alone() -> None:
    of = generate(partitions=100_000, brokers=10, replication_factor=1, topics=10, seed=1)
    for each in (elect(of, "offline", leaving=[2]), elect(of, "online", leaving=[2])):
        assert len(repr(each)) < 200
        assert f"of {len(each)} partitions, {len(each)} without a leader" in repr(each)
    one = KraftChanges(np.array([3], np.int32), leaders=np.array([1], np.int32))
    assert repr(one) == "<KraftChanges of 1 partition: leaders>"
    assert repr(of.brokers) == "<BrokerTable: 10 brokers, 10 live>"
    assert repr(of.topics) == "<TopicTable: 10 topics>"


def test_a_change_is_applied_to_the_state_that_it_was_decided_on() -> None:
    of = table()
    lost, kraft = elect(of, "offline", leaving=[2]).written(), elect(of, "online", leaving=[2])
    before = of.copy()
    for decided in (lost, kraft, elect(of, "online", leaving=[2], elr=True, min_isr=3)):
        mine = before.copy()
        mine.apply(decided)
        after = mine.copy()
        with pytest.raises(TableError, match=r"decided on another state: topic-0000\d-\d+ has partition epoch"):
            mine.apply(decided)
        assert mine == after  # Nothing has changed.
    assert isinstance(kcore.zk.elect(of, "offline", leaving=[2]), UnwrittenChanges)
    with pytest.raises(TableError, match="not written"):
        of.apply(elect(of, "offline", leaving=[2]))  # type: ignore[arg-type]


def test_an_old_change_makes_no_broker_lead_that_has_left() -> None:
    of = PartitionTable.from_arrays([[1, 2, 3]])
    to_two = elect(of, "offline", leaving=[1]).written()
    of.apply(to_two)
    of.brokers.set_gone(2)
    of.apply(elect(of, "offline", leaving=[2]).written())
    assert of.state(0).leader == 3
    with pytest.raises(TableError, match="topic-0 has partition epoch 2, and the change gives it 1"):
        of.apply(to_two)
    assert of.state(0).leader == 3
    of.apply(to_two, check_epochs=False)  # States that were read may have any epochs.
    assert of.state(0).leader == 2


def test_leader_epochs_count_as_well() -> None:
    of = PartitionTable.from_arrays([[1, 2]], leader_epochs=[4], partition_epochs=[7])
    decided = elect(of, "online", leaving=[1])
    decided.leader_epochs = decided.leader_epochs - 2
    with pytest.raises(TableError, match="topic-0 has leader epoch 4, and the change gives it 3"):
        of.apply(decided)


def test_the_loss_of_several_brokers_can_be_applied() -> None:
    """In ZooKeeper mode each lost broker may be the leader: the epoch rises more than once."""
    of = kcore.generate(partitions=60, brokers=10, replication_factor=5, topics=3, seed=0)
    lost = elect(of, "offline", leaving=[1, 2, 3]).written()
    assert (lost.leader_epochs - of.leader_epoch__p[lost.rows]).max() > 1
    of.apply(lost)
    assert (of.leader_epoch__p[lost.rows] == lost.leader_epochs).all()


def test_what_is_no_change_is_refused() -> None:
    with pytest.raises(TableError, match="PartitionChanges can be applied, not list"):
        table().apply([])  # type: ignore[arg-type]


@ANY_COPY
def test_copies_of_topics_and_directories_share_nothing(again: Callable[[Any], Any]) -> None:
    mine = table()
    topics, directories = again(mine.topics), again(mine.directories)
    topics.add("new")
    directories.name([bytes(range(16))])
    assert "new" not in mine.topics and len(mine.directories) == 3
    assert (len(directories), repr(directories)) == (4, "<DirectoryTable: 1 besides the reserved ones>")
