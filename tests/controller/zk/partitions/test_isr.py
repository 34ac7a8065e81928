"""AlterPartition, with every refusal of it, and the notes of leaders that wrote ISRs themselves."""

import pytest

from controller.zk import admin
from controller.zk.admin import alter_partition, epoch_of, small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk.effects import Send, SendResponse
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes, WriteStates
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import AlterPartitionRequestPartitionData, AlterPartitionRequestTopicData, BrokerState
from kcore.types import Uuid
from partition_states import set_state


def one() -> Cluster:
    """t-0 on brokers 1, 2, 3, led by 1, everybody in sync."""
    return small([1, 2, 3])


@pytest.mark.covers("story 3")
@pytest.mark.recorded
def test_step_3_of_the_story_broker_3_comes_back_into_the_isrs() -> None:
    cluster = admin.recorded(2)
    [node] = [node for path, node in admin.dumped(3).items() if path == "/brokers/ids/3"]
    admin.put(cluster, "/brokers/ids/3", node)
    cluster.run()
    asked = admin.recorded_alter_partitions(3)
    assert asked
    for event, answer in asked:
        cluster.requests()
        cluster.run(event)
        response = cluster.answers[event.request_id]
        assert admin.as_json(response, event.version) == answer
        assert [each[:2] for each in cluster.story()] == [("UpdateMetadata", [1, 2, 3])]
    assert admin.subjects(cluster) == admin.recorded_subjects(3)


@pytest.mark.covers("article maybe_change_ISR 3")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_state_is_written_then_answered_then_sent(version: int) -> None:
    cluster = one()
    cluster.effects.clear()
    answer = alter_partition(cluster, 1, [1, 3], version=version)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch, answer.isr, answer.partition_epoch) == (
        Errors.NONE,
        1,
        0,
        [1, 3],
        1,
    )
    assert cluster.state("t") == (1, (1, 3), 0)
    assert [type(each) for each in cluster.effects] == [WriteStates, SendResponse, Send]
    assert cluster.story() == [("UpdateMetadata", [1, 2, 3, 4], ["t-0"])]


def test_another_incarnation_of_the_sender_is_refused() -> None:
    cluster = one()
    for epoch in (epoch_of(cluster, 1) - 1, epoch_of(cluster, 1) + 1, -1):
        assert alter_partition(cluster, 1, [1, 2], broker_epoch=epoch) is Errors.STALE_BROKER_EPOCH
    assert alter_partition(cluster, 99, [1, 2], broker_epoch=5) is Errors.STALE_BROKER_EPOCH
    epoch = epoch_of(cluster, 1)
    cluster.unregister(1)
    cluster.run()
    assert alter_partition(cluster, 1, [1, 2], broker_epoch=epoch) is Errors.STALE_BROKER_EPOCH


def test_what_there_is_not() -> None:
    cluster = one()
    stranger = Uuid(b"?" * 16)
    assert alter_partition(cluster, 1, [1], topic="u", topic_id=stranger).error_code == Errors.UNKNOWN_TOPIC_ID
    answer = alter_partition(cluster, 1, [1], topic="u", version=1)
    assert answer.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    for version in (1, 3):
        request = _request(cluster, [9, 0])
        response = admin.ask(cluster, request, version)
        codes = {each.partition_index: each.error_code for each in response.topics[0].partitions}
        assert codes == {9: Errors.UNKNOWN_TOPIC_OR_PARTITION, 0: Errors.NONE}


def _request(cluster: Cluster, partitions: list[int]) -> schema.AlterPartitionRequest:
    """Broker 1 asks for the ISR [1, 2] of each, at the first epochs."""
    table = cluster.active.table
    topic = AlterPartitionRequestTopicData(topic_name="t", topic_id=table.topics.ids[table.topics.row("t")])
    topic.partitions = [
        AlterPartitionRequestPartitionData(
            partition_index=index,
            new_isr=[1, 2],
            new_isr_with_epochs=[BrokerState(broker_id=1), BrokerState(broker_id=2)],
        )
        for index in partitions
    ]
    return schema.AlterPartitionRequest(broker_id=1, broker_epoch=epoch_of(cluster, 1), topics=[topic])


@pytest.mark.parametrize("epochs", [{"leader_epoch": 6}, {"partition_epoch": 21}], ids=["leader", "partition"])
def test_a_leader_that_knows_more_must_look_for_another_controller(epochs: dict[str, int]) -> None:
    assert alter_partition(one(), 1, [1, 2], **epochs).error_code == Errors.NOT_CONTROLLER


@pytest.mark.covers("article F two leaders")
def test_a_deposed_leader_is_fenced() -> None:
    cluster = small([1, 2, 3])
    cluster.unregister(1)
    cluster.run()
    cluster.register(1)
    cluster.run()
    assert cluster.state("t") == (2, (2, 3), 1)
    answer = alter_partition(cluster, 1, [1, 2, 3], leader_epoch=0)
    assert answer.error_code == Errors.FENCED_LEADER_EPOCH
    assert cluster.state("t") == (2, (2, 3), 1)


def test_an_old_partition_epoch_is_refused() -> None:
    cluster = one()
    alter_partition(cluster, 1, [1, 2])
    answer = alter_partition(cluster, 1, [1, 3], partition_epoch=0)
    assert answer.error_code == Errors.INVALID_UPDATE_VERSION
    assert cluster.state("t") == (1, (1, 2), 0)


@pytest.mark.covers("B5")
def test_a_lost_answer_is_given_again() -> None:
    # KAFKA-14144: the leader asks for the ISR that there is, with the partition epoch from before it.
    cluster = one()
    first = alter_partition(cluster, 1, [1, 2])
    cluster.requests()
    again = alter_partition(cluster, 1, [1, 2], partition_epoch=0)
    assert again == first
    assert again.error_code == Errors.NONE
    assert cluster.state("t") == (1, (1, 2), 0)
    assert cluster.requests() == [], "no broker gets a request twice"


def test_a_write_whose_answer_was_lost_counts_as_written() -> None:
    cluster = one()
    _before_the_first_write(
        cluster, lambda: cluster.write_state("t", 0, 1, [1, 2], 0, cluster.active.decisions.controller_epoch)
    )
    answer = alter_partition(cluster, 1, [1, 2])
    assert (answer.error_code, answer.partition_epoch) == (Errors.NONE, 1)
    assert cluster.state("t") == (1, (1, 2), 0)


def test_a_state_that_somebody_else_wrote_meanwhile_is_not_overwritten() -> None:
    cluster = one()
    _before_the_first_write(cluster, lambda: cluster.write_state("t", 0, 1, [1, 3], 0))
    answer = alter_partition(cluster, 1, [1, 2])
    assert answer.error_code == Errors.INVALID_UPDATE_VERSION
    assert cluster.state("t") == (1, (1, 3), 0)


def _before_the_first_write(cluster: Cluster, act: object) -> None:
    pending = [act]

    def before(effect: object) -> None:
        if isinstance(effect, WriteStates) and pending:
            pending.pop()()  # type: ignore[operator]

    cluster.before = before


def test_only_the_leader_asks_and_it_is_in_the_isr_once() -> None:
    cluster = one()
    for broker, isr in ((2, [1, 2]), (1, []), (1, [1, 2, 2])):
        assert alter_partition(cluster, broker, isr).error_code == Errors.INVALID_REQUEST
    assert cluster.state("t") == (1, (1, 2, 3), 0)


def test_an_isr_longer_than_any_is_refused() -> None:
    assert alter_partition(one(), 1, list(range(1, 40))).error_code == Errors.INVALID_REQUEST


def test_a_leader_that_recovers_is_alone_until_it_has() -> None:
    # KIP-704
    cluster = one()
    assert alter_partition(cluster, 1, [1], recovery=1).error_code == Errors.INVALID_REQUEST, "it has recovered"
    set_state(cluster.active.table, 0, leader_recovery_state=1)
    assert alter_partition(cluster, 1, [1, 2], recovery=1).error_code == Errors.INVALID_REQUEST
    answer = alter_partition(cluster, 1, [1, 2], recovery=0)
    assert (answer.error_code, answer.leader_recovery_state) == (Errors.NONE, 0)
    assert cluster.active.table.leader_recovery_state__p.tolist() == [0]


@pytest.mark.covers("B6")
@pytest.mark.parametrize(("version", "error"), [(1, Errors.OPERATION_NOT_ATTEMPTED), (3, Errors.INELIGIBLE_REPLICA)])
def test_a_replica_that_is_gone_or_shuts_down_does_not_join(version: int, error: Errors) -> None:
    # KAFKA-13916, KIP-841
    cluster = one()
    alter_partition(cluster, 1, [1])
    brokers = cluster.active.table.brokers
    brokers.set_shutting_down(2)
    assert alter_partition(cluster, 1, [1, 2], version=version).error_code == error
    cluster.unregister(3)
    cluster.run()
    assert alter_partition(cluster, 1, [1, 3], version=version).error_code == error
    assert alter_partition(cluster, 1, [1, 77], version=version).error_code == error
    assert cluster.state("t")[:2] == (1, (1,))


@pytest.mark.covers("B7")
def test_a_replica_that_restarted_does_not_join_through_its_old_fetch() -> None:
    # KAFKA-14617, KIP-903
    cluster = one()
    before = epoch_of(cluster, 3)
    cluster.unregister(3)
    cluster.run()
    cluster.register(3)
    cluster.run()
    assert cluster.state("t")[1] == (1, 2)
    assert alter_partition(cluster, 1, [1, 2, (3, before)]).error_code == Errors.INELIGIBLE_REPLICA
    assert alter_partition(cluster, 1, [1, 2, (3, epoch_of(cluster, 3))]).error_code == Errors.NONE


def test_one_request_for_many_partitions_makes_one_write_and_one_request() -> None:
    cluster = small(*[[1, 2, 3]] * 50)
    cluster.effects.clear()
    response = admin.ask(cluster, _request(cluster, list(range(50))), 3)
    assert {each.error_code for each in response.topics[0].partitions} == {Errors.NONE}
    assert [type(each) for each in cluster.effects] == [WriteStates, SendResponse, Send]
    assert [each[:2] for each in cluster.story()] == [("UpdateMetadata", [1, 2, 3, 4])]


@pytest.mark.covers("A13")
def test_a_deposed_controller_writes_nothing() -> None:
    # KAFKA-6082
    cluster = one()
    cluster.depose()
    answer = alter_partition(cluster, 1, [1, 2])
    assert answer is Errors.NOT_CONTROLLER
    assert not cluster.active.is_active
    assert cluster.state("t") == (1, (1, 2, 3), 0)


@pytest.mark.covers("A18")
def test_many_isr_notifications_are_each_read_once() -> None:
    # KAFKA-5879
    cluster = small(*[[1, 2, 3]] * 3)
    for number in range(100):
        partition = number % 2
        cluster.write_state("t", partition, 1, [1, 3], 0)
        data = znodes.encode_isr_change([("t", partition), ("gone", 1)])
        cluster.tree.create_sequential("/isr_change_notification/isr_change_", data)
    cluster.tree.create_sequential("/isr_change_notification/isr_change_", b"no JSON")
    cluster.effects.clear()
    cluster.run()
    read = [path for each in cluster.effects if isinstance(each, ReadNodes) for path in each.paths]
    assert len(read) == 101
    assert cluster.tree.children["/isr_change_notification"] == set()
    assert [cluster.state("t", partition)[1] for partition in range(3)] == [(1, 3), (1, 3), (1, 2, 3)]
    assert cluster.story() == [("UpdateMetadata", [1, 2, 3, 4], ["t-0", "t-1"])]
    cluster.write_state("t", 2, 1, [1, 2], 0)
    cluster.tree.create_sequential("/isr_change_notification/isr_change_", znodes.encode_isr_change([("t", 2)]))
    cluster.run()
    assert cluster.state("t", 2)[1] == (1, 2), "the watch is set again"
