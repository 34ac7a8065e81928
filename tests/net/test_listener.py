"""A listener passes over errors of single connections, and pauses without descriptors."""

import asyncio
import errno
import logging
import socket
from typing import Any

import pytest

from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.listener import AT_ONCE, Listener, bound_sockets
from net.loops import story


class Accepting:
    """A listening socket whose accept() raises these errors first, and then returns connections."""

    def __init__(self, *errors: int, connections: int = 1) -> None:
        self.errors, self.left = [*errors], connections

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.errors:
            raise OSError(self.errors.pop(0), "accept")
        if not self.left:
            raise BlockingIOError
        self.left -= 1
        return socket.socket(), ("127.0.0.1", 1)


async def accepted_of(listening: Any) -> tuple[int, list[str]]:
    """How many connections the listener accepts in one call, and what it does beside: it makes room, or it stops."""
    accepted: list[socket.socket] = []
    done: list[str] = []
    listener = Listener(
        await bound_sockets("127.0.0.1", 0),
        lambda connection, _address, _port: accepted.append(connection),
        lambda: done.append("make room"),
        BoundedLog(logging.getLogger(__name__)),
    )
    stop = listener._stop

    def stopped(which: socket.socket, pause_s: float) -> None:
        done.append("stop")
        stop(listener._sockets[0], pause_s)

    listener._stop = stopped  # type: ignore[method-assign]
    listener._ready(listening)
    for each in accepted:
        each.close()
    listener.close()
    return len(accepted), done


@pytest.mark.parametrize("error", [errno.ECONNABORTED, errno.EPROTO, errno.EHOSTUNREACH])
@story
async def test_an_error_of_one_connection_does_not_stop_the_listener(error: int) -> None:
    """The client gave up before accept() returned its connection (accept(2))."""
    assert await accepted_of(Accepting(error)) == (1, [])


@story
async def test_without_a_free_descriptor_the_listener_makes_room_and_pauses() -> None:
    assert await accepted_of(Accepting(errno.EMFILE)) == (0, ["make room", "stop"])


@story
async def test_other_work_of_the_loop_runs_between_many_new_connections() -> None:
    assert await accepted_of(Accepting(connections=AT_ONCE + 1)) == (AT_ONCE, [])


@story
async def test_a_listener_that_closes_in_the_middle_accepts_no_more() -> None:
    listening = Accepting(connections=5)
    accepted: list[socket.socket] = []

    def close(connection: socket.socket, _address: str, _port: int) -> None:
        accepted.append(connection)
        connection.close()
        listener.close()

    listener = Listener(await bound_sockets("127.0.0.1", 0), close, bool, BoundedLog(logging.getLogger(__name__)))
    listener._ready(listening)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert (len(accepted), listening.left) == (1, 4)
