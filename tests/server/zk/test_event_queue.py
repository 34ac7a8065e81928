"""The order in which events are handled."""

from kcore.controller.zk.events import (
    BrokerChange,
    Event,
    RequestEvent,
    SessionLost,
    TopicChange,
)
from kcore.schema import ControlledShutdownRequest
from kcore.server.zk_controller.event_queue import EventQueue, Reelect, Stop
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from net.loops import story, with_turns_of_others

REQUEST = RequestEvent(1, ControlledShutdownRequest(broker_id=1, broker_epoch=2), 3)


async def all_of(queue: EventQueue, metrics: ControllerMetrics) -> list[Event]:
    return [(await queue.take()).event for _ in range(metrics.event_queue_size)]


@story
async def test_first_in_first_out() -> None:
    metrics = ControllerMetrics()
    queue = EventQueue(metrics)
    for event in (BrokerChange(), REQUEST, TopicChange()):
        queue.put(event)
    queue.put_first(Stop())
    assert await all_of(queue, metrics) == [Stop(), BrokerChange(), REQUEST, TopicChange()]
    assert (metrics.event_queue_size, metrics.event_queue_time.count) == (0, 4)


@story
async def test_a_lost_session_comes_first_and_its_watches_are_ignored() -> None:
    """Waiting requests are answered with NOT_CONTROLLER (KAFKA-10193)."""
    metrics = ControllerMetrics()
    queue = EventQueue(metrics)
    for event in (BrokerChange(), REQUEST, TopicChange()):
        queue.put(event)
    queue.session_lost()
    queue.put(BrokerChange())
    assert await all_of(queue, metrics) == [SessionLost(), Reelect(), REQUEST, BrokerChange()]


@story
async def test_who_stops_stands_for_no_election_any_more() -> None:
    metrics = ControllerMetrics()
    queue = EventQueue(metrics)
    queue.put_first(Stop())
    queue.session_lost()
    assert await all_of(queue, metrics) == [SessionLost(), Stop()]


@story
async def test_events_that_wait_for_nothing_let_others_run() -> None:
    """Channels to brokers send what the first of many parts gave, while the next ones are made."""
    metrics = ControllerMetrics()
    queue = EventQueue(metrics)
    for _ in range(5):
        queue.put(TopicChange())
    _, turns = await with_turns_of_others(all_of(queue, metrics))
    assert turns >= 4
