"""Well encoded but hostile messages: nulls where allowed, extreme numbers, invalid names."""

import asyncio
import logging
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from kcore import schema as s
from kcore.schema.index import message_class
from kcore.schema.kinds import INTEGER_RANGES, FieldType, Kind
from kcore.schema.structure import Field, Message, Struct
from kcore.schema.versions import Versions
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.codec import encode
from net.loops import framed

TEXTS = ("", "t", "../x", "nul\0", "a" * 300, "größe 😀", "two\nlines", "__consumer_offsets", ".")
WAITS = {"max_wait_ms", "timeout_ms"}  # A request may be held so long.
PATIENCE_S = 0.05


class Hostile:
    """Makes random messages. Fields in `known` mostly get their value, which passes the server's first checks."""

    def __init__(
        self,
        random: Random,
        known: Mapping[str, Any] | None = None,
        *,
        uuids: tuple[Uuid, ...] = (),
        records: tuple[bytes, ...] = (),
        last_epochs: bool = True,
    ) -> None:
        """`last_epochs`: epochs may have the largest value of their type."""
        self.random, self.known, self.last_epochs = random, known or {}, last_epochs
        self.uuids = (ZERO_UUID, Uuid(b"\xff" * 16), *uuids)
        self.records = (b"", b"garbage", bytes(100), *records)

    def message(self, kind: type[Message], version: int) -> Message:
        """A message of that kind with invalid or extreme field values."""
        return self._struct(kind, version, mood=self.random.choice([0.0, 0.3, 1.0]))

    def garbled(self, body: bytes) -> bytes:
        """The body with a few bytes changed, and truncated or with random bytes appended."""
        random, made = self.random, bytearray(body)
        for _ in range(min(len(made), random.choice([0, 1, 2, 5]))):
            made[random.randrange(len(made))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        return bytes(made[: random.randrange(len(made) + 1)] if random.random() < 0.3 else made + random.randbytes(3))

    def _struct(self, kind: Any, version: int, mood: float) -> Any:
        made = {each.name: self._value(each, version, mood) for each in kind.__fields__ if self._is_in(each, version)}
        return kind(**made)

    def _is_in(self, field: Field, version: int) -> bool:
        return version in field.options.versions or version in field.options.tagged

    def _value(self, field: Field, version: int, mood: float) -> Any:
        if version in field.options.nullable and self.random.random() < mood:
            return None
        if field.name in self.known and self.random.random() < 0.7:
            return self.known[field.name]
        value = self._of_type(field.type, version, mood)
        is_last = field.name.endswith("epoch") and value in (2**31 - 1, 2**63 - 1)
        return 0 if is_last and not self.last_epochs else value

    def _of_type(self, type_: FieldType, version: int, mood: float) -> Any:
        random = self.random
        if type_.kind in INTEGER_RANGES:
            low, high = INTEGER_RANGES[type_.kind]
            return random.choice([low, high, max(low, -1), max(low, -2), 0, 1, 2, min(high, 1000)])
        match type_.kind:
            case Kind.BOOL:
                return random.random() < 0.5
            case Kind.FLOAT64:
                return random.choice([float("nan"), float("inf"), -1.0, 1e308])
            case Kind.UUID:
                return random.choice(self.uuids)
            case Kind.STRING:
                return random.choice(TEXTS)
            case Kind.BYTES | Kind.RECORDS:
                return random.choice(self.records)
            case Kind.ARRAY:
                assert type_.element is not None
                made = [self._of_type(type_.element, version, mood) for _ in range(random.choice([0, 1, 1, 2, 3]))]
                return made * random.choice([1, 1, 2])
        assert type_.struct is not None
        return self._struct(type_.struct, version, mood)


def may_wait(message: Struct) -> bool:
    """Whether the request says that its answer may be late."""
    return any(getattr(message, name, 0) * 1e-3 > PATIENCE_S / 2 for name in WAITS)


class Outcome:
    """How many requests were answered, refused by closing, or wait as they asked to."""

    def __init__(self) -> None:
        self.answered = self.closed = self.waiting = 0


async def send_all(port: int, apis: Mapping[str, tuple[int, int] | Versions], hostile: Hostile, rounds: int) -> Outcome:
    """Send `rounds` messages of every API and version, and as many garbled messages, which the outcome does not count.

    Raises AssertionError for a message that is neither answered nor refused.
    """
    outcome, garbled = Outcome(), Outcome()
    for name, (lowest, highest) in apis.items():
        kind = message_class(f"{name}Request")
        for version in range(lowest, highest + 1):
            for _ in range(rounds):
                message = hostile.message(kind, version)
                body = encode(message, version)
                patience_s = PATIENCE_S if may_wait(message) or getattr(message, "acks", 1) == 0 else 30.0
                await _send(port, kind, version, body, patience_s, outcome)
                await _send(port, kind, version, hostile.garbled(body), PATIENCE_S, garbled)
    return outcome


async def _send(port: int, kind: type[Message], version: int, body: bytes, patience_s: float, outcome: Outcome) -> None:
    header = s.RequestHeader(request_api_key=kind.api_key, request_api_version=version, client_id="hostile")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(framed(encode(header, kind.header_version(version)) + body))
        async with asyncio.timeout(patience_s):
            outcome.answered += bool(await reader.readexactly(4))
    except (ConnectionError, asyncio.IncompleteReadError):
        outcome.closed += 1
    except TimeoutError:
        assert patience_s == PATIENCE_S, f"{kind.__name__} {version} is neither answered nor refused: {body!r:.2000}"
        outcome.waiting += 1
    finally:
        writer.transport.abort()


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No fault of our own was found, and nothing worse than a warning."""
    loud = [each for each in caplog.records if each.levelno > logging.WARNING or each.exc_info]
    assert [each.getMessage() + str(each.exc_info or "") for each in loud] == []
