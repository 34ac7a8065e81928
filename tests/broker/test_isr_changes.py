"""AlterPartition requests of leaders: one in flight, in every version, and the result of each change."""

import pytest

import kcore
from kcore.broker.replicas.isr_changes import IsrChanges, for_version
from kcore.broker.replicas.partition import IsrChange, IsrResponse
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kcore.types import ZERO_UUID, Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)


def change(topic: str = "t", index: int = 0, topic_id: Uuid = T) -> IsrChange:
    return IsrChange((topic, index), topic_id, 3, 7, (1, 2), controller_epoch=5, joins=2)


def answer(
    index: int = 0, *, error: Errors = Errors.NONE, topic_id: Uuid = T, name: str = ""
) -> AlterPartitionResponse:
    data = AlterPartitionResponsePartitionData(
        partition_index=index, error_code=error, leader_id=1, leader_epoch=3, isr=[1, 2], partition_epoch=8
    )
    topic = AlterPartitionResponseTopicData(topic_id=topic_id, topic_name=name, partitions=[data])
    return AlterPartitionResponse(topics=[topic])


@pytest.mark.parametrize("version", range(4))
def test_every_version(version: int) -> None:
    changes = IsrChanges(1)
    assert changes.submit(change()) and not changes.submit(change()), "each partition once"
    request = changes.next_request(77)
    assert changes.version(version) == version
    data = kcore.encode(for_version(request, version), version)
    response = kcore.decode(AlterPartitionRequest, version, data)
    [asked] = response.topics[0].partitions
    members = asked.new_isr if version < 3 else [each.broker_id for each in asked.new_isr_with_epochs]
    assert (response.broker_epoch, asked.leader_epoch, asked.partition_epoch, members) == (77, 3, 7, [1, 2])
    assert (response.topics[0].topic_name, response.topics[0].topic_id) == (
        ("t", ZERO_UUID) if version < 2 else ("", T)
    )
    [(settled, state)] = changes.answered(answer(topic_id=T if version > 1 else ZERO_UUID, name="t"), 1_000)
    assert settled.key == ("t", 0) and state == IsrResponse(3, 8, (1, 2))
    assert not changes and changes.wait_ms(1_000) is None


def test_a_topic_without_an_id_is_asked_for_by_name() -> None:
    changes = IsrChanges(1)
    changes.submit(change())
    changes.submit(change("u", topic_id=ZERO_UUID))
    changes.next_request(77)
    assert changes.version(3) == 1


def test_one_request_at_a_time_and_the_rest_behind_it() -> None:
    changes = IsrChanges(1)
    changes.submit(change())
    changes.next_request(77)
    changes.submit(change("u", 4, U))
    assert changes.wait_ms(1_000) is None
    assert len(changes.answered(answer(), 1_000)) == 1
    assert changes.wait_ms(1_000) == 0
    assert [topic.topic_name for topic in changes.next_request(77).topics] == ["u"]


@pytest.mark.parametrize("error", [Errors.STALE_BROKER_EPOCH, Errors.NOT_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR])
def test_a_refused_request_goes_again(error: Errors) -> None:
    changes = IsrChanges(1)
    changes.submit(change())
    request = changes.next_request(77)
    assert changes.answered(AlterPartitionResponse(error_code=error, topics=[]), 1_000) == []
    assert changes.wait_ms(1_000) == 50 and changes.wait_ms(1_050) == 0
    assert changes.next_request(77) == request


def test_a_partition_that_the_answer_lacks_goes_again() -> None:
    changes = IsrChanges(1)
    changes.submit(change(index=0))
    changes.submit(change(index=1))
    changes.next_request(77)
    [(settled, error)] = changes.answered(answer(1, error=Errors.INVALID_UPDATE_VERSION), 1_000)
    assert (settled.key, error) == (("t", 1), Errors.INVALID_UPDATE_VERSION)
    assert [each.partition_index for each in changes.next_request(77).topics[0].partitions] == [0]


@pytest.mark.covers("article maybe_change_ISR 3")
def test_states_that_leaders_write_themselves() -> None:
    changes = IsrChanges(1)
    for index in range(3):
        changes.submit(change(index=index))
    writes = changes.next_writes()
    assert {(each.path, each.version) for each in writes} == {(znodes.state_path("t", index), 7) for index in range(3)}
    assert znodes.decode_state(writes[0].path, writes[0].data) == (1, 3, (1, 2), 5, 0)
    settled = {each.key: response for each, response in changes.written({("t", 0): 8, ("t", 1): None}, 1_000)}
    assert settled == {("t", 0): IsrResponse(3, 8, (1, 2)), ("t", 1): Errors.INVALID_UPDATE_VERSION}
    assert [each.change.key for each in changes.next_writes()] == [("t", 2)]
