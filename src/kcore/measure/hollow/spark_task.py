"""Runs hollow brokers in one Spark task: it follows the driver's commands and reports events in the driver's clock."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np

from kcore.errors import DisconnectedError, KcoreError
from kcore.measure.hollow.fleet import Fleet, HollowBroker, Options, State
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.spark_wire import Message, pack, receive
from kcore.measure.hollow.timeline import ARRIVAL, BATCH, Timeline
from kcore.net.security.listener_security import ListenerSecurity
from kcore.types import Uuid

_REPORT_S: Final = 0.2
_PINGS: Final = 8  # At the start; later one with each report.


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The settings that the driver gives every task at its start."""

    host: str
    port: int
    token: str  # The driver closes a connection whose first message lacks it.
    bootstrap: tuple[str, ...]
    options: Options
    seed: int
    security: ListenerSecurity = field(default_factory=ListenerSecurity, repr=False)  # without files


def run_in_spark(plan: TaskPlan, numbers: Iterable[int]) -> Iterator[int]:
    """The body of a Spark task: starts together with the other tasks; ends when the driver closes the connection."""
    from pyspark import BarrierTaskContext

    BarrierTaskContext.get().barrier()
    for number in numbers:
        asyncio.run(Task(plan, number).run())
        yield number


class Clock:
    """How far the driver's monotonic clock is ahead of this process's, by the quickest round trip so far."""

    def __init__(self) -> None:
        self.offset_ns = 0
        self.round_trip_ns = 1 << 62

    def pong(self, sent_ns: int, theirs_ns: int, now_ns: int) -> None:
        """Takes a round trip from `sent_ns` to `now_ns`, in which the driver's clock was `theirs_ns`."""
        if now_ns - sent_ns <= self.round_trip_ns:
            self.round_trip_ns = now_ns - sent_ns
            self.offset_ns = theirs_ns - (sent_ns + now_ns) // 2


class _Arrivals(Timeline):
    """Keeps the loop's batches and arrivals until the task sends them to the driver."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_bytes: list[bytes] = []
        self.arrival_bytes: list[bytes] = []

    def add(self, batches: bytes, arrivals: bytes) -> None:
        super().add(batches, arrivals)
        self.batch_bytes.append(batches)
        self.arrival_bytes.append(arrivals)
        self.forget()

    def taken(self, offset_ns: int, rows: list[int]) -> tuple[bytes, bytes]:
        """Removes and returns the kept batches and arrivals, with times in the driver's clock and the driver's rows."""
        batches = np.frombuffer(b"".join(self.batch_bytes), np.int64).reshape(-1, BATCH).copy()
        arrivals = np.frombuffer(b"".join(self.arrival_bytes), np.int64).reshape(-1, ARRIVAL).copy()
        self.batch_bytes.clear()
        self.arrival_bytes.clear()
        batches[:, -1] += offset_ns
        arrivals[:, -1] += offset_ns
        if len(arrivals):
            arrivals[:, 0] = np.array(rows, np.int64)[arrivals[:, 0]]
        return batches.tobytes(), arrivals.tobytes()


class Task:
    """The hollow brokers of one process, and the connection to the driver."""

    def __init__(self, plan: TaskPlan, number: int) -> None:
        self.plan, self.number, self.clock = plan, number, Clock()
        self._random = Random(f"{plan.seed} {number}")
        self._rows: list[int] = []  # By a broker's row in this process, its row in the driver.
        self._reported: dict[int, tuple[str, int]] = {}
        self._seen = 0  # The number of the last command received.
        self._orders: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Follows commands until the driver closes the connection."""
        reader, self._writer = await asyncio.open_connection(self.plan.host, self.plan.port)
        quorum = Quorum(
            self.plan.bootstrap,
            random=self._random,
            patience=self.plan.options.patience,
            security=self.plan.security,
        )
        try:
            await quorum.open()
            async with Fleet(quorum, random=self._random, options=self.plan.options) as self.fleet:
                self.fleet.timeline = self._arrivals = _Arrivals()
                self._send({"hello": self.plan.token, "task": self.number})
                for _ in range(_PINGS):
                    self._send({"ping": time.monotonic_ns()})
                reporting = asyncio.create_task(self._report_always())
                reporting.add_done_callback(lambda _: self._writer.close())  # Without reports the task is lost.
                with suppress(DisconnectedError):
                    while True:
                        self._on_message((await receive(reader))[0])
                for task in (reporting, *self._orders):
                    task.cancel()
                await asyncio.gather(reporting, *self._orders, return_exceptions=True)
        finally:
            await quorum.close()
            self._writer.close()

    def _on_message(self, message: Message) -> None:
        if "pong" in message:
            self.clock.pong(message["pong"], message["now"], time.monotonic_ns())
            return
        self._seen = message["order"]
        if message["do"] == "add":
            self._rows.append(message["row"])
            self.fleet.add(message["broker"], rack=message["rack"])
            return
        brokers = [self.fleet.brokers[each] for each in message["brokers"]]
        if message["do"] == "kill":
            self.fleet.kill(brokers)
            return
        if message["do"] in ("have", "lose"):
            [broker], directories = brokers, [Uuid(each) for each in message["directories"]]
            change = self.fleet.set_directories if message["do"] == "have" else self.fleet.lose_directories
            change(broker, directories)
            return
        task = asyncio.create_task(self._obey(message["order"], self._work(message, brokers)))
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)

    async def _work(self, message: Message, brokers: list[HollowBroker]) -> None:
        if message["do"] == "start":
            await self.fleet.start(brokers, clean=message["clean"])
        elif message["do"] == "shut_down":
            await self.fleet.shut_down(brokers, message["timeout_s"])

    async def _obey(self, order: int, work: Coroutine[Any, Any, None]) -> None:
        """Awaits a command's work; sends the brokers' states, then the end of the command with its error, if any."""
        error = ""
        try:
            await work
        except Exception as why:  # The driver waits for an answer, so each kind of error must reach it.
            error = str(why) if isinstance(why, KcoreError) else f"{type(why).__name__}: {why}"
        self._report()
        self._send({"done": order, "error": error})

    async def _report_always(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._send({"ping": time.monotonic_ns()})
            self._report()
            await self._writer.drain()

    def _report(self) -> None:
        fleet = self.fleet
        fleet.drain()
        now = {broker.broker_id: (broker.state.value, broker.epoch) for broker in fleet.brokers.values()}
        changed = [
            [each, *state, self._driver_ns(fleet.brokers[each].last_sent_ns)]
            for each, state in now.items()
            if self._reported.get(each, (State.OFF.value, -1)) != state
        ]
        self._reported = now
        message = {
            "seen": self._seen,
            "states": changed,
            "errors": fleet.errors,
            "false_fencings": fleet.false_fencings,
            "counters": fleet.counters(),
            "cpu_s": fleet.cpu_s(),
            "clock_ns": self.clock.round_trip_ns // 2,
        }
        self._send(message, *self._arrivals.taken(self.clock.offset_ns, self._rows), *fleet.histograms())
        fleet.errors, fleet.false_fencings = {}, 0
        fleet.observer.forget()

    def _driver_ns(self, ns: int) -> int:
        """Converts a time to the driver's clock; 0 means unknown and stays 0."""
        return ns + self.clock.offset_ns if ns else 0

    def _send(self, message: Message, *parts: bytes) -> None:
        self._writer.write(pack(message, *parts))
