"""The queue of a controller's events (ControllerEventManager of 3.9.1)."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from kcore.controller.zk.events import Event, Kind, RequestEvent, SessionLost, event_of
from kcore.metadata.zookeeper import znodes
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics


@dataclass(frozen=True, slots=True)
class Reelect(Event):
    """`/controller` has changed or may be deleted: the controller stands for election if there is no controller."""


@dataclass(frozen=True, slots=True)
class Stop(Event):
    """The process ends: the controller resigns, and does not stand for election again."""


class Queued(NamedTuple):
    """An event, and when it was queued."""

    event: Event
    queued_s: float


class EventQueue:
    """A first-in, first-out queue, but the loss of a session is handled before the events of that session."""

    def __init__(self, metrics: ControllerMetrics) -> None:
        self._events: deque[Queued] = deque()
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()

    def put(self, event: Event) -> None:
        """Adds an event after all others."""
        self._events.append(Queued(event, self._loop.time()))
        self._changed()

    def put_first(self, event: Event) -> None:
        """Adds an event before all others."""
        self._events.appendleft(Queued(event, self._loop.time()))
        self._changed()

    def watch_fired(self, path: str, kind: Kind) -> None:
        """Adds the event of a watch of ZooKeeper, if something follows from the watch."""
        event = Reelect() if path == znodes.CONTROLLER else event_of(path, kind)
        if event is not None:
            self.put(event)

    def session_lost(self) -> None:
        """Drops all events except requests, because everything is read again. The requests get NOT_CONTROLLER."""
        self._events = deque(queued for queued in self._events if isinstance(queued.event, RequestEvent | Stop))
        if not any(isinstance(queued.event, Stop) for queued in self._events):
            self.put_first(Reelect())
        self.put_first(SessionLost())

    async def take(self) -> Queued:
        """Waits for an event, and takes the first one."""
        await asyncio.sleep(0)  # Other tasks run even if the queue is never empty.
        await self._filled.wait()
        queued = self._events.popleft()
        now_s = self._loop.time()
        self._metrics.event_queue_time.add(now_s - queued.queued_s, now_s)
        self._changed()
        return queued

    def _changed(self) -> None:
        self._metrics.event_queue_size = len(self._events)
        if self._events:
            self._filled.set()
        else:
            self._filled.clear()
