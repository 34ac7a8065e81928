"""The attackers, in a process of their own: they wait for a line with seconds, attack so long, and tell the outcome.

Strangers' connections come from 127.0.0.2 to 127.0.0.21. The well-behaved client is at 127.0.0.1, and so are attackers
who need rights to get far: producers of bombs, and slow readers.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from hostile.frames import Frame, framed
from hostile.payloads import MAX_EPOCH, PAYLOADS, filled
from hostile.servers import TOPIC_NAME, Target
from kcore.errors import KcoreError
from kcore.net.versions import api_name, response_of
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import message_class
from kcore.server.security.audit import outcome_of
from kcore.wire.codec import decode_from
from net.authority import client_tls

SOURCES = [f"127.0.0.{k}" for k in range(2, 22)]
INSIDE = ["127.0.0.1"]
PATIENCE_S = 2.0  # For an answer; most requests that wait for more are refused or were never whole.
ABORTS = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a RST.
WORKERS = 8
NICER = 10  # Elsewhere they would have a machine of their own.


class Attack(ABC):
    """One kind of attackers."""

    sources: ClassVar[Sequence[str]] = SOURCES

    def __init__(self, target: Target, seed: int, per_s: float) -> None:
        """`per_s`: how much of it they try in a second."""
        self.target, self.per_s, self.dice = target, per_s, random.Random(seed)
        self.outcomes: Counter[str] = Counter()

    @abstractmethod
    async def run(self, seconds: float) -> None:
        """Attacks for so long, and counts the outcomes."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = (self.dice.choice(self.sources), 0)
        return await asyncio.open_connection("127.0.0.1", self.target.port, local_addr=where, limit=1 << 26)


class Attackers(Attack):
    """Some of them at a time, each by itself."""

    at_once: ClassVar[int] = WORKERS

    async def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(self.work(end, number) for number in range(self.at_once)))

    @abstractmethod
    async def work(self, end: float, number: int) -> None:
        """The attacks of the attacker `number` until the time `end`."""


class Attempts(Attackers):
    """Short attacks, one after the other."""

    async def work(self, end: float, number: int) -> None:
        due = time.monotonic() + number / self.per_s
        while (now := time.monotonic()) < end:
            await asyncio.sleep(max(0.0, min(due, end) - now))
            due = max(due + self.at_once / self.per_s, time.monotonic() - 1.0)
            try:
                self.outcomes[await self.attempt()] += 1
            except TimeoutError:  # An OSError, too.
                self.outcomes["no answer yet"] += 1
            except (OSError, asyncio.IncompleteReadError):
                self.outcomes["closed"] += 1

    @abstractmethod
    async def attempt(self) -> str:
        """One try, and what came of it."""


class Payload(Attempts):
    """Requests, one at a time on a connection, and how they are answered."""

    def __init__(self, frames: str, target: Target, seed: int, per_s: float) -> None:
        super().__init__(target, seed, per_s)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._frames: list[Frame] = PAYLOADS[frames](target, self.dice)
        self._next = 0

    async def run(self, seconds: float) -> None:
        if self._frames:
            await super().run(seconds)
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    async def attempt(self) -> str:
        frame = self._frames[self._next % len(self._frames)]
        self._next += 1
        reader, writer = self._idle.pop() if self._idle else await self.connect()
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer.write(len(frame.data).to_bytes(4) + frame.data)
                size = int.from_bytes(await reader.readexactly(4))
                answer = await reader.readexactly(size)
        except BaseException:
            writer.transport.abort()
            raise
        self._idle.append((reader, writer))
        return errors_in(frame, answer)


def errors_in(frame: Frame, answer: bytes) -> str:
    """The errors that an answer has; "unread" for one that cannot be read."""
    assert frame.kind is not None
    response = response_of(frame.kind)
    with suppress(KcoreError, ValueError):
        _, at = decode_from(ResponseHeader, response.header_version(frame.version), answer)
        message, _ = decode_from(response, frame.version, answer, at)
        found = outcome_of(message)
        if isinstance(found, dict) and {*found} == {"NONE"}:
            return f"NONE of {api_name(frame.kind)} {frame.version}"
        return "+".join(found) if isinstance(found, dict) else found
    return "UNSUPPORTED_VERSION" if answer[4:6] == b"\x00\x23" else "unread"


class RandomBytes(Attempts):
    """Bytes that are nothing, sometimes in a frame, sometimes with the size of one."""

    async def attempt(self) -> str:
        reader, writer = await self.connect()
        data = self.dice.randbytes(self.dice.choice([1, 9, 100, 4000]))
        if self.dice.random() < 0.6:
            size = self.dice.choice([len(data), len(data), 2**31 - 1, 2**32 - 1, 1 << 27])
            data = size.to_bytes(4) + data
        writer.write(data)
        with suppress(OSError):
            await writer.drain()
        closed = await is_closed(reader, 0.2)
        writer.transport.abort()
        return "closed" if closed else "half a frame waits"


async def is_closed(reader: asyncio.StreamReader, within_s: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while await reader.read(1 << 16):
                pass
            return True
    return False


class HalfFrames(Attackers):
    """Frames of 90 MiB that come byte by byte, or megabyte by megabyte, and never whole."""

    at_once = 200

    async def work(self, end: float, number: int) -> None:
        size, each = 90 << 20, (1 << 20 if number % 4 == 0 else 1)
        with suppress(OSError):
            reader, writer = await self.connect()
            writer.write(size.to_bytes(4) + bytes([0, 3, 0, 12]))
            try:
                for _ in range(80):
                    if time.monotonic() > end or reader.at_eof():
                        break
                    writer.write(bytes(each))
                    await writer.drain()
                    await asyncio.sleep(self.at_once / self.per_s)
                self.outcomes["half a frame waits" if time.monotonic() > end else "closed"] += 1
            except OSError:
                self.outcomes["closed"] += 1
            finally:
                writer.transport.abort()


class Idle(Attack):
    """Ten thousand connections that say nothing."""

    many = 10_000

    async def run(self, seconds: float) -> None:
        end, opened = time.monotonic() + seconds, []
        try:
            for number in range(self.many):
                if time.monotonic() > end:
                    break
                each = socket.socket()
                each.bind((SOURCES[number % len(SOURCES)], 0))
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", self.target.port))
                opened.append(each)
                self.connected(each)
                if number % 20 == 19:
                    await asyncio.sleep(20 / self.per_s)
            await asyncio.sleep(max(0.0, end - time.monotonic()))
            for each in opened:
                self.outcomes[_state(each)] += 1
        finally:
            for each in opened:
                each.close()

    def connected(self, each: socket.socket) -> None:
        """Called when the connection attempt has begun."""


def _state(connection: socket.socket) -> str:
    try:
        return "closed" if connection.recv(1) == b"" else "answered"
    except BlockingIOError:
        return "open"
    except OSError:
        return "closed"


class Bombs(Payload):
    """Producers with rights, each of whose batches would be gigabytes."""

    sources = INSIDE


class SlowReaders(Attackers):
    """Clients that ask for what is large, again and again, and take nothing of it."""

    at_once = 40
    sources = INSIDE

    def __init__(self, target: Target, seed: int, per_s: float) -> None:
        super().__init__(target, seed, per_s)
        apis, known = target.apis, {"topics": None, "max_wait_ms": 0, "replica_id": -1}
        if "Fetch" in apis and "Metadata" in apis:
            name = "Fetch"
            known = {"topic": TOPIC_NAME, "max_wait_ms": 0, "replica_id": -1, "max_bytes": MAX_EPOCH}
            known |= {"partition_max_bytes": MAX_EPOCH, "current_leader_epoch": -1, "last_fetched_epoch": -1}
        else:
            name = "Metadata" if "Metadata" in apis else "DescribeQuorum" if "DescribeQuorum" in apis else "ApiVersions"
        version = min(apis[name][1], 12)
        self._frame = framed(filled(message_class(f"{name}Request"), version, known), version).data

    async def work(self, end: float, number: int) -> None:
        with suppress(ConnectionError):
            _, writer = await self.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            asked = len(self._frame).to_bytes(4) + self._frame
            try:
                while time.monotonic() < end and not writer.transport.is_closing():
                    writer.write(asked * 10)
                    async with asyncio.timeout(max(0.0, end - time.monotonic())):
                        await writer.drain()
                    await asyncio.sleep(10 * self.at_once / self.per_s)
                self.outcomes["closed" if writer.transport.is_closing() else "waits"] += 1
            except TimeoutError:
                self.outcomes["waits"] += 1
            finally:
                writer.transport.abort()


class Storms(Attempts):
    """Clients that connect and are gone at once: some politely, some with a RST, some in the middle of a frame."""

    async def attempt(self) -> str:
        each = socket.socket()
        each.setblocking(False)
        each.bind((self.dice.choice(SOURCES), 0))
        try:
            await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", self.target.port))
            if self.dice.random() < 0.5:
                each.send(b"\0\0\1\0\0\3\0\x0c")
            if self.dice.random() < 0.5:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORTS)
        finally:
            each.close()
        return "dropped"


class HangUps(Attempts):
    """Clients that ask for the page of metrics and are gone before it comes."""

    async def attempt(self) -> str:
        if not self.target.metrics_port:
            await asyncio.sleep(0.1)
            return "no page"
        with socket.socket() as each:
            each.setblocking(False)
            each.bind((self.dice.choice(SOURCES), 0))
            await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", self.target.metrics_port))
            each.send(b"GET /metrics HTTP/1.0\r\n\r\n")
        return "hung up"


class HalfHandshakes(Idle):
    """Six thousand connections that send 111 bytes of a ClientHello, and no more."""

    many = 6_000
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(100)

    async def run(self, seconds: float) -> None:
        if self.target.trusted:
            await super().run(seconds)

    def connected(self, each: socket.socket) -> None:
        with suppress(OSError):  # It is not connected yet: it stays silent.
            each.send(self.hello)


class SilentOverTls(Attackers):
    """Clients that end their handshake, and say nothing."""

    at_once = 400

    async def work(self, end: float, number: int) -> None:
        if not self.target.trusted:
            return
        await asyncio.sleep(number / self.per_s)
        context = client_tls(self.target.trusted)
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + max(0.0, end - time.monotonic())):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", self.target.port, ssl=context, local_addr=(self.dice.choice(self.sources), 0)
                )
        except (TimeoutError, OSError):
            self.outcomes["no handshake"] += 1
            return
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        self.outcomes["closed" if writer.transport.is_closing() else "silent"] += 1
        writer.transport.abort()


OVER_TLS = ("half handshakes", "silent over TLS")

# By name: how much of it is tried in a second, and who does it.
ATTACKS: dict[str, tuple[float, Callable[[Target, int, float], Attack]]] = {
    "random bytes": (100.0, RandomBytes),
    "half frames": (200.0, HalfFrames),
    "idle connections": (4_000.0, Idle),
    "messages": (100.0, partial(Payload, "messages")),
    "bombs": (4.0, partial(Bombs, "bombs")),
    "forged principals": (100.0, partial(Payload, "forged")),
    "replayed registrations": (100.0, partial(Payload, "replays")),
    "foreign clusters": (100.0, partial(Payload, "clusters")),
    "last epochs": (100.0, partial(Payload, "epochs")),
    "slow readers": (200.0, SlowReaders),
    "connect and drop": (200.0, Storms),
    "metrics page": (400.0, HangUps),
    "half handshakes": (2_000.0, HalfHandshakes),
    "silent over TLS": (200.0, SilentOverTls),
}


def attack_of(name: str, target: Target, seed: int) -> Attack:
    per_s, make = ATTACKS[name]
    return make(target, seed, per_s)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("target", type=Target.of_json)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.nice(NICER)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attack = attack_of(options.attack, options.target, options.seed)
    print("ready", flush=True)
    for line in sys.stdin:
        attack.outcomes.clear()
        asyncio.run(attack.run(float(line)))
        print(json.dumps(attack.outcomes), flush=True)


if __name__ == "__main__":
    main()
