"""Malformed znodes, written while a controller is active: it ignores and logs each once, without other effects."""

from collections.abc import Callable

import pytest

from controller.zk.admin import ask, epoch_of, small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znodes import PartitionStateNode
from kcore.schema.topics import CreatableTopic
from kcore.types import Uuid

NEVER = [b"", b"not json", b"[]", b'{"partitions":7}', b'{"version":3,"partitions":{"0":["a"]}}']
NO_TOPIC = [
    *NEVER[1:],
    b'{"version":3,"partitions":{"0":[1,1]}}',
    b'{"version":3,"partitions":{"0":[1,-1]}}',
    b'{"version":3,"partitions":{"-1":[1]}}',
    b'{"version":3,"partitions":{"0":[%s]}}' % b",".join(b"%d" % broker for broker in range(33)),
    b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{"0":[7]}}',
    b'{"version":3,"partitions":{"0":[4294967296]}}',
]


def warnings(cluster: Cluster) -> list[str]:
    notices, cluster.notices = cluster.notices, []
    return [str(each) for each in notices if each.level == "warning"]


def goes_on(cluster: Cluster) -> None:
    """Whatever was passed over, brokers still come and go, and other topics are led."""
    cluster.write_topic("other", [1, 2], topic_id=Uuid(b"o" * 16))
    cluster.run()
    assert cluster.state("other") == (1, (1, 2), 0)
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("other")[0] == 2
    assert cluster.active.is_active


@pytest.mark.parametrize("data", NO_TOPIC)
def test_a_topic_that_makes_no_sense_is_passed_over_until_it_is_mended(data: bytes) -> None:
    cluster = small([1, 2])
    cluster.tree.create(znodes.topic_path("bad"), data)
    cluster.run()
    [warning] = warnings(cluster)
    assert warning.startswith("skipped an unreadable znode: /brokers/topics/bad: ")
    goes_on(cluster)
    assert warnings(cluster) == [], "logged once"
    cluster.run(events.SessionLost())
    cluster.elect()
    assert [line.split(": ")[1] for line in warnings(cluster)] == ["/brokers/topics/bad"]
    assert "bad" not in cluster.active.table.topics
    cluster.write_topic("bad", [2, 3], topic_id=Uuid(b"b" * 16))
    cluster.run()
    assert cluster.state("bad") == (2, (2, 3), 0), "it was mended"


@pytest.mark.parametrize("data", NO_TOPIC)
def test_a_topic_that_is_overwritten_stays_as_it_is_known(data: bytes) -> None:
    cluster = small([1, 2])
    cluster.tree.set_data(znodes.topic_path("t"), data)
    cluster.run()
    assert len(warnings(cluster)) == 1
    assert cluster.active.table.state(0).replicas == (1, 2)
    goes_on(cluster)
    cluster.write_topic("t", [1, 2], [2, 3])
    cluster.run()
    assert cluster.state("t", 1) == (2, (2, 3), 0)


@pytest.mark.parametrize(
    "data",
    [
        *NEVER,
        znodes.encode_state(PartitionStateNode(1, 5, (1, 1), 0)),
        znodes.encode_state(PartitionStateNode(-3, 5, (1,), 0)),
        znodes.encode_state(PartitionStateNode(1, -5, (1,), 0)),
        znodes.encode_state(PartitionStateNode(1, 5, (*range(33),), 0)),
        znodes.encode_state(PartitionStateNode(1, 5, (1, -1), 0)),
    ],
)
@pytest.mark.parametrize("at_failover", [False, True])
def test_a_state_that_makes_no_sense_costs_its_partition_alone(data: bytes, at_failover: bool) -> None:
    cluster = small([1, 2], [1, 3])
    cluster.tree.set_data(znodes.state_path("t", 0), data)
    if at_failover:
        cluster.run(events.SessionLost())
        cluster.elect()
    cluster.unregister(1)
    cluster.run()
    assert {line.split(": ")[1] for line in warnings(cluster)} == {znodes.state_path("t", 0)}
    assert cluster.state("t", 1)[0] == 3
    assert cluster.tree.nodes[znodes.state_path("t", 0)].data == data, "nobody knows what was there"
    cluster.register(1)
    cluster.run()
    goes_on(cluster)


@pytest.mark.parametrize("data", [*NEVER, b'{"version":6,"endpoints":[],"jmx_port":1}', b'{"version":0}'])
def test_a_broker_that_makes_no_sense_is_not_there_until_it_is_mended(data: bytes) -> None:
    cluster = small([1, 2])
    cluster.tree.create(znodes.broker_path(7), data)
    cluster.tree.create("/brokers/ids/seven", b"{}")
    cluster.run()
    paths = {line.split(": ")[1] for line in warnings(cluster)}
    assert paths == {"/brokers/ids/7", "/brokers/ids/seven"}
    assert 7 not in cluster.active.table.brokers
    cluster.run(events.SessionLost())
    cluster.elect()
    assert 7 not in cluster.active.table.brokers
    warnings(cluster)
    cluster.unregister(3)
    cluster.run()
    assert warnings(cluster) == [], "logged once"
    good = cluster.tree.nodes[znodes.broker_path(1)].data
    cluster.tree.set_data(znodes.broker_path(7), good)
    cluster.run()
    assert cluster.active.table.brokers.live[cluster.active.table.brokers.row(7)]
    assert epoch_of(cluster, 7) == cluster.tree.nodes[znodes.broker_path(7)].czxid


def test_a_live_broker_whose_registration_is_overwritten_lives_on() -> None:
    cluster = small([1, 2])
    cluster.tree.set_data(znodes.broker_path(1), b"oops")
    cluster.run()
    cluster.register(9)
    cluster.run()
    assert cluster.state("t") == (1, (1, 2), 0)
    assert len(warnings(cluster)) == 1
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("t")[0] == 2


def write(prefix: str, data: bytes) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.tree.create_sequential(prefix, data) and None


@pytest.mark.parametrize("data", NEVER)
@pytest.mark.parametrize(
    "prefix",
    [
        "/config/changes/config_change_",
        "/log_dir_event_notification/log_dir_event_",
        "/isr_change_notification/isr_change_",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
    ],
)
def test_a_note_that_makes_no_sense_is_passed_over(prefix: str, data: bytes) -> None:
    cluster = small([1, 2])
    if prefix.endswith("_"):
        cluster.tree.create_sequential(prefix, data)
    else:
        cluster.tree.create(prefix, data)
    cluster.run()
    goes_on(cluster)


@pytest.mark.parametrize("target", [(1, 1), (-1, 2), (*range(1, 34),)])
def test_a_reassignment_that_nobody_can_make_is_struck_out(target: tuple[int, ...]) -> None:
    cluster = small([1, 2], [2, 1])
    asked = {("t", 0): target, ("t", 1): (3, 1)}
    cluster.tree.create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassign_partitions(asked))
    cluster.run()
    assert cluster.active.table.state(0).replicas == (1, 2)
    assert cluster.active.table.state(1).adding == (3,)
    left = znodes.decode_reassign_partitions(cluster.tree.nodes[znodes.REASSIGN_PARTITIONS].data)
    assert [*left] == [("t", 1)]


def test_settings_that_make_no_sense_are_the_default() -> None:
    cluster = small([1])
    cluster.tree.create(znodes.config_path("topics", "t"), b"none")
    cluster.unregister(1)
    cluster.run()
    assert [line.split(": ")[1] for line in warnings(cluster)] == ["/config/topics/t"]
    assert cluster.state("t") == (-1, (1,), 1)


def test_a_topic_placed_on_the_controller_whose_znode_is_spoilt_meanwhile() -> None:
    cluster = small([1, 2])
    cluster.write_topic("u", [1000, 1], topic_id=Uuid(b"u" * 16))
    reads = iter([None, b"oops"])

    def spoil(effect: object) -> None:
        if "u" in str(getattr(effect, "paths", "")) and next(reads, None):
            cluster.tree.set_data(znodes.topic_path("u"), b"oops")

    cluster.before = spoil
    cluster.run()
    assert cluster.active.is_active
    assert any("/brokers/topics/u" in line for line in warnings(cluster))


def test_what_is_asked_of_a_topic_that_cannot_be_read_is_answered() -> None:
    cluster = small([1, 2])
    cluster.tree.create(znodes.topic_path("bad"), b"oops")
    cluster.run()
    topic = CreatableTopic(name="bad", num_partitions=1, replication_factor=1)
    request = schema.CreateTopicsRequest(topics=[topic], timeout_ms=1)
    answer = ask(cluster, request)
    assert answer.topics[0].error_message == "Topic 'bad' already exists."
