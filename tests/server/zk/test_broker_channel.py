"""The controller's requests to brokers: in order, one at a time, retried until an answer."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kcore import schema as s
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.errors import UnsupportedVersionError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.table.broker_table import BrokerTable
from kcore.net.versions import response_of
from kcore.schema.structure import Message
from kcore.server.zk_controller.broker_channel import BACKOFF_S, BrokerChannels
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.wire.columns import Columns
from net.loops import story, until
from server.brokers import LISTENER, FakeBroker, control_request, table_of

ORDERS = [s.UpdateMetadataRequest(controller_epoch=1), s.LeaderAndIsrRequest(controller_epoch=2)]
Answers = list[tuple[int, int, Message | Columns]]


class SentRequests:
    """Channels, and what came back."""

    def __init__(self, alarm_s: float = 100.0) -> None:
        self.answers: Answers = []
        self.metrics = ControllerMetrics()
        self.channels = BrokerChannels("1000", LISTENER, self._answered, self.metrics, alarm_s)

    def _answered(
        self, request: ControlRequest, broker_id: int, broker_epoch: int, response: Message | Columns
    ) -> None:
        kind = response.message if isinstance(response, Columns) else type(response)
        assert kind is response_of(request.message)
        self.answers.append((broker_id, broker_epoch, response))

    async def close(self) -> None:
        self.channels.close()
        await self.channels.wait_closed()


@pytest.mark.covers("article G.2")
@story
async def test_every_broker_gets_all_requests_in_order_with_its_epoch() -> None:
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        brokers = {each: await FakeBroker().open(stack) for each in (1, 2)}
        table = table_of({each: broker.port for each, broker in brokers.items()}, {1: 71, 2: 72})
        for order in ORDERS:
            sent_requests.channels.send(control_request(order, table, [1, 2]), table)
        await until(lambda: len(sent_requests.answers) == 4)
        for broker_id, broker in brokers.items():
            assert [(type(each), each.broker_epoch) for each in broker.seen] == [
                (type(order), 70 + broker_id) for order in ORDERS
            ]
            assert broker.most_in_flight == 1
        assert [
            type(response) for broker_id, epoch, response in sent_requests.answers if (broker_id, epoch) == (1, 71)
        ] == [
            s.UpdateMetadataResponse,
            Columns,
        ]
        assert sent_requests.channels.queued == 0
        assert sent_requests.metrics.requests["LeaderAndIsr 7"].count == 2


@story
async def test_a_broker_whose_port_opens_late_gets_all_requests() -> None:
    """It registers before it listens."""
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        [port] = free_ports(1)
        table = table_of({1: port}, {1: 5})
        for order in ORDERS:
            sent_requests.channels.send(control_request(order, table, [1]), table)
        await until(lambda: sent_requests.metrics.request_retries >= 2)
        broker = await FakeBroker().open(stack, port)
        await until(lambda: len(sent_requests.answers) == 2)
        assert [type(each) for each in broker.seen] == [type(order) for order in ORDERS]


@story
async def test_an_order_without_an_answer_is_given_again() -> None:
    class Flaky(FakeBroker):
        async def on_request(self, request: Any) -> None:
            if len(self.seen) == 1:
                raise RuntimeError("the connection goes, and no answer comes")

    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await Flaky().open(stack)
        table = table_of({1: broker.port}, {1: 5})
        for order in ORDERS:
            sent_requests.channels.send(control_request(order, table, [1]), table)
        await until(lambda: len(sent_requests.answers) == 2)
        assert [type(each) for each in broker.seen] == [type(order) for order in (ORDERS[0], *ORDERS)]


class Stuck(FakeBroker):
    """It takes its first request and says nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def on_request(self, request: Any) -> None:
        await self.goes_on.wait()


@pytest.mark.covers("A2")
@story
async def test_requests_for_an_incarnation_do_not_reach_the_next_one() -> None:
    """KIP-380: a restarted broker gets only requests for its new epoch."""
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await Stuck().open(stack)
        stack.callback(broker.goes_on.set)
        before, after = (table_of({1: broker.port}, {1: epoch}) for epoch in (5, 9))
        for order in ORDERS:
            sent_requests.channels.send(control_request(order, before, [1]), before)
        await until(lambda: broker.seen)
        sent_requests.channels.send(control_request(ORDERS[1], after, [1]), after)
        await until(lambda: len(broker.seen) == 2)
        broker.goes_on.set()
        await until(lambda: sent_requests.answers)
        assert [(type(each), each.broker_epoch) for each in broker.seen] == [
            (s.UpdateMetadataRequest, 5),
            (s.LeaderAndIsrRequest, 9),
        ]
        assert [epoch for _, epoch, _ in sent_requests.answers] == [9]


@pytest.mark.covers("article G.2")
@story
async def test_no_requests_go_to_a_broker_that_is_gone() -> None:
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await Stuck().open(stack)
        stack.callback(broker.goes_on.set)
        table = table_of({1: broker.port}, {1: 5})
        request = control_request(ORDERS[0], table, [1])
        for _ in range(3):
            sent_requests.channels.send(request, table)
        await until(lambda: broker.seen)
        table.set_gone(int(table.ids[0]))
        sent_requests.channels.keep_only(table)
        sent_requests.channels.send(request, table)
        assert sent_requests.channels.queued == 0
        assert [*sent_requests.channels] == []


@story
async def test_what_comes_while_a_broker_works_is_merged() -> None:
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await Stuck().open(stack)
        table = table_of({1: broker.port}, {1: 5})
        sent_requests.channels.send(control_request(ORDERS[0], table, [1]), table)
        await until(lambda: broker.seen)
        for order in [*reversed(ORDERS)] * 50:
            sent_requests.channels.send(control_request(order, table, [1]), table)
        assert sent_requests.channels.queued <= 102
        broker.goes_on.set()
        await until(lambda: sent_requests.channels.queued == 0)
        kinds = [type(each) for each in broker.seen]
        assert kinds == [type(ORDERS[each]) for each in (0, 1, 0, 1)], "LeaderAndIsr of before the metadata, then both"
        assert broker.most_in_flight == 1


@pytest.mark.covers("article F routing")
@story
async def test_leadership_that_nobody_acknowledges_raises_one_alarm_until_the_broker_has_caught_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent_requests = SentRequests(alarm_s=3.0)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await Stuck().open(stack)
        table = table_of({1: broker.port}, {1: 5})
        now_s = asyncio.get_running_loop().time()
        with caplog.at_level(logging.INFO):
            for later_s in (0, 2, 4, 5, 9):
                for order in ORDERS:  # More and more waits for it.
                    sent_requests.channels.send(control_request(order, table, [1]), table)
                sent_requests.channels.check_acknowledgements(now_s + later_s)
            assert [record.levelname for record in caplog.records] == ["ERROR"]
            assert "broker 1 (epoch 5)" in caplog.text
            assert "has not acknowledged LeaderAndIsr of 0 partitions for 4.0 s; 6 requests wait" in caplog.text
            assert (sent_requests.metrics.alarms, sent_requests.metrics.unacknowledged_brokers) == (1, 1)
            broker.goes_on.set()
            await until(lambda: sent_requests.channels.queued == 0)
            for later_s in (10, 11):
                sent_requests.channels.check_acknowledgements(now_s + later_s)
            assert (sent_requests.metrics.alarms, sent_requests.metrics.unacknowledged_brokers) == (1, 0)
            assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
            assert "has caught up, after 10.0 s" in caplog.text
            broker.goes_on.clear()
            sent_requests.channels.send(control_request(ORDERS[1], table, [1]), table)
            sent_requests.channels.check_acknowledgements(now_s + 20)
        assert sent_requests.metrics.alarms == 2


@story
async def test_a_broker_registered_at_an_invalid_host_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    """The connection is retried, because the broker may register again; each reason is logged once."""
    caplog.set_level(logging.INFO)
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await FakeBroker().open(stack)
        table = table_of({1: 9092, 2: broker.port}, {1: 5, 2: 6})
        row = table.row(1)
        table.endpoints[row] = (table.endpoints[row][0]._replace(host="a" * 64),)
        sent_requests.channels.send(control_request(ORDERS[0], table, [1, 2]), table)
        await until(lambda: sent_requests.metrics.request_retries >= 3 and len(sent_requests.answers) == 1)
        assert sent_requests.answers[0][0] == 2
        assert len([each for each in caplog.records if "no host name" in each.getMessage()]) == 1


@story
async def test_channels_are_looked_through_only_when_a_broker_came_or_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """`keep_only` follows every event, and there is an event for each of thousands of answers."""
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await Stuck().open(stack)
        stack.callback(broker.goes_on.set)
        table = table_of({1: broker.port, 2: broker.port, 3: broker.port}, {1: 5, 2: 6, 3: 7})
        sent_requests.channels.send(control_request(ORDERS[0], table, [1, 2, 3]), table)
        looked: list[int] = []
        row = BrokerTable.row
        monkeypatch.setattr(BrokerTable, "row", lambda self, each: looked.append(each) or row(self, each))
        for _ in range(3):
            sent_requests.channels.keep_only(table)
        assert looked == [1, 2, 3]
        for change in (lambda: table.set_gone(2), lambda: table.register(3, 8), lambda: table.register(4, 9)):
            change()
            looked.clear()
            sent_requests.channels.keep_only(table)
            assert looked, "the brokers are others"
        assert [each.broker_id for each in sent_requests.channels] == [1]
        assert sent_requests.channels.queued == 1


@story
async def test_the_next_order_follows_an_answer_at_once_and_no_task_stands_by() -> None:
    """Only to connect takes a task; thousands of quiet channels cost no more than their sockets."""
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        brokers = {each: await FakeBroker().open(stack) for each in range(1, 6)}
        table = table_of({each: broker.port for each, broker in brokers.items()}, dict.fromkeys(brokers, 5))
        for order in ORDERS * 2:
            sent_requests.channels.send(control_request(order, table, [*brokers]), table)
            await until(lambda: sent_requests.channels.queued == 0)
        assert len(sent_requests.answers) == 20
        assert not [task for task in asyncio.all_tasks() if "broker" in task.get_name()]
        assert sent_requests.metrics.request_queue_time.count == 20


@story
async def test_closed_while_it_connects_or_waits_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent after that, and nothing is left of it."""
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        broker = await FakeBroker().open(stack)
        [nobody] = free_ports(1)
        table = table_of({1: broker.port, 2: nobody}, {1: 5, 2: 6})
        sent_requests.channels.send(control_request(ORDERS[0], table, [2]), table)
        await until(lambda: sent_requests.metrics.request_retries == 1)
        sent_requests.channels.send(control_request(ORDERS[0], table, [1]), table)
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # One waits until it tries again, the other connects.
        assert [task for task in asyncio.all_tasks() if task.get_name() == "connect to broker 1"]
        sent_requests.channels.close()
        await sent_requests.channels.wait_closed()
        assert not [task for task in asyncio.all_tasks() if "connect to" in task.get_name()]
        monkeypatch.setattr("kcore.server.zk_controller.broker_channel.connect", None)
        await asyncio.sleep(2 * BACKOFF_S)
        assert (
            broker.seen,
            sent_requests.answers,
            sent_requests.metrics.request_retries,
            [*sent_requests.channels],
        ) == ([], [], 1, [])


@story
async def test_an_order_that_cannot_be_encoded_holds_up_no_other_broker_and_no_later_order() -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    sent_requests = SentRequests()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sent_requests.close)
        brokers = {each: await FakeBroker().open(stack) for each in (1, 2)}
        table = table_of({each: broker.port for each, broker in brokers.items()}, {1: 71, 2: 72})
        broken = control_request(ORDERS[0], table, [1])
        broken.version = 99
        for order in (broken, control_request(ORDERS[0], table, [2])):
            sent_requests.channels.send(order, table)
        await until(lambda: sent_requests.answers)
        assert [type(each) for each in faults] == [UnsupportedVersionError]
        sent_requests.channels.send(control_request(ORDERS[1], table, [1]), table)
        await until(lambda: len(sent_requests.answers) == 2)
        assert [type(each) for each in brokers[1].seen] == [s.LeaderAndIsrRequest]
