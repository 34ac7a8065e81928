"""The active ZooKeeper-mode controller: handles one event at a time, and yields effects that the server performs.

It uses no sockets, no ZooKeeper client and no clock. Source: KafkaController of 3.9.1 and its ControllerEventThread.
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

    `handle` is the only entry: a generator of effects. The state changes only after an effect was performed. Before the
    election and after the resignation the state is empty: requests are answered NOT_CONTROLLER, and watches ignored.
    """

    def __init__(self, config: ControllerConfig, new_uuid: Callable[[], Uuid], acls: ZkAcls | None = None) -> None:
        """`new_uuid` makes topic ids; `acls` is the node's copy of the ACLs, which CreateAcls and DeleteAcls update."""
        super().__init__(config, new_uuid, HOOKS, acls)

    def handle(self, event: events.Event, now_ms: int) -> Steps[None]:
        """The effects of an event. Every request is answered exactly once, also if the controller resigns."""
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
        """Reads the cluster and continues the work of the previous controller (onControllerFailover)."""
        self.clear()
        self.is_active, self.epoch_version = True, event.epoch_version
        yield from failover.on_controller_failover(self, event.epoch)
        for resume in RESUMED:
            yield from resume(self)

    def _on_moved(self, event: "events.SessionLost | events.ControllerChange") -> Steps[None]:
        if isinstance(event, events.SessionLost) or event.broker_id != self.config.broker_id:
            yield from self.resign()

    def resign(self) -> Steps[None]:
        """Clears the state and answers waiting requests NOT_CONTROLLER (KAFKA-10193; onControllerResignation)."""
        self.clear()
        for event in list(self.waiting.values()):
            yield from self.answer(event.request_id, event.refused(Errors.NOT_CONTROLLER))
