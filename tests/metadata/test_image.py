"""An image follows every type of metadata record, and refuses what does not fit."""

from typing import Any

import pytest

from kcore import schema as s
from kcore.errors import TableError
from kcore.metadata.image.image import _HANDLERS, ClusterImage
from kcore.metadata.table.directory_table import MIGRATING_UUID
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_settings import EntityData
from kcore.types import Uuid

A, B = Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16))
DIR1, DIR2 = Uuid(bytes([8] * 16)), Uuid(bytes([9] * 16))


def image_of(*records: Any) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.apply(record)
    return image


def broker(broker_id: int, epoch: int = 10, **fields: Any) -> Any:
    return s.RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, **fields)


def partition(topic_id: Uuid, index: int, replicas: list[int], **fields: Any) -> Any:
    fields = {"isr": replicas, "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0} | fields
    return s.PartitionRecord(topic_id=topic_id, partition_id=index, replicas=replicas, **fields)


def change(**fields: Any) -> Any:
    return s.PartitionChangeRecord(topic_id=A, partition_id=0, **fields)


TOPIC = s.TopicRecord(name="a", topic_id=A)
OTHER = s.TopicRecord(name="b", topic_id=B)


def test_every_type_of_record_is_known():
    assert set(_HANDLERS) == set(METADATA_RECORDS.values())


def test_a_last_known_leader_of_minus_one_is_left_out():
    """PartitionChangeBuilder stores the leader, -1 if there is none."""
    image = image_of(TOPIC, partition(A, 0, [1], last_known_elr=[-1]))
    image.apply(change(last_known_elr=[2]))
    assert image.partition("a", 0).last_known_elr == (2,)
    image.apply(change(last_known_elr=[-1]))
    assert image.partition("a", 0).last_known_elr == ()
    with pytest.raises(TableError, match="names broker -2 in last_known_elr"):
        image.apply(change(last_known_elr=[-2]))
    with pytest.raises(TableError, match="names broker -1 in isr"):
        image.apply(change(isr=[-1]))


def test_brokers_come_are_fenced_and_go():
    image = image_of(broker(1, rack=None), broker(2, fenced=False, rack="r"), s.UnfenceBrokerRecord(id=1, epoch=10))
    assert [image.brokers[k].fenced for k in (1, 2)] == [False, False]
    image.apply(s.FenceBrokerRecord(id=2, epoch=10))
    image.apply(
        s.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1, log_dirs=[DIR1])
    )
    assert (image.brokers[1].in_controlled_shutdown, image.brokers[1].directories) == (True, (DIR1,))
    table = image.table
    assert table.brokers.live.tolist() == [True, False] and table.brokers.racks == [None, "r"]
    image.apply(s.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1, cordoned_log_dirs=[DIR1]))
    assert image.table.brokers.live.tolist() == [False, False]
    assert image.brokers[1].in_controlled_shutdown and image.brokers[1].cordoned_directories == (DIR1,)
    image.apply(s.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1))
    assert image.brokers[1].fenced is False and image.brokers[1].directories == (DIR1,)
    image.apply(s.UnregisterBrokerRecord(broker_id=2, broker_epoch=10))
    image.apply(broker(1, epoch=20))
    assert list(image.brokers) == [1] and image.brokers[1].epoch == 20 and image.brokers[1].directories == ()


def test_partitions_are_created_changed_and_overwritten():
    image = image_of(TOPIC, partition(A, 0, [1, 2, 3], directories=[DIR1, DIR2, DIR1]), partition(A, 1, [2]))
    assert image.partition("a", 0).directories == (DIR1, DIR2, DIR1)
    assert image.partition("a", 1).directories == (MIGRATING_UUID,)
    image.apply(change(isr=[3, 2], leader=3, eligible_leader_replicas=[1], last_known_elr=[1]))
    found = image.partition("a", 0)
    assert (found.isr, found.leader, found.leader_epoch, found.partition_epoch) == ((3, 2), 3, 1, 1)
    assert (found.elr, found.last_known_elr, found.leader_recovery_state) == ((1,), (1,), 0)
    image.apply(change(replicas=[1, 2, 3, 4], adding_replicas=[4], removing_replicas=[1], leader_recovery_state=1))
    found = image.partition("a", 0)
    assert (found.replicas, found.directories) == ((1, 2, 3, 4), (MIGRATING_UUID,) * 4)
    assert (found.leader_epoch, found.partition_epoch, found.leader_recovery_state) == (1, 2, 1)
    state = image.table.state(0)
    assert (state.adding, state.removing, state.isr) == ((4,), (1,), (3, 2))
    image.apply(change(adding_replicas=[], removing_replicas=[], eligible_leader_replicas=[], leader=-1))
    found = image.partition("a", 0)
    assert (found.adding_replicas, found.removing_replicas, found.elr, found.last_known_elr) == ((), (), (), (1,))
    image.apply(partition(A, 0, [5], directories=[DIR2], leader_epoch=7, partition_epoch=8))
    found = image.partition("a", 0)
    assert (found.replicas, found.isr, found.leader, found.last_known_elr) == ((5,), (5,), 5, ())
    assert (found.directories, found.leader_epoch, found.partition_epoch) == ((DIR2,), 7, 8)


def test_the_table_is_never_made_anew() -> None:
    image = image_of(TOPIC, OTHER)
    table = image.table
    for record in (partition(B, 1, [1]), partition(A, 0, [1, 2]), partition(B, 0, [2, 1, 3], isr=[2])):
        image.apply(record)
    image.apply(s.TopicRecord(name="c", topic_id=DIR1))
    assert table is image.table and image.topics is table.topics and image.brokers is table.brokers
    states = [table.state(row) for row in range(len(table))]
    assert [(state.topic, state.partition) for state in states] == [("b", 1), ("a", 0), ("b", 0)]
    assert states[2].isr == (2,) and table.row_of("b", 1) == 0 and table.topics.ids == [A, B, DIR1]
    image.apply(s.RemoveTopicRecord(topic_id=A))
    assert (table.partition_count, len(table), table.topic_row__p[1]) == (2, 3, -1)
    image.apply(s.TopicRecord(name="a", topic_id=DIR2))
    image.apply(partition(DIR2, 0, [9]))
    assert table.row_of("a", 0) == 1 and table.state(1).replicas == (9,)
    assert image.table is table


def test_an_image_of_nothing_has_a_table_of_nothing():
    assert len(ClusterImage().table) == 0


def test_settings():
    image = image_of(
        s.FeatureLevelRecord(name="metadata.version", feature_level=20),
        s.FeatureLevelRecord(name="x", feature_level=1),
        s.FeatureLevelRecord(name="kraft.version", feature_level=1),
        s.FeatureLevelRecord(name="x", feature_level=0),
        s.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),
        s.ZkMigrationStateRecord(zk_migration_state=3),
        s.NoOpRecord(),
        s.RegisterControllerRecord(controller_id=2),
        s.RegisterControllerRecord(controller_id=3),
        s.UnregisterControllerRecord(controller_id=2),
    )
    assert image.features == {"metadata.version": 20}
    assert (image.next_producer_id, image.zk_migration_state, list(image.controllers)) == (1000, 3, [3])


def test_configs_go_with_their_value_and_with_their_topic():
    def config(kind: int, name: str, value: str | None) -> Any:
        return s.ConfigRecord(resource_type=kind, resource_name=name, name="k", value=value)

    image = image_of(TOPIC, config(2, "a", "1"), config(2, "b", "2"), config(4, "", "3"), config(4, "", None))
    assert image.configs == {(2, "a"): {"k": "1"}, (2, "b"): {"k": "2"}}
    image.apply(s.RemoveTopicRecord(topic_id=A))
    assert image.configs == {(2, "b"): {"k": "2"}}


def test_security_and_quotas():
    def quota(key: str, remove: bool) -> Any:
        entity = [
            EntityData(entity_type="user", entity_name="u"),
            EntityData(entity_type="client-id", entity_name=None),
        ]
        return s.ClientQuotaRecord(entity=entity, key=key, value=2.5, remove=remove)

    image = image_of(
        s.AccessControlEntryRecord(id=A),
        s.AccessControlEntryRecord(id=B),
        s.RemoveAccessControlEntryRecord(id=A),
        s.UserScramCredentialRecord(name="u", mechanism=1),
        s.UserScramCredentialRecord(name="u", mechanism=2),
        s.RemoveUserScramCredentialRecord(name="u", mechanism=1),
        s.DelegationTokenRecord(token_id="x"),
        s.DelegationTokenRecord(token_id="y"),
        s.RemoveDelegationTokenRecord(token_id="x"),
        quota("p", False),
        quota("q", False),
        quota("q", True),
    )
    assert (list(image.acls), list(image.scram), list(image.tokens)) == ([B], [(2, "u")], ["y"])
    assert image.quotas == {(("client-id", None), ("user", "u")): {"p": 2.5}}
    image.apply(quota("p", True))
    assert image.quotas == {}


def test_elr_is_cleared_for_one_topic_or_for_all():
    fields = {"eligible_leader_replicas": [1], "last_known_elr": [2]}
    image = image_of(TOPIC, OTHER, partition(A, 0, [1], **fields), partition(B, 0, [1], **fields))
    image.apply(s.ClearElrRecord(topic_name="a"))
    assert (image.partition("a", 0).elr, image.partition("b", 0).elr) == ((), (1,))
    image.apply(s.ClearElrRecord(topic_name=""))
    assert image.partition("b", 0).last_known_elr == ()


def test_a_transaction_shows_when_it_ends_and_never_if_it_is_aborted():
    image = image_of(s.BeginTransactionRecord(name="x"), TOPIC)
    assert image.in_transaction and not image.topic_ids
    image.apply(s.EndTransactionRecord())
    assert not image.in_transaction and list(image.topic_ids) == ["a"]
    image = image_of(s.BeginTransactionRecord(), TOPIC, s.AbortTransactionRecord(reason="why"))
    assert not image.in_transaction and not image.topic_ids


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (TOPIC, "topic 'a' exists"),
        (partition(B, 0, [1]), f"unknown topic id {B}"),
        (s.RemoveTopicRecord(topic_id=B), "unknown topic id"),
        (s.PartitionChangeRecord(topic_id=A, partition_id=7), "unknown partition 7"),
        (partition(A, 1, [1, 2], directories=[DIR1]), "1 directories for 2 replicas"),
        (s.ClearElrRecord(topic_name="b"), "unknown topic 'b'"),
        (s.FenceBrokerRecord(id=2, epoch=1), "broker 2 is not registered"),
        (s.UnfenceBrokerRecord(id=1, epoch=9), "registered under epoch 10, not 9"),
        (s.UnregisterBrokerRecord(broker_id=1, broker_epoch=9), "registered under epoch 10, not 9"),
        (
            s.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=2),
            "fenced 2, in_controlled_shutdown 0",
        ),
        (s.RemoveAccessControlEntryRecord(id=A), "unknown ACL"),
        (s.UnregisterControllerRecord(controller_id=3), "controller 3 is not registered"),
        (s.EndTransactionRecord(), "ends that never began"),
        (s.AbortTransactionRecord(), "ends that never began"),
        ("a string", "str is no metadata record"),
    ],
)
def test_what_does_not_fit_is_refused(record: Any, said: str):
    image = image_of(TOPIC, partition(A, 0, [1]), broker(1))
    with pytest.raises(TableError, match=said):
        image.apply(record)
    assert len(image.table) == 1


def test_a_transaction_within_another_is_refused():
    with pytest.raises(TableError, match="within another"):
        image_of(s.BeginTransactionRecord(), s.BeginTransactionRecord())


def test_unknown_partitions():
    image = image_of(TOPIC)
    for topic in ("a", "b"):
        with pytest.raises(TableError, match=f"unknown partition {topic}-0"):
            image.partition(topic, 0)
