"""Runs the lifecycle of a KRaft broker: sends its registrations and heartbeats, and keeps its deadlines."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kcore.broker.lifecycle.heartbeat_fields import fit_version
from kcore.broker.lifecycle.machine import (
    Answered,
    BrokerLifecycle,
    BrokerState,
    Effect,
    Event,
    Refused,
    Registered,
    Send,
    ShutdownRequested,
    StateChanged,
    Timer,
)
from kcore.net.limits.bounded_log import BoundedLog
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerRegistrationRequest
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import Choose, ControllerClient
from kcore.server.kraft_broker.timed_requests import TimedRequests

logger = logging.getLogger(__name__)
SHUTDOWN_S: Final = 30.0  # The time-out of a controlled shutdown; Kafka waits for five minutes.


class LifecycleTasks:
    """Runs one BrokerLifecycle. `on_effect` gets the effects that this class does not perform itself."""

    def __init__(
        self,
        machine: BrokerLifecycle,
        channel: ControllerClient,
        now_ms: Callable[[], int],
        on_effect: Callable[[Registered | StateChanged], None],
    ) -> None:
        self.machine = machine
        self.running = asyncio.Event()  # Set once the controller has unfenced the broker.
        self.ended = asyncio.Event()  # Set once the state is SHUTTING_DOWN.
        self._now_ms, self._on_effect = now_ms, on_effect
        self.requests = TimedRequests(
            "registration and heartbeats", channel, now_ms, lambda: self.take(Timer()), self._answered
        )
        self._log = BoundedLog(logger)

    def take(self, event: Event) -> None:
        """Takes an event, and performs its effects."""
        for effect in self.machine.on_event(event, self._now_ms()):
            self._perform(effect)
        self.requests.set_deadline(self.machine.next_deadline_ms)

    async def shut_down(self) -> None:
        """Requests a controlled shutdown, and waits until the controller has moved the leaderships away."""
        self.take(ShutdownRequested())
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_S):
                await self.ended.wait()
                logger.info("controlled shutdown: all leaders are moved")
                return
        logger.warning("controlled shutdown did not succeed within %s s", SHUTDOWN_S)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(request):
                self._send(request)
            case Refused(request, error):
                kind = type(request).__name__.removesuffix("Request")
                self._log.warning("the controller refuses %s: %s; retrying", kind, error.name)
            case Registered():
                self._on_effect(effect)
            case StateChanged(state):
                logger.info("broker %s is %s", self.machine.config.broker_id, state.value)
                if state is BrokerState.RUNNING:
                    self.running.set()
                elif state is BrokerState.SHUTTING_DOWN:
                    self.ended.set()
                self._on_effect(effect)

    def _send(self, request: BrokerRegistrationRequest | BrokerHeartbeatRequest) -> None:
        """Sends a request. Closes the connection if no response comes within the heartbeat interval, as Kafka does."""

        def make(choose: Choose) -> tuple[Message, int]:
            version = choose(type(request))
            if isinstance(request, BrokerHeartbeatRequest):
                fit_version(request, version)
            return request, version

        self.requests.send(make, self.machine.config.heartbeat_interval_ms / 1000)

    def _answered(self, response: Any) -> None:
        asyncio.get_running_loop().call_soon(self.take, Answered(response))
