"""Attackers beside a well-behaved client: measures answers, memory, log growth and the client's latency."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from typing import Any

from hostile.attacks import ATTACKS, OVER_TLS
from hostile.payloads import filled
from hostile.servers import TOPIC_NAME, Running, Target, connected
from kcore.measure.processes.local_process import usage_of
from kcore.net.connection import Connection
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest
from kcore.schema.index import message_class
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

TESTS = Path(__file__).resolve().parents[1]
CLIENT_PER_S = 100.0
MOST_GROWTH = 1 << 30  # More than received_bytes and unsent_bytes of kcore.net.limits.connection_limits together.
MOST_GROWTH_OVER_TLS = 256 << 20
MOST_LEFT = 40  # Descriptors and threads beyond those before: pools that stay.
MOST_THREADS = 60
SETTLES_S = 15.0
IDLE_S, IDLE_CORES = 0.3, 0.1  # A server that uses fewer cores for so long has no work of attackers left.
STEADY_S = 1.0
MOST_LINES_PER_S = 20.0
MOST_LINES = 200
MUST_BE_REFUSED = ("forged principals", "foreign clusters", "last epochs", "replayed registrations")
READY_S = 120.0


@dataclass
class Window:
    """How the well-behaved client fared for a while; times in ms."""

    times: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def at(self, percent: int) -> float:
        return quantiles(self.times, n=100)[percent - 1] if len(self.times) > 1 else float("nan")


@dataclass
class Row:
    """One kind of attackers at one server, over all rounds."""

    server: str
    attack: str
    tried_per_s: float
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    rss_before: int = 0
    rss_peak: int = 0
    rss_after: int = 0
    held_before: tuple[int, int] = (0, 0)  # Descriptors and threads.
    held_peak: tuple[int, int] = (0, 0)
    held_after: tuple[int, int] = (0, 0)
    alone: list[tuple[float, float]] = field(default_factory=list)  # p50 and p99 of each round, in ms
    beside: list[tuple[float, float]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    server_cores: float = 0.0
    attackers_cores: float = 0.0
    log_lines: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.outcomes.total() / self.seconds if self.seconds else 0.0

    def p(self, which: str, at: int) -> float:
        rounds = self.alone if which == "alone" else self.beside
        return median(each[at] for each in rounds) if rounds else float("nan")

    @property
    def ratio(self) -> float:
        """The median ratio of the client's p99 beside attackers to its p99 alone, over the rounds."""
        pairs = [(alone[1], beside[1]) for alone, beside in zip(self.alone, self.beside, strict=True)]
        return median(beside / alone for alone, beside in pairs) if pairs else float("nan")

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "per_s": self.per_s, "ratio": self.ratio}


class Client:
    """The well-behaved client: a request in each 10 ms on one connection, which it opens again after a failure.

    The time within the 10 ms is random. Attackers send on a schedule of 10 ms, too: at fixed times either each of
    their requests would meet one of this client, or none would.
    """

    def __init__(self, target: Target, seed: int) -> None:
        self._target, self._connection, self._dice = target, None, random.Random(seed)
        self._request, self._version = _request_of(target)

    async def window(self, seconds: float) -> Window:
        found, begin = Window(), time.monotonic()
        for number in range(int(seconds * CLIENT_PER_S)):
            due = begin + (number + self._dice.random()) / CLIENT_PER_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() - begin > 2 * seconds + 5:
                break  # It is hardly served at all.
            before = time.monotonic()
            try:
                await self._ask()
            except Exception as error:  # Whatever it is, the client was not served.
                found.failures[type(error).__name__] += 1
                await self.close()
            found.times.append((time.monotonic() - before) * 1e3)
        return found

    async def _ask(self) -> None:
        if self._connection is None:
            self._connection = await connected(self._target.port, self._target.trusted, "well-behaved")
        answer = await self._connection.send(self._request, self._version)
        if hasattr(answer, "responses"):
            [partition] = answer.responses[0].partition_responses
            assert partition.error_code == Errors.NONE, Errors.of(partition.error_code)

    async def close(self) -> None:
        connection: Connection | None = self._connection
        self._connection = None
        if connection is not None:
            with suppress(Exception):
                await connection.close()


def _request_of(target: Target) -> tuple[Any, int]:
    """A record to a broker; a controller is asked for the cluster."""
    if "Produce" in target.apis:
        records = encode_records([Record(0, 1_700_000_000_000, b"k", bytes(100))])
        known = {"name": TOPIC_NAME, "records": records, "acks": 1, "timeout_ms": 5000, "index": 0}
        return filled(message_class("ProduceRequest"), 9, known), 9
    if "Metadata" in target.apis:
        return MetadataRequest(topics=[]), 12
    return DescribeClusterRequest(), target.apis["DescribeCluster"][1]


class Attackers:
    """Their process."""

    def __init__(self, attack: str, target: Target, seed: int) -> None:
        command = [sys.executable, "-m", "hostile.attacks", attack, target.to_json(), "--seed", str(seed)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=TESTS, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        if self._from.readline() != "ready\n":
            raise AssertionError(f"the attackers of {attack!r} ended before they began")

    @property
    def cpu_s(self) -> float:
        usage = usage_of(self._process.pid)
        return 0.0 if usage is None else usage.cpu_s

    def begin(self, seconds: float) -> None:
        self._to.write(f"{seconds}\n")
        self._to.flush()

    async def outcomes(self) -> Counter[str]:
        return Counter(json.loads(await asyncio.to_thread(self._from.readline)))

    def close(self) -> None:
        self._to.close()
        self._process.wait(30)
        self._from.close()

    def __enter__(self) -> "Attackers":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def watched(pid: int, row: Row) -> Iterator[None]:
    """The peak of its memory meanwhile."""
    ended = Event()

    def look() -> None:
        while not ended.wait(0.02):
            row.rss_peak = max(row.rss_peak, _rss(pid))
            row.held_peak = _larger(row.held_peak, _held(pid))

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measured(running: Running, attack: str, *, seconds: float, rounds: int, seed: int) -> Row:
    """The client alone and beside the attackers, in turn."""
    row = Row(running.target.server, attack, ATTACKS[attack][0])
    lines_before, faults_before = _lines(running.log), len(running.faults())
    row.rss_before = row.rss_peak = _rss(running.pid)
    row.held_before = row.held_peak = _steady(running.pid)
    with Attackers(attack, running.target, seed) as attackers:
        asyncio.run(_rounds(running, row, attackers, seconds, rounds, seed))
    _settle(running.pid, row)
    row.rss_after, row.log_lines = _rss(running.pid), _lines(running.log) - lines_before
    row.findings = [*_findings(row), *(f"in its log: {each[:300]}" for each in running.faults()[faults_before:][:3])]
    return row


async def _idle(pid: int) -> None:
    """Waits until the server has ended the attackers' requests, which outlive their connections; SETTLES_S at most."""
    end = time.monotonic() + SETTLES_S
    while time.monotonic() < end:
        before_s, begin = _cpu(pid), time.monotonic()
        await asyncio.sleep(IDLE_S)
        if _cpu(pid) - before_s < IDLE_CORES * (time.monotonic() - begin):
            return


async def _rounds(running: Running, row: Row, attackers: Attackers, seconds: float, rounds: int, seed: int) -> None:
    client = Client(running.target, seed)
    await client.window(0.3)
    for _ in range(rounds):
        await _idle(running.pid)
        alone = await client.window(seconds)
        row.alone.append((alone.at(50), alone.at(99)))
        before = attackers.cpu_s, _cpu(running.pid), time.monotonic()
        with watched(running.pid, row):
            attackers.begin(seconds)
            beside = await client.window(seconds)
            row.outcomes += await attackers.outcomes()
        took = time.monotonic() - before[2]
        row.seconds += took
        row.attackers_cores += (attackers.cpu_s - before[0]) / took / rounds
        row.server_cores += (_cpu(running.pid) - before[1]) / took / rounds
        row.beside.append((beside.at(50), beside.at(99)))
        row.failures += alone.failures + beside.failures
    await _idle(running.pid)
    last = await client.window(0.2)
    if last.failures:
        row.findings.append(f"after the attack the client is not served: {dict(last.failures)}")
    await client.close()


def _findings(row: Row) -> list[str]:
    found = list(row.findings)
    if row.rss_peak - row.rss_before > MOST_GROWTH:
        found.append(f"its memory grew by {(row.rss_peak - row.rss_before) >> 20:,} MiB")
    if row.attack in OVER_TLS and row.rss_peak - row.rss_before > MOST_GROWTH_OVER_TLS:
        found.append(f"its memory grew by {(row.rss_peak - row.rss_before) >> 20:,} MiB by strangers")
    names = ("descriptors", "threads")
    for name, before, after in zip(names, row.held_before, row.held_after, strict=True):
        if after > before + MOST_LEFT:
            found.append(f"{after:,} {name} stay, of {before:,} before")
    if row.held_peak[1] > row.held_before[1] + MOST_THREADS:
        found.append(f"{row.held_peak[1]:,} threads, of {row.held_before[1]:,} before")
    if row.log_lines > MOST_LINES + MOST_LINES_PER_S * row.seconds:
        found.append(f"{row.log_lines:,} lines in its log")
    done = {outcome: count for outcome, count in row.outcomes.items() if outcome.startswith("NONE of ")}
    if row.attack in MUST_BE_REFUSED and done:
        found.append(f"not refused: {done}")
    if not row.rss_after:
        found.append("the server has ended")
    if row.failures:
        found.append(f"the well-behaved client was not served: {dict(row.failures)}")
    return found


def _held(pid: int) -> tuple[int, int]:
    """Descriptors and threads; 0 once the process has ended."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))
    return 0, 0


def _steady(pid: int) -> tuple[int, int]:
    """The same, once they have not changed for a while: a broker may have logs to open."""
    end, found, since = time.monotonic() + SETTLES_S, _held(pid), time.monotonic()
    while time.monotonic() < min(end, since + STEADY_S):
        time.sleep(0.05)
        if (now := _held(pid)) != found:
            found, since = now, time.monotonic()
    return found


def _larger(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), max(one[1], other[1])


def _settle(pid: int, row: Row) -> None:
    """Until what the attackers held is released, or for SETTLES_S."""
    end = time.monotonic() + SETTLES_S
    while True:
        row.held_after = _held(pid)
        if time.monotonic() > end or all(
            after <= before + MOST_LEFT // 2 for before, after in zip(row.held_before, row.held_after, strict=True)
        ):
            return
        time.sleep(0.1)


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def _rss(pid: int) -> int:
    usage = usage_of(pid)
    return usage.rss_bytes if usage else 0


def _cpu(pid: int) -> float:
    usage = usage_of(pid)
    return usage.cpu_s if usage else 0.0
