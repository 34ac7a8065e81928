"""Clients that are not Java's, of real brokers under kcore's controllers: librdkafka (Python) and franz-go (Go)."""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kcore.spark.java import cache_directory
from oracle.chaos.kraft_checks import assert_no_complaints
from oracle.kcore_brokers import until
from oracle.kraft_clusters import KraftCluster

GO = Path(__file__).with_name("go_client")
RECORDS = 300
WAIT_S = 60.0


@pytest.fixture(scope="module", params=(1, 3), ids=("one_controller", "three_controllers"))
def cluster(request: pytest.FixtureRequest) -> Iterator[KraftCluster]:
    with KraftCluster(controllers=request.param) as started:
        yield started


@pytest.fixture
def admin(cluster: KraftCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def finish(futures: dict[object, object]) -> list[object]:
    """The result of each future, once it is there."""
    return [each.result(WAIT_S) for each in futures.values()]  # type: ignore[attr-defined]


def test_administration_by_librdkafka(cluster: KraftCluster, admin: AdminClient) -> None:
    """Topics, partitions, settings, users, offsets; what is refused is refused as Kafka does."""
    finish(admin.create_topics([NewTopic(name, 2, 3, config={"retention.ms": "12345"}) for name in ("a", "b")]))
    with pytest.raises(KafkaException, match=r"Topic 'a' already exists\."):
        finish(admin.create_topics([NewTopic("a", 1, 1)]))
    finish(admin.create_partitions([NewPartitions("a", 5)]))
    until(lambda: len(admin.list_topics(timeout=WAIT_S).topics["a"].partitions) == 5, str)
    resource = ConfigResource(ResourceType.TOPIC, "a")
    [found] = finish(admin.describe_configs([resource]))
    assert found["retention.ms"].value == "12345"
    change = ConfigEntry("retention.ms", "54321", incremental_operation=AlterConfigOpType.SET)
    finish(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, "a", incremental_configs=[change])]))
    until(lambda: finish(admin.describe_configs([resource]))[0]["retention.ms"].value == "54321", str)
    description = admin.describe_cluster(request_timeout=WAIT_S).result(WAIT_S)
    assert description.cluster_id == cluster.cluster_id
    assert {node.id for node in description.nodes} == {1, 2, 3}
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    finish(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("erin", info, b"secret")]))
    until(lambda: scram_users(admin) == {"erin"}, lambda: scram_users(admin))
    finish(admin.delete_topics(["b"]))
    until(lambda: "b" not in admin.list_topics(timeout=WAIT_S).topics, str)
    with pytest.raises(KafkaException):
        finish(admin.delete_topics(["nowhere"]))


def scram_users(admin: AdminClient) -> set[str]:
    return {*admin.describe_user_scram_credentials().result(WAIT_S)}


def test_records_and_groups_of_librdkafka(cluster: KraftCluster, admin: AdminClient) -> None:
    """An idempotent producer, and the two kinds of groups."""
    finish(admin.create_topics([NewTopic("c", 3, 3)]))
    values = [f"v{number}" for number in range(RECORDS)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    lost: list[object] = []
    for number, value in enumerate(values):
        callback = {"on_delivery": lambda error, _: lost.append(error) if error else None}
        producer.produce("c", value, partition=number % 3, **callback)
    assert (producer.flush(WAIT_S), lost) == (0, [])
    for protocol in ("classic", "consumer"):
        consumer = reader(cluster, f"c-{protocol}", **{"group.protocol": protocol})
        consumer.subscribe(["c"])
        assert Counter(taken(consumer, RECORDS)) == Counter(values)
        consumer.commit(asynchronous=False)
        consumer.close()
        asked = ConsumerGroupTopicPartitions(f"c-{protocol}")
        [found] = finish(admin.list_consumer_group_offsets([asked]))
        assert sum(each.offset for each in found.topic_partitions) == RECORDS
    until(lambda: {"c-classic", "c-consumer"} <= groups(admin), lambda: groups(admin))
    finish(admin.delete_consumer_groups(["c-classic", "c-consumer"]))
    latest = {TopicPartition("c", each): OffsetSpec.latest() for each in range(3)}
    assert sum(each.offset for each in finish(admin.list_offsets(latest))) == RECORDS
    finish(admin.delete_records([TopicPartition("c", 0, 1)]))
    [earliest] = finish(admin.list_offsets({TopicPartition("c", 0): OffsetSpec.earliest()}))
    assert earliest.offset == 1


def groups(admin: AdminClient) -> set[str]:
    return {each.group_id for each in admin.list_consumer_groups().result(WAIT_S).valid}


def reader(cluster: KraftCluster, group: str, **options: object) -> Consumer:
    every = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer({**every, "auto.offset.reset": "earliest", **options})


def taken(consumer: Consumer, count: int) -> list[str]:
    """The values of so many records, and of those that come with the last of them."""
    found: list[str] = []

    def all_there() -> bool:
        messages = consumer.consume(100, timeout=1.0)
        assert all(each.error() is None for each in messages), [each.error() for each in messages]
        found.extend(each.value().decode() for each in messages)
        return len(found) >= count

    until(all_there, lambda: f"{len(found)} of {count}", within_s=2 * WAIT_S)
    return found


def test_transactions_of_librdkafka(cluster: KraftCluster, admin: AdminClient) -> None:
    """From topic to topic; every third one is aborted, and its records are copied again."""
    finish(admin.create_topics([NewTopic("copied", 2, 3)]))
    options = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "copier"}
    producer = Producer(options)
    producer.init_transactions(WAIT_S)
    consumer = reader(cluster, "copiers")
    consumer.subscribe(["c"])
    total = RECORDS - 1  # One is deleted.
    turn = copied = 0
    while copied < total:
        messages = consumer.consume(40, timeout=5.0)
        if not messages:
            continue
        turn += 1
        producer.begin_transaction()
        for each in messages:
            producer.produce("copied", each.value())
        if turn % 3 == 0:
            producer.abort_transaction(WAIT_S)
            for each in consumer.committed(consumer.assignment(), timeout=WAIT_S):
                consumer.seek(TopicPartition(each.topic, each.partition, each.offset if each.offset >= 0 else -2))
            continue
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
        )
        producer.commit_transaction(WAIT_S)
        copied += len(messages)
    consumer.close()
    assert turn > 3
    readers = reader(cluster, "readers", **{"isolation.level": "read_committed"})
    readers.subscribe(["copied"])
    assert set(Counter(taken(readers, total)).values()) == {1}
    readers.close()
    latest = {TopicPartition("copied", each): OffsetSpec.latest() for each in range(2)}
    everything = finish(admin.list_offsets(latest, isolation_level=IsolationLevel.READ_UNCOMMITTED))
    assert sum(each.offset for each in everything) > total


def test_a_go_client(cluster: KraftCluster) -> None:
    """franz-go: topics, settings, records, a group that copies in transactions, and all is taken away again."""
    assert shutil.which("go") is not None, "Go is needed here"
    binary = cache_directory() / "oracle-go" / "client"
    build = ("go", "build", "-mod=readonly", "-trimpath", "-o", str(binary), ".")
    subprocess.run(build, cwd=GO, check=True, timeout=600)
    done = subprocess.run([str(binary), cluster.bootstrap], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["ClusterID"] == cluster.cluster_id
    assert printed["Brokers"] == [1, 2, 3]
    assert printed["Partitions"] == {"go-input": 3, "go-output": 2}
    assert printed["Retention"] == "987654321"
    assert printed["Committed"] == {f"v{number}": 1 for number in range(RECORDS)}
    assert "go-group" in printed["Groups"]
    assert not any(name.startswith("go-") for name in printed["Left"])


def test_nobody_complained(cluster: KraftCluster) -> None:
    assert_no_complaints(cluster)
