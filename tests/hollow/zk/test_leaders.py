"""Leaders among hollow brokers: ISR expansion, the times of their AlterPartition requests, use of the answers."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.zk.leaders import IsrLeaders
from kcore.net.server import serve
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest
from kcore.schema import alter_partition as schema
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.column_codec import decode_columns

TOPIC, VERSION = Uuid(bytes(range(16))), 7


class Controller:
    """Receives AlterPartition, and accepts it or returns a given answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, dict[int, list[tuple[int, int]]]]] = []
        self.error = Errors.NONE
        self.free = asyncio.Event()
        self.free.set()

    async def handle(self, context: Any, request: schema.AlterPartitionRequest) -> schema.AlterPartitionResponse:
        partitions = [each for topic in request.topics for each in topic.partitions]
        members = {
            each.partition_index: [(one.broker_id, one.broker_epoch) for one in each.new_isr_with_epochs]
            for each in partitions
        }
        self.requests.append((request.broker_id, members))
        await self.free.wait()
        answers = [
            schema.AlterPartitionResponsePartitionData(
                partition_index=each.partition_index, error_code=self.error, partition_epoch=each.partition_epoch + 1
            )
            for each in partitions
        ]
        topic = schema.AlterPartitionResponseTopicData(topic_id=TOPIC, partitions=answers)
        return schema.AlterPartitionResponse(topics=[topic])


def leader_and_isr(
    *partitions: int, isr: tuple[int, ...] = (1, 2), adding: tuple[int, ...] = (3,), epoch: int = 5
) -> Any:
    states = [
        LeaderAndIsrPartitionState(
            partition_index=each,
            leader=1,
            leader_epoch=epoch,
            isr=[*isr],
            partition_epoch=epoch + 10,
            replicas=[1, 2, 3],
            adding_replicas=[*adding],
        )
        for each in partitions
    ]
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC, partition_states=states)
    request = LeaderAndIsrRequest(controller_id=9, controller_epoch=1, topic_states=[topic])
    return decode_columns(LeaderAndIsrRequest, VERSION, encode(request, VERSION))


def run(body: Callable[[IsrLeaders, dict[int, Any], Controller], Awaitable[None]]) -> None:
    async def whole() -> None:
        controller = Controller()
        brokers: dict[int, Any] = {
            each: SimpleNamespace(broker_id=each, epoch=100 + each, on_accepted=None) for each in (1, 2, 3)
        }
        async with await serve("127.0.0.1", 0, controller.handle, {"AlterPartition": (0, 3)}) as server:
            async with IsrLeaders(brokers, "127.0.0.1", server.port) as leaders:
                await body(leaders, brokers, controller)
            assert all(broker.on_accepted is None for broker in brokers.values())

    asyncio.run(whole())


async def until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not so():
            await asyncio.sleep(0.005)


def test_a_new_replica_joins_after_leader_and_isr_with_the_epochs_of_all_members() -> None:
    async def body(leaders: IsrLeaders, brokers: dict[int, Any], controller: Controller) -> None:
        brokers[1].on_accepted(brokers[1], leader_and_isr(0))
        await asyncio.sleep(0.05)
        assert controller.requests == [], "broker 3 got no LeaderAndIsr: it has not caught up"
        brokers[3].on_accepted(brokers[3], leader_and_isr(0))
        await until(lambda: leaders.changed == 1)
        assert controller.requests == [(1, {0: [(1, 101), (2, 102), (3, 103)]})]

    run(body)


def test_what_comes_while_a_request_is_on_its_way_goes_together_in_the_next() -> None:
    async def body(leaders: IsrLeaders, brokers: dict[int, Any], controller: Controller) -> None:
        controller.free.clear()
        brokers[3].on_accepted(brokers[3], leader_and_isr(0, 1, 2))
        brokers[1].on_accepted(brokers[1], leader_and_isr(0))
        await until(lambda: len(controller.requests) == 1)
        brokers[1].on_accepted(brokers[1], leader_and_isr(1))
        brokers[1].on_accepted(brokers[1], leader_and_isr(2))
        controller.free.set()
        await until(lambda: leaders.changed == 3)
        assert [list(members) for _, members in controller.requests] == [[0], [1, 2]]

    run(body)


def test_an_old_replica_joins_without_leader_and_isr_and_a_full_isr_stays() -> None:
    async def body(leaders: IsrLeaders, brokers: dict[int, Any], controller: Controller) -> None:
        brokers[1].on_accepted(brokers[1], leader_and_isr(0, adding=()))
        brokers[1].on_accepted(brokers[1], leader_and_isr(1, isr=(1, 2, 3), adding=()))
        await until(lambda: leaders.changed == 1)
        assert [list(members) for _, members in controller.requests] == [[0]]

    run(body)


def test_a_refusal_of_what_has_changed_is_asked_again_after_the_next_leader_and_isr() -> None:
    async def body(leaders: IsrLeaders, brokers: dict[int, Any], controller: Controller) -> None:
        controller.error = Errors.INVALID_UPDATE_VERSION
        brokers[1].on_accepted(brokers[1], leader_and_isr(0, adding=()))
        await until(lambda: len(controller.requests) == 1)
        await asyncio.sleep(0.05)
        assert len(controller.requests) == 1 and leaders.changed == 0
        controller.error = Errors.NONE
        brokers[1].on_accepted(brokers[1], leader_and_isr(0, adding=(), epoch=6))
        await until(lambda: leaders.changed == 1)
        leaders.check()

    run(body)


def test_any_other_refusal_is_an_error_of_the_storm() -> None:
    async def body(leaders: IsrLeaders, brokers: dict[int, Any], controller: Controller) -> None:
        controller.error = Errors.INVALID_REQUEST
        brokers[1].on_accepted(brokers[1], leader_and_isr(0, adding=()))
        await until(lambda: leaders._failure is not None)
        with pytest.raises(TargetError, match="AlterPartition of broker 1 was refused: INVALID_REQUEST"):
            leaders.check()

    run(body)
