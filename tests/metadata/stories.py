"""Random histories of a cluster, as records of every type that fit; and images beside the slow twin."""

from random import Random
from typing import Any

from kcore import schema as s
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_brokers import BrokerEndpoint, BrokerFeature, ControllerEndpoint, ControllerFeature
from kcore.schema.metadata_records_settings import EntityData
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, Records, decode_records
from reference.image import SlowImage

TIME_MS = 1_795_248_000_000
BROKERS = 7
DIRECTORIES = [Uuid(bytes([k] * 16)) for k in range(1, 3 * BROKERS)]  # Broker b has the three from 3 * b on.
RESERVED = [Uuid(bytes(15) + bytes([k])) for k in range(3)]  # MIGRATING, UNASSIGNED, LOST


class Story:
    """Generates fitting records and applies them to the slow image."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.image = dice, SlowImage()
        self.version = dice.choice((0, 1, 2, 2))  # Versions of partition records, in the order of metadata.version.
        self.made = 0

    def values(self, count: int) -> list[bytes]:
        """About that many records, encoded; no transaction is open at their end."""
        values: list[bytes] = []
        while len(values) < count:
            values += self.stretch()
        if self.image.waiting is not None:
            values.append(self.tell(self.dice.choice((s.EndTransactionRecord(), s.AbortTransactionRecord()))))
        return values

    def stretch(self) -> list[bytes]:
        """Consecutive records of one kind, as in logs, or one of any kind."""
        makers = self.dice.choice([[self.topic, self.partition, self.partition, self.partition], [self.change], RARE])
        values = []
        for _ in range(self.dice.randrange(1, 9)):
            maker = self.dice.choice(makers)
            record = maker() if maker in (self.topic, self.partition, self.change) else maker(self)
            if record is not None:
                values.append(self.tell(record))
        return values

    def tell(self, record: Any) -> bytes:
        """Apply the record to the slow image and encode it."""
        self.image.apply(record)
        is_partition = isinstance(record, (s.PartitionRecord, s.PartitionChangeRecord))
        return encode_metadata_record(record, self.version if is_partition else record.versions.highest)

    @property
    def known(self) -> SlowImage:
        """Records on which later records may depend: inside a transaction none is visible yet."""
        return self.image

    def some(self, known: Any) -> Any:
        found = list(known)
        return self.dice.choice(found) if found else None

    def brokers(self, most: int, least: int = 0) -> list[int]:
        return self.dice.sample(range(BROKERS), self.dice.randint(least, most))

    def directories(self, count: int) -> list[Uuid]:
        return self.dice.choices(DIRECTORIES + RESERVED, k=count)

    def topic(self) -> Any:
        self.made += 1
        name = f"tö{self.made}"[self.made % 2 :] if self.dice.random() < 0.8 else f"again{self.dice.randrange(3)}"
        if name in self.known.topics.values() or self.image.waiting is not None:
            return None
        return s.TopicRecord(name=name, topic_id=Uuid(self.dice.randbytes(14) + self.made.to_bytes(2)))

    def partition(self) -> Any:
        topic_id = self.some(list(self.known.topics)[-3:])
        if topic_id is None:
            return None
        mine = [index for owner, index in self.known.partitions if owner == topic_id]
        index = self.dice.choice((len(mine), len(mine), len(mine), self.dice.randrange(6), 2**31 - 2))
        replicas = self.brokers(5, 1)
        record = s.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=self.brokers(5),
            adding_replicas=self.dice.choice(([], [], self.brokers(2))),
            removing_replicas=self.dice.choice(([], [], self.brokers(2))),
            leader=self.dice.choice((-1, *replicas)),
            leader_recovery_state=self.dice.choice((0, 0, 1)),
            leader_epoch=self.dice.randrange(-1, 5),
            partition_epoch=self.dice.randrange(-1, 9),
        )
        if self.version:
            record.directories = self.directories(len(replicas)) if self.dice.random() < 0.8 else []
        if self.version == 2:
            record.eligible_leader_replicas = self.dice.choice((None, [], self.brokers(3)))
            record.last_known_elr = self.dice.choice((None, [], [-1], self.brokers(1)))
        return record

    def change(self) -> Any:
        key = self.some(self.known.partitions)
        if key is None:
            return None
        record = s.PartitionChangeRecord(topic_id=key[0], partition_id=key[1])
        maybe = self.dice.random
        if maybe() < 0.6:
            record.isr = self.brokers(5)
        if maybe() < 0.5:
            record.leader = self.dice.randrange(-1, BROKERS)
        if maybe() < 0.2:
            record.leader_recovery_state = self.dice.choice((0, 1))
        count = len(self.known.partitions[key].replicas)
        if maybe() < 0.2 and self.image.waiting is None:
            record.replicas = self.brokers(6, 1)
            count = len(record.replicas)
        if maybe() < 0.2:
            record.adding_replicas, record.removing_replicas = self.brokers(2), self.brokers(2)
        if self.version and maybe() < 0.3 and self.image.waiting is None:
            record.directories = self.dice.choice((self.directories(count), []))
        if self.version == 2 and maybe() < 0.3:
            record.eligible_leader_replicas = self.dice.choice((None, [], self.brokers(4)))
            record.last_known_elr = self.dice.choice((None, [], [-1], self.brokers(2)))
        return record


def own_directories(story: Story, broker_id: int) -> list[Uuid]:
    """Kafka's controller takes no directory that another broker lists."""
    own = DIRECTORIES[3 * broker_id : 3 * broker_id + 3]
    return story.dice.sample(own, story.dice.randint(0, len(own)))


def register(story: Story) -> Any:
    broker_id = story.dice.randrange(BROKERS + 2)
    directories = own_directories(story, broker_id)
    return s.RegisterBrokerRecord(
        broker_id=broker_id,
        is_migrating_zk_broker=story.dice.random() < 0.2,
        incarnation_id=Uuid(story.dice.randbytes(16)),
        broker_epoch=story.dice.randrange(1, 2**40),
        end_points=[BrokerEndpoint(name=name, host="höst", port=9092, security_protocol=0) for name in ("A", "B")][
            : story.dice.randrange(3)
        ],
        features=[BrokerFeature(name="metadata.version", min_supported_version=1, max_supported_version=21)],
        rack=story.dice.choice((None, "r", "")),
        fenced=story.dice.random() < 0.5,
        in_controlled_shutdown=story.dice.random() < 0.2,
        log_dirs=directories,
        cordoned_log_dirs=story.dice.choice((None, [], directories[:1])),
    )


def of_broker(story: Story) -> Any:
    broker_id = story.some(story.known.brokers)
    if broker_id is None or story.image.waiting is not None:
        return None
    epoch = story.known.brokers[broker_id].broker_epoch
    change = s.BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        fenced=story.dice.choice((-1, 0, 1)),
        in_controlled_shutdown=story.dice.choice((0, 1)),
        log_dirs=own_directories(story, broker_id),
        cordoned_log_dirs=story.dice.choice((None, [], DIRECTORIES[:1])),
    )
    gone = s.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)
    fenced = s.FenceBrokerRecord(id=broker_id, epoch=epoch), s.UnfenceBrokerRecord(id=broker_id, epoch=epoch)
    return story.dice.choice((change, change, gone, *fenced))


def remove_topic(story: Story) -> Any:
    topic_id = story.some(story.known.topics)
    if topic_id is None or story.image.waiting is not None:
        return None
    return s.RemoveTopicRecord(topic_id=topic_id)


def clear_elr(story: Story) -> Any:
    return s.ClearElrRecord(topic_name=story.dice.choice(("", story.some(story.known.topics.values()) or "")))


def controller(story: Story) -> Any:
    return s.RegisterControllerRecord(
        controller_id=3000 + story.dice.randrange(2),
        incarnation_id=Uuid(story.dice.randbytes(16)),
        end_points=[ControllerEndpoint(name="C", host="c", port=9093, security_protocol=1)],
        features=[ControllerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)],
    )


def no_controller(story: Story) -> Any:
    controller_id = story.some(story.known.controllers)
    if controller_id is None or story.image.waiting is not None:
        return None
    return s.UnregisterControllerRecord(controller_id=controller_id)


def config(story: Story) -> Any:
    names = ["", "1", *story.known.topics.values()]
    value = story.dice.choice((None, "1", ""))
    kind, name = story.dice.choice((2, 4)), story.dice.choice(names)
    return s.ConfigRecord(resource_type=kind, resource_name=name, name=story.dice.choice("kl"), value=value)


def quota(story: Story) -> Any:
    parts = [("user", "u"), ("user", None), ("client-id", "c"), ("ip", None)]
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in story.dice.sample(parts, 2)]
    key, remove = story.dice.choice("pq"), story.dice.random() < 0.4
    return s.ClientQuotaRecord(entity=entity, key=key, value=story.dice.random(), remove=remove)


def feature(story: Story) -> Any:
    name = story.dice.choice(("eligible.leader.replicas.version", "group.version", "kraft.version"))
    return s.FeatureLevelRecord(name=name, feature_level=story.dice.randrange(3))


def producer_ids(story: Story) -> Any:
    return s.ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=story.dice.randrange(10_000))


def acl(story: Story) -> Any:
    gone = story.some(story.known.acls)
    if gone is not None and story.dice.random() < 0.4 and story.image.waiting is None:
        return s.RemoveAccessControlEntryRecord(id=gone)
    return s.AccessControlEntryRecord(
        id=Uuid(story.dice.randbytes(16)),
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:u",
        host="*",
        operation=3,
        permission_type=3,
    )


def scram(story: Story) -> Any:
    name, mechanism = story.dice.choice("uv"), story.dice.choice((1, 2))
    if story.dice.random() < 0.4:
        return s.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
    secret = story.dice.randbytes(4)
    return s.UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=secret, stored_key=secret, server_key=secret, iterations=4096
    )


def token(story: Story) -> Any:
    token_id = story.dice.choice("xy")
    if story.dice.random() < 0.4:
        return s.RemoveDelegationTokenRecord(token_id=token_id)
    owner, time_ms = "User:o", story.dice.randrange(99)
    return s.DelegationTokenRecord(
        owner=owner, requester=owner, renewers=["User:r"], token_id=token_id, max_timestamp=time_ms
    )


def migration(story: Story) -> Any:
    return s.ZkMigrationStateRecord(zk_migration_state=story.dice.randrange(4))


def no_op(story: Story) -> Any:
    return s.NoOpRecord()


def transaction(story: Story) -> Any:
    if story.image.waiting is None:
        return s.BeginTransactionRecord(name="x")
    return story.dice.choice((s.EndTransactionRecord(), s.AbortTransactionRecord(reason="y")))


def new_version(story: Story) -> Any:
    story.version = min(2, story.version + 1)
    return s.FeatureLevelRecord(name="metadata.version", feature_level=(7, 17, 27)[story.version])


RARE = [
    *(register, register, of_broker, of_broker, remove_topic, clear_elr, controller, no_controller),
    *(config, config, quota, feature, producer_ids, acl, scram, token, migration, no_op, transaction, new_version),
]


def log_of(values: list[bytes], first: int = 0, codec: str = "none", batch: int = 1 << 30) -> Records:
    """The values as a log from that offset on, with that many in a batch."""
    batches = [
        encode_records(
            [Record(first + at + k, TIME_MS, None, value) for k, value in enumerate(values[at : at + batch])],
            codec=codec,
        )
        for at in range(0, len(values), batch)
    ]
    return decode_records(b"".join(batches))


def assert_same(image: ClusterImage, slow: SlowImage) -> None:
    """The image equals its slow twin, and its table is consistent."""
    assert image.features == slow.features
    assert image.controllers == slow.controllers
    assert image.topic_ids == {name: topic_id for topic_id, name in slow.topics.items()}
    assert image.configs == slow.configs
    assert {frozenset(entity): values for entity, values in image.quotas.items()} == slow.quotas
    assert (image.acls, image.scram, image.tokens) == (slow.acls, slow.scram, slow.tokens)
    assert (image.next_producer_id, image.zk_migration_state) == (slow.producer_ids, slow.migration)
    assert image.in_transaction == (slow.waiting is not None)
    assert_same_brokers(image, slow)
    assert_same_partitions(image, slow)


def assert_same_brokers(image: ClusterImage, slow: SlowImage) -> None:
    assert image.brokers.keys() == slow.brokers.keys()
    for broker_id, record in slow.brokers.items():
        found, row = image.brokers[broker_id], image.brokers.row(broker_id)
        assert (found.epoch, found.incarnation_id, found.rack) == (
            record.broker_epoch,
            record.incarnation_id,
            record.rack,
        )
        assert (found.fenced, found.in_controlled_shutdown) == (record.fenced, record.in_controlled_shutdown)
        assert found.is_migrating_zk_broker == record.is_migrating_zk_broker
        assert {*found.directories} == {*record.log_dirs} and len(found.directories) == len(record.log_dirs)
        cordoned = found.cordoned_directories
        assert (None if cordoned is None else list(cordoned)) == record.cordoned_log_dirs
        assert [(e.listener, e.host, e.port, e.security_protocol) for e in found.listeners] == [
            (e.name, e.host, e.port, e.security_protocol) for e in record.end_points
        ]
        assert found.supported_features == {
            e.name: (e.min_supported_version, e.max_supported_version) for e in record.features
        }
        assert bool(image.brokers.live[row]) == (not record.fenced)
        assert bool(image.brokers.lists_directories__b[row]) == bool(record.log_dirs)
    table = image.directories
    for row, uuid in enumerate(table.uuids):
        listing = {image.brokers.row(each) for each, record in slow.brokers.items() if uuid in record.log_dirs}
        owner = int(table.owner__d[row])
        assert {owner} - {-1} == listing


def assert_same_partitions(image: ClusterImage, slow: SlowImage) -> None:
    table = image.table
    assert table.partition_count == len(slow.partitions)
    for (topic_id, index), partition in slow.partitions.items():
        name = slow.topics[topic_id]
        found = image.partition(name, index)
        lists = found.replicas, found.isr, found.adding_replicas, found.removing_replicas
        assert [list(each) for each in lists] == [
            partition.replicas,
            partition.isr,
            partition.adding,
            partition.removing,
        ]
        assert [list(each) for each in (found.elr, found.last_known_elr)] == [partition.elr, partition.last_known_elr]
        assert list(found.directories) == partition.directories
        assert (found.leader, found.leader_epoch, found.partition_epoch, found.leader_recovery_state) == (
            *(partition.leader, partition.leader_epoch, partition.partition_epoch, partition.recovery),
        )
    for topic_id, name in slow.topics.items():
        mine = sorted(index for owner, index in slow.partitions if owner == topic_id)
        rows = table.rows_of_topic(name)
        assert table.partition_index__p[rows].tolist() == mine
    for row, broker_id in enumerate(image.brokers.ids.tolist()):
        held = {key for key, partition in slow.partitions.items() if broker_id in partition.replicas}
        rows = table.index.rows(row).tolist()
        assert rows == sorted(rows)
        keys = {(table.topics.ids[table.topic_row__p[each]], int(table.partition_index__p[each])) for each in rows}
        assert keys == held
