"""Several kinds side by side: one odd topic, znode, replica or directory costs its neighbours nothing."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from broker.memory_log import MemoryLogs
from controller.zk.tree import Cluster as ZkCluster
from harness.side_by_side import at_every_place
from kcore.broker.metadata_delta.publisher import MetadataPublisher
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica import Role
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.controller.zk.znode_reading import read_topics
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kcore.server.broker.logs import BrokerLogs
from kcore.server.zk_node.credentials import ZkCredentials
from kcore.storage.checkpoints import TopicPartition, read_offsets
from kcore.storage.log.live_log import Settings
from kcore.storage.log.log_directory import LOG_STARTS, LogDirectory
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from server.zookeepers import Client, Zookeeper
from storage import building

SMALL = Settings(segment_bytes=200)
OLD = TopicSettings(retention_ms=1_000)
COMPACTED = TopicSettings(deletes=False)
LATER_MS = building.TIME_MS + 1_000_000


def _fill(log: Any, count: int = 6) -> None:
    for offset in range(count):
        data = building.batch(offset)
        log.append(data, scan_batches(data))
    log.high_watermark = count


# Logs side by side.


@pytest.mark.parametrize("topics", at_every_place(["m", "n"], "compacted"))
def test_a_compacted_topic_keeps_no_other_from_its_retention(topics: list[str], tmp_path: Path) -> None:
    logs = BrokerLogs([tmp_path / "a"], SMALL)
    names = {f"{place}-{topic}": topic for place, topic in enumerate(topics)}  # Looked at in this order.
    for name in names:
        _fill(logs.hold((name, 0), Uuid(b"t" * 16), is_new=True))
    assert logs.delete_old(lambda name: COMPACTED if names[name] == "compacted" else OLD, LATER_MS) == []
    for name, topic in names.items():
        start = logs.directories[0].logs[TopicPartition(name, 0)].start_offset
        assert start == (0 if topic == "compacted" else 6)
    logs.close()


@pytest.mark.parametrize("which", at_every_place([True, True], False))
def test_a_disk_that_fails_at_retention_keeps_no_other_from_its_own(which: list[bool], tmp_path: Path) -> None:
    logs = BrokerLogs([tmp_path / str(place) for place in range(3)], SMALL)
    for place in range(3):
        _fill(logs.hold((f"t{place}", 0), Uuid(b"t" * 16), is_new=True))
    for place, directory in enumerate(logs.directories):
        [log] = directory.logs.values()
        if not which[place]:
            for path in log.folder.glob("*.log"):
                path.unlink()
    failed = logs.delete_old(lambda name: OLD, LATER_MS)
    bad = which.index(False)
    assert failed == [key for key in failed if key[1] == 0] and len(failed) == 1
    assert [each.failed is None for each in logs.directories] == which
    for place, directory in enumerate(logs.directories):
        if place != bad:
            assert [log.start_offset for log in directory.logs.values()] == [6]
    logs.close()


def test_the_last_entry_of_a_checkpoint_goes_with_its_log(tmp_path: Path) -> None:
    """A topic that is made again under the name begins at 0, and not where the deleted one began."""
    directory = LogDirectory(tmp_path / "d", SMALL).open()
    for name in ("t", "u"):
        _fill(directory.create(TopicPartition(name, 0)))
        directory.logs[TopicPartition(name, 0)].raise_start_offset(3)
    directory.checkpoint()
    assert len(read_offsets(tmp_path / "d" / LOG_STARTS)) == 2
    for left, name in ((1, "t"), (0, "u")):
        directory.delete(TopicPartition(name, 0))
        directory.checkpoint()
        assert len(read_offsets(tmp_path / "d" / LOG_STARTS)) == left
    _fill(directory.create(TopicPartition("u", 0)))
    directory.close()
    again = LogDirectory(tmp_path / "d", SMALL).open()
    assert again.logs[TopicPartition("u", 0)].start_offset == 0
    assert again.logs[TopicPartition("u", 0)].high_watermark == 6


# Znodes side by side.


def _assignment(*replicas: int) -> bytes:
    partitions = {0: ReplicaAssignment(replicas)}
    return znodes.encode_topic(TopicAssignment(Uuid(b"i" * 16), partitions))


@pytest.mark.parametrize("odd", [b"", b"{", _assignment(1, 1), _assignment(-5)], ids=["empty", "torn", "twice", "none"])
def test_an_unreadable_topic_costs_no_other_its_partitions(odd: bytes) -> None:
    for entries in at_every_place([("a", _assignment(1, 2)), ("c", _assignment(2, 1))], ("odd", odd)):
        topics, errors = read_topics(dict(entries))
        assert {*topics.names} == {"a", "c"} and len(errors) == 1 and "odd" in str(errors[0])


def _cluster() -> ZkCluster:
    made = ZkCluster()
    for broker in (1, 2, 3):
        made.register(broker)
    made.write_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    made.elect()
    made.run()
    return made


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_broker_whose_new_incarnation_cannot_be_read_is_gone_and_the_others_are_not(broken: int) -> None:
    """Its czxid is a new one: what the node has belongs to the incarnation before."""
    made = _cluster()
    others = {1, 2, 3} - {broken}
    path = znodes.broker_path(broken)
    made.tree.delete(path)
    made.tree.create(path, b"no registration")
    bounced = min(others)
    made.tree.delete(znodes.broker_path(bounced))
    made.register(bounced)
    made.run()
    brokers = made.active.table.brokers
    live = {*brokers.ids[brokers.live].tolist()}
    assert live == others
    assert int(brokers.epochs[brokers.row(bounced)]) == made.tree.nodes[znodes.broker_path(bounced)].czxid
    for index in range(3):
        leader, isr, _ = made.state("t", index)
        assert leader in others and broken not in isr


def test_a_broker_whose_registration_was_overwritten_stays_while_others_come() -> None:
    """Its czxid is the one that is known."""
    made = _cluster()
    made.tree.set_data(znodes.broker_path(2), b"no registration")
    made.register(4)
    made.run()
    brokers = made.active.table.brokers
    assert {*brokers.ids[brokers.live].tolist()} == {1, 2, 3, 4}


@pytest.mark.parametrize("names", at_every_place(["alice", "carol"], "broken"))
def test_a_user_whose_znode_cannot_be_read_keeps_no_other_out(names: list[str]) -> None:
    keys = [b64encode(b"k" * size).decode() for size in (32, 64)]
    short, long = (f"salt=AAAA,stored_key={key},server_key={key},iterations=4096" for key in keys)

    async def story() -> None:
        zookeeper = Zookeeper()
        for name in names:
            mechanisms = {"SCRAM-SHA-256": "none" if name == "alice" else short, "SCRAM-SHA-512": long}
            data = b"{" if name == "broken" else znodes.encode_config(mechanisms)
            zookeeper.tree.create(f"/config/users/{name}", data, parents=True)
        follower = ZkCredentials(Client(zookeeper, on_session=print), None)  # type: ignore[arg-type]
        await follower.read_all()
        known = {name for name in names if follower.scram("SCRAM-SHA-512", name)}
        assert known == {"alice", "carol"}
        assert [name for name in names if follower.scram("SCRAM-SHA-256", name)] == ["carol"]

    asyncio.run(story())


@pytest.mark.parametrize("bodies", at_every_place(["topics/t", "topics/u"], "broken"))
def test_a_notification_that_cannot_be_read_costs_no_other_its_effect(bodies: list[str]) -> None:
    """Both topics may elect uncleanly from now on."""
    made = ZkCluster()
    for broker in (1, 2):
        made.register(broker)
    for name in ("t", "u"):
        made.write_topic(name, [1, 2])
    made.elect()
    made.run()
    made.unregister(2)
    made.run()
    made.unregister(1)
    made.run()
    made.register(2)
    made.run()
    assert [made.state(name)[0] for name in ("t", "u")] == [-1, -1]
    for name in ("t", "u"):
        config = znodes.encode_config({"unclean.leader.election.enable": "true"})
        made.tree.create(f"{znodes.CONFIG}/topics/{name}", config, parents=True)
    made.tree.create(znodes.CONFIG_CHANGES, parents=True)
    for body in bodies:
        data = b"{" if body == "broken" else znodes.encode_config_change(body)
        made.tree.create_sequential(f"{znodes.CONFIG_CHANGES}/config_change_", data)
    made.run()
    assert [made.state(name)[0] for name in ("t", "u")] == [2, 2]


# Replicas of one broker side by side.


class Directories:
    """Those of a broker, some of which have failed."""

    def __init__(self) -> None:
        self.offline: set[tuple[str, int]] = set()
        self.gone: list[tuple[str, int]] = []

    def begin(self, topic_ids: Any) -> None: ...

    def prepare(self, topic_ids: Any) -> None: ...

    def serves(self, key: tuple[str, int], topic_id: Uuid) -> bool:
        return key not in self.offline

    def dropped(self, key: tuple[str, int], topic_id: Uuid) -> None:
        self.gone.append(key)
        self.offline.discard(key)


class Following:
    """Broker 1, which follows the metadata log: topics of one partition on brokers 1 and 2."""

    def __init__(self, *topics: str) -> None:
        self.image = ClusterImage()
        self.image.keep_deltas(0)
        self.replicas = ReplicaManager(BrokerConfig(1), 7, MemoryLogs())
        self.directories = Directories()
        self.publisher = MetadataPublisher(self.replicas, self.image, directories=self.directories)
        for broker_id in (1, 2):
            self.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=10 + broker_id, fenced=False))
        for name in topics:
            self.make(name)
        self.errors = self.publisher.publish(0)

    def apply(self, record: Any) -> None:
        self.image.apply(record, self.image.end_offset)

    def make(self, name: str, generation: int = 1) -> None:
        topic_id = self.id_of(name, generation)
        self.apply(TopicRecord(name=name, topic_id=topic_id))
        record = PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1, 2])
        record.leader, record.leader_epoch, record.partition_epoch = 1, 0, 0
        self.apply(record)

    def id_of(self, name: str, generation: int = 1) -> Uuid:
        return Uuid(name.encode().ljust(15, b".") + bytes([generation]))

    def change(self, name: str, generation: int = 1, **fields: Any) -> None:
        self.apply(PartitionChangeRecord(topic_id=self.id_of(name, generation), partition_id=0, **fields))

    def role(self, name: str) -> Role | None:
        found = self.replicas.partitions.get((name, 0))
        return None if found is None else found.role


@pytest.mark.parametrize("how", ["deleted", "moved away"])
def test_a_replica_that_was_dropped_with_its_failed_disk_may_be_assigned_again(how: str) -> None:
    following = Following("a", "b", "c")
    following.directories.offline.add(("b", 0))
    following.change("b", leader=2)
    assert {*following.publisher.publish(0)} == {("b", 0)}
    assert [following.role(each) for each in "abc"] == [Role.LEADER, Role.OFFLINE, Role.LEADER]
    if how == "deleted":
        following.apply(RemoveTopicRecord(topic_id=following.id_of("b")))
    else:
        following.change("b", replicas=[2, 3], isr=[2])
    following.publisher.publish(0)
    assert following.directories.gone == [("b", 0)] and following.role("b") in (None, Role.NONE)
    if how == "deleted":
        following.make("b", generation=2)
    else:
        following.change("b", replicas=[2, 1], isr=[2])
    assert following.publisher.publish(0) == {}
    assert following.role("b") is (Role.LEADER if how == "deleted" else Role.FOLLOWER)
    assert [following.role(each) for each in "ac"] == [Role.LEADER, Role.LEADER]


@pytest.mark.parametrize("topics", at_every_place(["m", "n"], "offline"))
def test_a_replica_whose_disk_has_failed_keeps_no_other_from_leading(topics: list[str]) -> None:
    following = Following()
    following.directories.offline.add(("offline", 0))
    for name in topics:
        following.make(name)
    assert {*following.publisher.publish(0)} == {("offline", 0)}
    assert {name: following.role(name) for name in topics} == {
        "m": Role.LEADER,
        "n": Role.LEADER,
        "offline": Role.OFFLINE,
    }


def test_a_topic_that_was_made_again_takes_no_other_with_it() -> None:
    """In one delta a topic goes, comes back under another id, and one beside it gets another leader."""
    following = Following("a", "b", "c")
    following.apply(RemoveTopicRecord(topic_id=following.id_of("b")))
    following.make("b", generation=2)
    following.change("c", leader=2)
    following.publisher.publish(0)
    assert following.directories.gone == [("b", 0)]
    assert [following.role(each) for each in "abc"] == [Role.LEADER, Role.LEADER, Role.FOLLOWER]
    assert following.replicas.topic_id_on_disk(("b", 0)) == following.id_of("b", 2)
