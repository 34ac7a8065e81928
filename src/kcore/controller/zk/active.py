"""The active ZooKeeper-mode controller: one event at a time, from start to end, as effects for the edge.

Source: KafkaController of 3.9.1 and its ControllerEventThread. It knows no socket, no ZooKeeper and no clock.
"""

from collections.abc import Callable

from kcore.controller.zk import events, failover
from kcore.controller.zk.acls import ZkAcls
from kcore.controller.zk.admin.leaders_awaited import answer_those_led
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.handlers import EVENT_HANDLERS, HOOKS, REQUEST_HANDLERS, RESUMED
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import ControllerMovedError
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.types import Uuid


class ActiveController(ControllerContext):
    """The active controller: its state, and the dispatch of events to handlers.

    `handle` is the one entry: a generator of effects that changes state only by effects that were performed. Before its
    election and after its resignation the state is empty: requests are answered NOT_CONTROLLER, and events of watches
    are ignored.
    """

    def __init__(self, config: ControllerConfig, new_uuid: Callable[[], Uuid], acls: ZkAcls | None = None) -> None:
        """`new_uuid` gives ids for topics that have none; `acls` are kept as they are in ZooKeeper."""
        super().__init__(config, new_uuid, HOOKS, acls)

    def handle(self, event: events.Event, now_ms: int) -> Steps[None]:
        """What an event asks of the edge. Every request among the events is answered once, whatever happens."""
        self.now_ms = now_ms
        if isinstance(event, events.RequestEvent):
            self.waiting[event.request_id] = event
        try:
            yield from self._handle(event)
        except ControllerMovedError:
            yield from self.resign()

    def _handle(self, event: events.Event) -> Steps[None]:
        if isinstance(event, events.Elected):
            yield from self.on_elected(event)
        elif isinstance(event, events.SessionLost | events.ControllerChange):
            yield from self._on_moved(event)
        elif isinstance(event, events.RequestEvent):
            yield from self._respond(event)
        elif self.is_active:
            yield from EVENT_HANDLERS[type(event)](self, event)
        yield from answer_those_led(self)

    def _respond(self, event: events.RequestEvent[Message]) -> Steps[None]:
        response: Message | None = event.refused(Errors.NOT_CONTROLLER)
        if self.is_active:
            response = yield from REQUEST_HANDLERS[type(event.request)](self, event)
        if response is not None:
            yield from self.answer(event.request_id, response)

    def on_elected(self, event: events.Elected) -> Steps[None]:
        """KafkaController.onControllerFailover: reads or restarts everything that the last controller had."""
        self.clear()
        self.is_active, self.epoch_version = True, event.epoch_version
        yield from failover.on_controller_failover(self, event.epoch)
        for resume in RESUMED:
            yield from resume(self)

    def _on_moved(self, event: "events.SessionLost | events.ControllerChange") -> Steps[None]:
        if isinstance(event, events.SessionLost) or event.broker_id != self.config.broker_id:
            yield from self.resign()

    def resign(self) -> Steps[None]:
        """KafkaController.onControllerResignation; waiting requests are answered NOT_CONTROLLER (KAFKA-10193)."""
        self.clear()
        for event in list(self.waiting.values()):
            yield from self.answer(event.request_id, event.refused(Errors.NOT_CONTROLLER))
