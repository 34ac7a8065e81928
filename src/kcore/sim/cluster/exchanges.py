"""Requests of brokers and of the administrator to controllers, over the world's network.

A request is lost, delayed and duplicated as the messages of raft are. The sender gets one answer, or None after its
time-out; copies and late answers are dropped. The administrator is outside the network, and loses no message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kcore.releases.known import RELEASES
from kcore.schema.structure import Message
from kcore.sim.kernel.events import Described
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.processes import REFUSED_US
from kcore.sim.raft.running_world import RunningWorld
from kcore.sim.raft.simulated_machine import Machine
from kcore.sim.raft.story import short
from kcore.sim.raft.versions import through_codec

OnAnswer = Callable[[Any], None]
ADMINISTRATOR: Final = "administrator"


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and its answer."""

    source: Machine | None  # None for the administrator.
    incarnation: int
    destination: Machine
    request: Any
    version: int
    on_answer: OnAnswer
    is_settled: bool = False  # The sender has its answer, or has stopped waiting.

    @property
    def sender(self) -> str:
        return ADMINISTRATOR if self.source is None else f"node {self.source.index}"


@dataclass(slots=True, eq=False)
class Arrival:
    """A copy of a request that has arrived. `seen`: the values that the checks of answers compare."""

    exchange: Exchange
    incarnation: int
    at_us: int
    seen: Any = None
    is_answered: bool = False


class Exchanges:
    """Carries requests to `serve`, and the answers back."""

    def __init__(
        self,
        world: RunningWorld,
        release: str,
        serve: Callable[[Machine, Arrival], None],
        on_answer: Callable[[Arrival, Any], None],
    ) -> None:
        """`serve` handles a request that arrives, and calls `answer` now or later; `on_answer` sees each answer."""
        self._world, self._serve, self._on_answer = world, serve, on_answer
        self._apis = RELEASES[release].apis
        self.open: dict[int, list[Arrival]] = {}  # By machine: arrivals without an answer.

    def version_of(self, request: Message) -> int:
        """The newest version of the release."""
        return self._apis[type(request).__name__.removesuffix("Request")][1]

    def send(
        self, source: Machine | None, destination: Machine, request: Message, timeout_ms: int, on_answer: OnAnswer
    ) -> None:
        """Sends a request; `on_answer` gets the response, or None after the time-out."""
        world, version = self._world, self.version_of(request)
        if world.dice() < world.options.codec_sample:
            request = through_codec(request, version)
        incarnation = 0 if source is None else source.incarnation
        exchange = Exchange(source, incarnation, destination, request, version, on_answer)
        for delay_us in self._delays_us(source, destination):
            arrive = Described(lambda: self._arrive(exchange), lambda: f"from {exchange.sender}: {short(request)}")
            world.after_us(delay_us, arrive, destination)
        expire = Described(lambda: self._settle(exchange, None), lambda: f"{type(request).__name__} times out")
        world.after_us(timeout_ms * 1000, expire, source)

    def _delays_us(self, source: Machine | None, destination: Machine | None) -> tuple[int, ...]:
        if source is None or destination is None:
            return (self._world.options.latency_us,)
        return self._world.network.delays_us(source.index, destination.index)

    def _arrive(self, exchange: Exchange) -> None:
        machine, world = exchange.destination, self._world
        if not machine.is_up:
            refuse = Described(lambda: self._settle(exchange, None), lambda: "connection refused")
            world.after_us(REFUSED_US, refuse, exchange.source)
            return
        arrival = Arrival(exchange, machine.incarnation, world.now_us)
        self.open.setdefault(machine.index, []).append(arrival)
        self._serve(machine, arrival)

    def answer(self, arrival: Arrival, response: Message | None) -> None:
        """Sends the response to a request. Violation if the request is answered already."""
        exchange, world = arrival.exchange, self._world
        if arrival.is_answered:
            raise Violation("I13 AnsweredOnce", f"{short(exchange.request)} is answered again: {short(response)}")
        arrival.is_answered = True
        self.open[exchange.destination.index].remove(arrival)
        self._on_answer(arrival, response)
        if response is not None and world.dice() < world.options.codec_sample:
            response = through_codec(response, exchange.version)
        for delay_us in self._delays_us(exchange.destination, exchange.source):
            settle = Described(
                lambda: self._settle(exchange, response),
                lambda: f"from node {exchange.destination.index}: {short(response)}",
            )
            world.after_us(delay_us, settle, exchange.source)

    def _settle(self, exchange: Exchange, response: Message | None) -> None:
        source = exchange.source
        if exchange.is_settled or (
            source is not None and not (source.is_up and source.incarnation == exchange.incarnation)
        ):
            return
        exchange.is_settled = True
        exchange.on_answer(response)

    def on_ended(self, machine: Machine) -> None:
        """A process that has ended answers nothing."""
        self.open.pop(machine.index, None)
