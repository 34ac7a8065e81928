"""Reverting records, decisions and the ZooKeeper-mode controller's methods, batch by batch.

Random histories of the tables: each state after a batch is kept as a copy, and can be restored.
"""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcore import schema as s
from kcore.errors import TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.journal import Journal
from kcore.metadata.table import partition_rows
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Uuid
from metadata.stories import BROKERS, DIRECTORIES

Dice = st.integers(0, 2**32).map(Random)


class Life:
    """Methods that change the tables, as the ZooKeeper-mode controller calls them."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.image, self.made = dice, ClusterImage(), 0
        for broker in range(BROKERS):
            self.image.brokers.register(broker, 1)

    @property
    def table(self) -> PartitionTable:
        return self.image.table

    def step(self) -> None:
        """One change; none if its precondition fails."""
        self.dice.choice(
            [
                *(self.add_topic, self.add_topic, self.add_partitions, self.remove_topics),
                *(self.move, self.lead, self.broker, self.setting),
            ]
        )()

    def replicas(self, count: int) -> list[list[int]]:
        width = self.dice.choice((1, 3, 3, 5))
        return [self.dice.sample(range(BROKERS), width) for _ in range(count)]

    def names(self) -> list[str]:
        return [name for name in self.table.topics.names if name]

    def rows(self) -> np.ndarray:
        known = np.flatnonzero(self.table.topic_row__p >= 0).tolist()
        return np.array(sorted(self.dice.sample(known, self.dice.randint(0, len(known)))), np.int32)

    def add_topic(self) -> None:
        self.made += 1
        topic_id = Uuid(self.made.to_bytes(16))
        self.table.add_topic(f"t{self.made}", self.replicas(self.dice.randint(1, 5)), topic_id=topic_id)

    def add_partitions(self) -> None:
        if names := self.names():
            first = self.dice.choice((None, None, self.dice.randrange(50, 1000) * 10))
            name, more = self.dice.choice(names), self.replicas(2)
            known = self.table.partition_index__p[self.table.rows_of_topic(name)].tolist()
            if first not in known and (first or 0) + 1 not in known:
                self.table.add_partitions(name, more, first_partition=first)

    def remove_topics(self) -> None:
        names = self.names()
        self.table.remove_topics(self.dice.sample(names, min(len(names), self.dice.randint(0, 2))))

    def move(self) -> None:
        rows = self.rows()
        moving = {row: self.dice.sample(range(BROKERS), 2) for row in rows.tolist() if self.dice.random() < 0.4}
        if len(rows):
            self.table.set_replicas(
                rows, self.replicas(len(rows)), adding=moving, removing=dict(list(moving.items())[:1])
            )

    def lead(self) -> None:
        rows = self.rows()
        count = len(rows)
        leaders = np.array([self.dice.randrange(-1, BROKERS) for _ in rows], np.int32)
        offsets = np.arange(0, 2 * count + 1, 2, dtype=np.int32)
        isr = np.array([self.dice.sample(range(BROKERS), 2) for _ in rows], np.int32).reshape(-1)
        epochs = self.table.leader_epoch__p[rows] + 1
        changes = PartitionChanges(rows, leaders, offsets, isr, epochs, epochs, np.zeros(count, np.int8))
        self.image.apply_changes(changes)

    def broker(self) -> None:
        brokers, broker = self.image.brokers, self.dice.randrange(BROKERS)
        if not brokers.registered__b[brokers.row(broker)] or self.dice.random() < 0.3:
            own = tuple(self.dice.sample(DIRECTORIES[3 * broker : 3 * broker + 3], 2))
            brokers.put(BrokerRegistration(broker, self.dice.randrange(9), directories=own))
            return
        self.dice.choice(
            [
                lambda: brokers.set_gone(broker),
                lambda: brokers.unregister(broker),
                lambda: brokers.set_fenced(broker, True),
                lambda: brokers.set_shutting_down(broker),
                lambda: brokers.set_endpoints(broker, [Endpoint(self.dice.randrange(9), "h", "L", 0)]),
                lambda: brokers.set_live([0, 1, broker]),
                lambda: brokers.add([1000 + len(brokers), 2000 + len(brokers)]),
            ]
        )()

    def setting(self) -> None:
        self.image.set_key("configs", (4, self.dice.choice("ab")), self.dice.choice(({"k": "v"}, {"k": "w"}, None)))
        if names := self.names():
            self.table.topics.set_id(self.dice.choice(names), Uuid(self.dice.randbytes(16)))


def in_order(image: ClusterImage) -> None:
    """Indexes and free rows match the columns."""
    table = image.table
    lives = table.topic_row__p >= 0
    assert table.partition_count == int(lives.sum())
    for broker_row in range(len(table.brokers)):
        held = np.flatnonzero((table.replicas__ps == broker_row).any(axis=1) & lives)
        assert table.index.rows(broker_row).tolist() == held.tolist()
    rows = np.flatnonzero(lives)
    assert table.rows_of(table.topic_row__p[rows], table.partition_index__p[rows]).tolist() == rows.tolist()
    for name in filter(None, table.topics.names):
        mine = rows[table.topic_row__p[rows] == table.topics.row(name)]
        order = np.argsort(table.partition_index__p[mine])
        assert table.rows_of_topic(name).tolist() == mine[order].tolist()
    brokers = image.brokers
    owners = {each: row for row, listed in enumerate(brokers.directories) for each in listed}
    assert {row: int(owner) for row, owner in enumerate(image.directories.owner__d) if owner >= 0} == owners


@pytest.fixture(params=[1, 1 << 13], ids=["rows one by one", "at once"])
def freed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_rows, "FREED_AT_ONCE", request.param)


@pytest.mark.usefixtures("freed")
@given(Dice, st.lists(st.integers(0, 8), min_size=1, max_size=7), st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_methods_of_the_tables_are_taken_back(dice: Random, counts: list[int], data: st.DataObject) -> None:
    life = Life(dice)
    for _ in range(6):
        life.step()
    image = life.image
    image.keep_journal()
    states = []
    for offset, count in enumerate(counts):
        states.append(image.copy())
        image.begin(offset)
        for _ in range(count):
            life.step()
    states.append(image.copy())
    for back_to in sorted({data.draw(st.integers(0, len(counts))) for _ in range(2)}, reverse=True):
        image.revert_to(back_to)
        assert image == states[back_to]
        in_order(image)
    image.begin(back_to)
    for _ in range(4):  # Continue from there: only free rows are free.
        life.step()
    in_order(image)
    image.revert_to(back_to)
    assert image == states[back_to]
    in_order(image)


def test_what_is_committed_stays() -> None:
    image = ClusterImage()
    image.keep_journal()
    for offset in range(3):
        image.begin(offset)
        image.apply(s.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=offset), offset)
    image.commit(2)
    with pytest.raises(TableError, match="below 2 are committed: the image cannot be reverted to 1"):
        image.revert_to(1)
    assert image.next_producer_id == 2
    image.revert_to(2)
    assert (image.next_producer_id, image.end_offset) == (1, 2)


def test_a_journal_keeps_what_is_not_committed_alone() -> None:
    image = ClusterImage()
    journal = image.keep_journal()
    for offset in range(100):
        image.begin(offset)
        image.apply(s.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=offset), offset)
        image.commit(offset)
    assert len(journal) == 2  # The epoch before the batch, and the number before the record.


def test_rows_of_each_batch_are_images_of_their_own() -> None:
    """Whatever else a batch begins with."""
    image, journal = ClusterImage(), Journal()
    image.brokers.register(1, 1)
    rows = image.table.add_topic("t", [[1]])
    for offset in range(2):
        journal.begin(offset)
        for _ in range(2):
            journal.save_rows(image.table, rows)
    assert len(journal) == 2


def test_without_a_journal_nothing_is_taken_back() -> None:
    with pytest.raises(TableError, match="no journal is kept"):
        ClusterImage().revert_to(0)


def test_within_a_transaction() -> None:
    image, topic = ClusterImage(), s.TopicRecord(name="a", topic_id=Uuid(bytes([1] * 16)))
    image.keep_journal()
    steps: list[Callable[[], None]] = [
        lambda: image.apply(s.BeginTransactionRecord(name="x"), 0),
        lambda: image.apply(topic, 1),
        lambda: image.apply(s.EndTransactionRecord(), 2),
    ]
    for offset, step in enumerate(steps):
        image.begin(offset)
        step()
    assert "a" in image.topics and not image.in_transaction
    image.revert_to(2)
    assert "a" not in image.topics and image.in_transaction
    image.begin(2)
    image.apply(s.EndTransactionRecord(), 2)
    assert "a" in image.topics
    image.revert_to(1)
    image.begin(1)
    image.apply(s.EndTransactionRecord(), 1)
    assert "a" not in image.topics and not image.in_transaction


def test_earlier_batches_may_be_committed_while_later_ones_are_taken_back() -> None:
    journal = Journal()
    for offset in (1, 5, 9):
        journal.begin(offset)
        for number in range(3):
            journal.add(dict, offset, number)
    going = journal.taken_back(5)
    taken = [next(going)[1:]]
    journal.commit(5)
    taken += [undo[1:] for undo in going]
    assert taken == [(offset, number) for offset in (9, 5) for number in (2, 1, 0)]
    assert len(journal) == 0 and journal.last_batch is None
