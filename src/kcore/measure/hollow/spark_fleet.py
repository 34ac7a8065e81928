"""Runs hollow brokers on Spark: the driver sends commands and keeps the image, tasks run the brokers and report."""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Final
from uuid import uuid4

import numpy as np

from kcore.errors import NetworkError, TargetError
from kcore.extras import needs
from kcore.measure.hollow.fleet import Fleet, HollowBroker, Options, State
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.spark_task import TaskPlan, run_in_spark
from kcore.measure.hollow.spark_wire import Message, pack, receive
from kcore.measure.hollow.timeline import Batches, Timeline
from kcore.types import Int64s, Uuid

with needs("spark"):
    from pyspark.sql import SparkSession

_START_S: Final = 120.0
_ANSWER_S: Final = 180.0
_BROKERS_A_TASK: Final = 500
_STABLE_S: Final = 2.0  # If no executor registers for this long, no more are expected.


class MergedTimeline(Timeline):
    """The timeline of several loops: a batch's first arrival is the earliest in any loop."""

    def batches(self, from_offset: int, end_offset: int | None = None) -> Batches:
        every = super().batches(from_offset, end_offset)
        order = np.lexsort((every.first_ns, every.base_offset))
        first = order[np.unique(every.base_offset[order], return_index=True)[1]]
        columns = (every.base_offset, every.last_offset, every.records, every.bytes, every.append_ms, every.first_ns)
        return Batches(*(column[first] for column in columns))


class _Link:
    """The driver's connection to one Spark task, and the brokers that run in this task."""

    def __init__(self, number: int, writer: asyncio.StreamWriter) -> None:
        self.number, self.writer = number, writer
        self.brokers: dict[int, int] = {}  # By broker id, the number of the last command that the driver sent about it.
        self.counters: dict[str, int] = {}
        self.cpu_s = 0.0
        self.waiting: dict[int, asyncio.Future[None]] = {}


class SparkFleet(Fleet):
    """A Fleet with its brokers in the tasks of one barrier stage. A lost task ends the fleet: nothing is retried."""

    def __init__(self, quorum: Quorum, spark: SparkSession, *, random: Random, options: Options, brokers: int) -> None:
        super().__init__(quorum, random=random, options=options)
        self._spark, self._group_id, self._wanted = spark, f"kcore-storm-{uuid4()}", brokers
        self.timeline = MergedTimeline()
        self._links: dict[int, _Link] = {}
        self._token, self._seed = secrets.token_hex(), random.getrandbits(32)
        self._order = 0
        self._latency, self._lag = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._pool = ThreadPoolExecutor(1)
        self._closing = False
        self._all_there = asyncio.Event()

    async def __aenter__(self) -> "SparkFleet":
        await super().__aenter__()
        try:
            context = self._spark.sparkContext
            host = context.getConf().get("spark.driver.host") or "127.0.0.1"
            self._server = await asyncio.start_server(self._serve, host, 0)
            port = self._server.sockets[0].getsockname()[1]
            bootstrap = tuple(self.quorum.bootstrap)
            security = self.quorum.security.as_text()
            plan = TaskPlan(host, port, self._token, bootstrap, self.options, self._seed, security)
            self._tasks_wanted = await asyncio.to_thread(self._slots)
            self._job = asyncio.get_running_loop().run_in_executor(self._pool, self._run_job, plan)
            self._job.add_done_callback(lambda job: self._lose(f"Spark's stage ended: {_reason(job.exception())}"))
            await self.watch()
            self._loop.keep_arrivals(False)  # The driver's loop has only the observer, whose row 0 is also a broker's.
            self.timeline.by_row = np.zeros(0, np.int64)
            await asyncio.wait_for(self._all_there.wait(), _START_S)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        for link in self._links.values():
            link.writer.close()  # A task ends when its connection closes.
        self._server.close()
        await asyncio.to_thread(self._spark.sparkContext.cancelJobGroup, self._group_id)
        self._pool.shutdown(wait=False)
        await super().__aexit__(kind, error, trace)

    # The stage.

    def _slots(self) -> int:
        """The number of tasks: one per executor, more for many brokers. A barrier hangs unless all can run together."""
        java = self._spark.sparkContext._jsc.sc()
        count, since = -1, time.monotonic()
        while time.monotonic() - since < _STABLE_S or count == 0:
            now = java.getExecutorMemoryStatus().size() - 1  # Without the driver.
            if str(self._spark.sparkContext.master).startswith("local"):
                count = 1
                break
            if now != count:
                count, since = now, time.monotonic()
            time.sleep(0.1)
        wanted = max(count, -(-self._wanted // _BROKERS_A_TASK))
        return int(min(wanted, self._spark.sparkContext.defaultParallelism, self._wanted))

    def _run_job(self, plan: TaskPlan) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(self._group_id, "kcore storm", interruptOnCancel=True)
        numbers = context.parallelize(range(self._tasks_wanted), self._tasks_wanted)
        numbers.barrier().mapPartitions(partial(run_in_spark, plan)).collect()

    def _lose(self, why: str) -> None:
        """Ends the storm, unless it is already ending."""
        if self._closing or self.lost:
            return
        self.lost = why
        for link in self._links.values():
            for waiting in link.waiting.values():
                if not waiting.done():
                    waiting.set_exception(TargetError(why))
        self._spawn(_fail(why))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = None
        try:
            hello, _ = await asyncio.wait_for(receive(reader), _START_S)
            if not secrets.compare_digest(str(hello.get("hello")), self._token):
                return
            link = self._links[hello["task"]] = _Link(hello["task"], writer)
            if len(self._links) == self._tasks_wanted:
                self._all_there.set()
            while True:
                self._on_message(link, *await receive(reader))
        except (NetworkError, TimeoutError):
            if link is not None:
                mine = f"{len(link.brokers)} of {len(self.brokers)} brokers"
                self._lose(f"task {link.number + 1} of {self._tasks_wanted} was lost with {mine}")
        finally:
            writer.close()

    def _on_message(self, link: _Link, message: Message, parts: list[bytes]) -> None:
        if "ping" in message:
            link.writer.write(pack({"pong": message["ping"], "now": time.monotonic_ns()}))
        elif "done" in message:
            waiting = link.waiting.pop(message["done"])
            if not waiting.done() and message["error"]:
                waiting.set_exception(TargetError(f"task {link.number + 1} of {len(self._links)}: {message['error']}"))
            elif not waiting.done():
                waiting.set_result(None)
        else:
            self._on_report(link, message, parts)

    def _on_report(self, link: _Link, report: Message, parts: list[bytes]) -> None:
        for broker_id, state, epoch, last_sent_ns in report["states"]:
            if link.brokers[broker_id] <= report["seen"]:  # Otherwise the driver has sent a newer command.
                broker = self.brokers[broker_id]
                broker.epoch, broker.last_sent_ns = epoch, last_sent_ns
                self._set(broker, State(state))
        for name, count in report["errors"].items():
            self.errors[name] = self.errors.get(name, 0) + count
        self.false_fencings += report["false_fencings"]
        link.counters, link.cpu_s = report["counters"], report["cpu_s"]
        self.clock_ns = max(self.clock_ns, report["clock_ns"])
        batches, arrivals, latency, lag = parts
        self.timeline.add(batches, arrivals)
        self._latency, self._lag = _sum(self._latency, latency), _sum(self._lag, lag)

    # The methods of Fleet, which send commands to the tasks.

    def add(self, broker_id: int, *, rack: str | None = None, directories: int = 1) -> HollowBroker:
        """Adds a broker that is off; the tasks take new brokers in turn."""
        row = len(self.brokers)
        broker = self.brokers[broker_id] = HollowBroker(broker_id, row, rack, (), self._uuid())
        self._send_command(self._links[row % len(self._links)], "add", broker_id, row=row, rack=rack, broker=broker_id)
        self.set_directories(broker, [self._uuid() for _ in range(directories)])
        return broker

    def set_directories(self, broker: HollowBroker, directories: Sequence[Uuid]) -> None:
        broker.directories = tuple(directories)
        self._order_about(broker, "have", directories)

    def lose_directories(self, broker: HollowBroker, lost: Sequence[Uuid]) -> None:
        self._order_about(broker, "lose", lost)

    async def start(self, brokers: Iterable[HollowBroker], *, clean: bool = False) -> None:
        await self._ask("start", list(brokers), clean=clean)

    def kill(self, brokers: Iterable[HollowBroker]) -> None:
        for link, ids in self._by_link(brokers):
            self._send_command(link, "kill", *ids)
        for broker in brokers:
            broker.last_sent_ns = 0  # Unknown until the broker's task has reported it.
            self._set(broker, State.OFF)

    async def shut_down(self, brokers: Sequence[HollowBroker], timeout_s: float) -> None:
        for broker in brokers:
            self._set(broker, State.SHUTTING_DOWN)
        await self._ask("shut_down", brokers, timeout_s=timeout_s)

    async def sync(self) -> None:
        await asyncio.gather(*(self._answer(link, "sync") for link in self._links.values()))
        self.drain()

    def counters(self) -> dict[str, int]:
        names = {name for link in self._links.values() for name in link.counters}
        return {name: sum(link.counters.get(name, 0) for link in self._links.values()) for name in names} or {
            "heartbeats": 0,
            "fetches": 0,
        }

    def histograms(self) -> tuple[bytes, bytes]:
        found = self._latency.tobytes(), self._lag.tobytes()
        self._latency, self._lag = np.zeros(0, np.int64), np.zeros(0, np.int64)
        return found

    def cpu_s(self) -> float:
        return super().cpu_s() + sum(link.cpu_s for link in self._links.values())

    # Commands to the tasks.

    def _by_link(self, brokers: Iterable[HollowBroker]) -> list[tuple[_Link, list[int]]]:
        found: dict[int, list[int]] = defaultdict(list)
        for broker in brokers:
            found[broker.row % len(self._links)].append(broker.broker_id)
        return [(self._links[number], ids) for number, ids in found.items()]

    def _order_about(self, broker: HollowBroker, do: str, directories: Sequence[Uuid]) -> None:
        [(link, ids)] = self._by_link([broker])
        self._send_command(link, do, *ids, directories=[str(each) for each in directories])

    async def _ask(self, do: str, brokers: Sequence[HollowBroker], **more: Any) -> None:
        await asyncio.gather(*(self._answer(link, do, *ids, **more) for link, ids in self._by_link(brokers)))

    async def _answer(self, link: _Link, do: str, *ids: int, **more: Any) -> None:
        waiting = asyncio.get_running_loop().create_future()
        link.waiting[self._send_command(link, do, *ids, **more)] = waiting
        if self.lost:
            raise TargetError(self.lost)
        answer_s = _ANSWER_S * self.options.patience
        try:
            await asyncio.wait_for(waiting, answer_s)
        except TimeoutError:
            raise TargetError(f"task {link.number + 1} has not answered {do} within {answer_s:g} s") from None

    def _send_command(self, link: _Link, do: str, *ids: int, **more: Any) -> int:
        self._order += 1
        link.brokers.update(dict.fromkeys(ids, self._order))
        if not link.writer.is_closing():
            link.writer.write(pack({"order": self._order, "do": do, "brokers": list(ids)} | more))
        return self._order


def _sum(counts: Int64s, more: bytes) -> Int64s:
    fresh = np.frombuffer(more, np.int64)
    return fresh if not len(counts) else counts + fresh


async def _fail(why: str) -> None:
    raise TargetError(why)


def _reason(error: BaseException | None) -> str:
    return "too early" if error is None else str(error).splitlines()[0]
