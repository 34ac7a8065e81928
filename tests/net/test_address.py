"""Invalid hosts and ports: each is a NetworkError, whatever the resolver and the sockets raise for it."""

import asyncio
from typing import Any

import pytest

from kcore.errors import DisconnectedError
from kcore.net.address import address_flaw
from kcore.net.connect import connect
from kcore.net.server import serve
from net.loops import fenced, story

NOBODY = [
    ("a" * 64, 9092),  # UnicodeError: a label has 63 letters at most.
    (f"{'a' * 60}." * 10, 9092),
    ("a..b", 9092),
    ("nul\0", 9092),  # ValueError
    ("\ud800", 9092),  # UnicodeEncodeError
    ("two\nlines", 9092),
    ("", 9092),  # Would be this machine.
    ("127.0.0.1", 65_536),  # OverflowError
    ("127.0.0.1", -1),
    ("127.0.0.1", 2**31 - 1),
    ("127.0.0.1", -(2**31)),
]


@pytest.mark.parametrize(("host", "port"), NOBODY)
@story
async def test_an_address_that_no_host_can_have_is_refused_in_a_printable_line(host: str, port: int) -> None:
    assert address_flaw(host, port)
    with pytest.raises(DisconnectedError, match="no connection to") as caught:
        await connect(host, port)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("error", [UnicodeError("x"), ValueError("x"), OverflowError("x"), OSError("x")])
@story
async def test_any_error_of_connecting_is_a_disconnected_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fails)
    with pytest.raises(DisconnectedError, match="no connection to localhost:1: x"):
        await connect("localhost", 1)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "fe80::1%eth0", "a-b.example.org", "büro.example"])
@pytest.mark.parametrize("port", [0, 1, 65_535])
def test_somebody_may_be_there(host: str, port: int) -> None:
    assert address_flaw(host, port) is None


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 65_536), ("a" * 64, 0), ("nul\0", 0)])
@story
async def test_nobody_can_listen_there(host: str, port: int) -> None:
    with pytest.raises(OSError, match="cannot listen at"):
        await serve(host, port, fenced, {"BrokerHeartbeat": (0, 1)})


@pytest.mark.parametrize(("last", "is_valid"), [(61, True), (62, False)])
def test_the_longest_name_has_254_bytes_with_its_last_dot(last: int, is_valid: bool) -> None:
    name = ".".join(["a" * 63] * 3 + ["a" * last]) + "."
    assert len(name) == 193 + last and (address_flaw(name, 9092) is None) == is_valid
