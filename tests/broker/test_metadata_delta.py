"""A broker's replicas have the state of the metadata log after any slices of it."""

from random import Random

import pytest

from broker.memory_log import MemoryLogs
from kcore import schema as s
from kcore.broker.metadata_delta.publisher import MetadataPublisher
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.replica import Role
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.metadata.image.image import ClusterImage
from kcore.types import Uuid
from seeds import seeds

BROKERS = range(1, 5)
OWN = 1
OTHERS_STRAY = ("stray", 0)


class Cluster:
    """A log's records, drawn by dice, and the broker that follows them."""

    def __init__(self, seed: int, remembered: int = 1 << 20) -> None:
        self.dice, self.image, self.made = Random(seed), ClusterImage(), 0
        self.image.keep_deltas(0, remembered)
        self.names: dict[str, Uuid] = {}
        self.logs = MemoryLogs()
        self.logs.hold(OTHERS_STRAY, Uuid(b"s" * 16), is_new=True)
        self.replicas = ReplicaManager(BrokerConfig(OWN), 7, self.logs)
        self.publisher = MetadataPublisher(self.replicas, self.image)
        for broker_id in BROKERS:
            self.apply(s.RegisterBrokerRecord(broker_id=broker_id, broker_epoch=10 + broker_id, fenced=False))

    def apply(self, record: object) -> None:
        self.image.apply(record, self.image.end_offset)  # type: ignore[arg-type]

    def step(self) -> None:
        """One thing that happens to a cluster."""
        self.dice.choices((self.create, self.delete, self.change, self.move, self.fence), (2, 1, 5, 2, 1))[0]()

    def create(self) -> None:
        name = f"t{self.dice.randrange(4)}"
        if name in self.names:
            return
        self.made += 1
        topic_id = self.names[name] = Uuid(self.made.to_bytes(16))
        self.apply(s.TopicRecord(name=name, topic_id=topic_id))
        for index in range(self.dice.randint(1, 3)):
            replicas = self.dice.sample(BROKERS, self.dice.randint(1, 3))
            record = s.PartitionRecord(partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas)
            record.leader, record.leader_epoch, record.partition_epoch = replicas[0], 0, 0
            self.apply(record)

    def delete(self) -> None:
        if self.names:
            self.apply(s.RemoveTopicRecord(topic_id=self.names.pop(self.dice.choice([*self.names]))))

    def some_partition(self) -> int | None:
        rows = [row for row in range(len(self.image.table)) if self.image.table.topic_row__p[row] >= 0]
        return self.dice.choice(rows) if rows else None

    def changed(self, row: int) -> s.PartitionChangeRecord:
        table = self.image.table
        topic_id = table.topics.ids[table.topic_row__p[row]]
        return s.PartitionChangeRecord(topic_id=topic_id, partition_id=int(table.partition_index__p[row]))

    def change(self) -> None:
        """Another leader, or a smaller ISR alone."""
        if (row := self.some_partition()) is None:
            return
        record, replicas = self.changed(row), self.image.table.state(row).replicas
        record.isr = self.dice.sample(replicas, self.dice.randint(1, len(replicas)))
        if self.dice.random() < 0.6:
            record.leader = self.dice.choice([*record.isr, -1])
        self.apply(record)

    def move(self) -> None:
        if (row := self.some_partition()) is None:
            return
        record = self.changed(row)
        record.replicas = record.isr = self.dice.sample(BROKERS, self.dice.randint(1, 3))
        record.leader = record.replicas[0]
        self.apply(record)

    def fence(self) -> None:
        """Or the other way; this broker too."""
        broker = self.image.brokers[self.dice.choice(BROKERS)]
        change = s.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        change.fenced = -1 if broker.fenced else 1
        self.apply(change)

    def check(self) -> None:
        """The replicas are what the state says, and no other log is there."""
        table, held = self.image.table, set()
        for row in (row for row in range(len(table)) if table.topic_row__p[row] >= 0):
            state = table.state(row)
            if OWN not in state.replicas:
                continue
            held.add(key := (state.topic, state.partition))
            partition = self.replicas.partitions[key]
            if not self.replicas.cluster.is_alive(state.leader):
                assert partition.role not in (Role.LEADER, Role.FOLLOWER), (key, partition.role)
                continue
            assert partition.role is (Role.LEADER if state.leader == OWN else Role.FOLLOWER), (key, partition.role)
            response = partition.received
            assert response is not None and response.topic_id == self.names[state.topic]
            assert (response.leader, response.leader_epoch, response.isr) == (
                state.leader,
                state.leader_epoch,
                state.isr,
            )
            assert (response.replicas, response.partition_epoch) == (state.replicas, state.partition_epoch)
        assert set(self.logs.keys()) == held
        assert self.replicas.replicas.keys() <= held


@pytest.mark.parametrize("remembered", [1 << 20, 6], ids=["every delta", "some are forgotten"])
@pytest.mark.parametrize("seed", seeds(15, 40))
def test_a_broker_holds_what_the_state_says(seed: int, remembered: int) -> None:
    cluster = Cluster(seed, remembered)
    for turn in range(30):
        for _ in range(cluster.dice.randint(0, 6)):
            cluster.step()
        assert cluster.publisher.publish(turn) == {}
        cluster.check()


def test_a_topic_made_again_while_the_broker_was_down_begins_with_an_empty_log() -> None:
    cluster = Cluster(0)
    before = cluster.logs.hold(("t", 0), Uuid(b"o" * 16), is_new=True)
    kept = cluster.logs.hold(("u", 0), Uuid(b"u" * 16), is_new=True)
    for name, topic_id in (("t", Uuid(b"n" * 16)), ("u", Uuid(b"u" * 16))):
        cluster.apply(s.TopicRecord(name=name, topic_id=topic_id))
        record = s.PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[OWN], isr=[OWN], leader=OWN)
        record.leader_epoch = record.partition_epoch = 0
        cluster.apply(record)
    cluster.publisher.publish(0)
    assert cluster.logs.by_key["t", 0] is not before and cluster.logs.by_key["u", 0] is kept
    assert cluster.logs.topic_id(("t", 0)) == Uuid(b"n" * 16)


def test_a_topic_made_again_under_its_name_begins_with_an_empty_log() -> None:
    cluster = Cluster(0)
    old, new = Uuid(b"o" * 16), Uuid(b"n" * 16)

    def create(topic_id: Uuid) -> None:
        cluster.apply(s.TopicRecord(name="t", topic_id=topic_id))
        record = s.PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[OWN], isr=[OWN], leader=OWN)
        record.leader_epoch = record.partition_epoch = 0
        cluster.apply(record)

    create(old)
    cluster.publisher.publish(0)
    before = cluster.logs.by_key["t", 0]
    cluster.apply(s.RemoveTopicRecord(topic_id=old))
    create(new)
    cluster.publisher.publish(1)
    assert cluster.logs.by_key["t", 0] is not before
    assert cluster.logs.topic_id(("t", 0)) == new


def test_a_broker_that_is_about_to_stop_joins_no_isr() -> None:
    cluster = Cluster(0)
    cluster.publisher.publish(0)
    view = cluster.replicas.cluster
    assert [view.may_join_isr(each) for each in (*BROKERS, 9)] == [True] * 4 + [False]
    stops, fenced = (
        s.BrokerRegistrationChangeRecord(broker_id=each, broker_epoch=10 + each, **{field: 1})
        for each, field in ((2, "in_controlled_shutdown"), (3, "fenced"))
    )
    cluster.apply(stops)
    cluster.apply(fenced)
    assert [view.may_join_isr(each) for each in BROKERS] == [True, False, False, True]
    assert [view.is_alive(each) for each in BROKERS] == [True, True, False, True]
