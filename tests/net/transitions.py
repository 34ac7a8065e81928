"""Watches the states of connections: which transitions they take, and which they try that the table does not have."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kcore.net.connection_states import ClientConnection, Event, Transition


class Transitions:
    """The transitions and the connections of a test."""

    def __init__(self) -> None:
        self.taken: list[Transition] = []
        self.illegal: list[str] = []
        self.connections: set[ClientConnection] = set()


@contextmanager
def watched_transitions(*, keeps: bool = True) -> Iterator[Transitions]:
    """Every connection of this process is watched; in the end none has tried an illegal transition.

    `keeps`: whether the result has the connections, which keeps them in memory.
    """
    seen, enter = Transitions(), ClientConnection.enter

    def watched(connection: ClientConnection, event: Event) -> None:
        source = connection.state
        try:
            enter(connection, event)
        except AssertionError as error:
            seen.illegal.append(str(error))
            raise
        if keeps:
            seen.connections.add(connection)
            seen.taken.append(Transition(source, event, connection.state))

    with patch.object(ClientConnection, "enter", watched):
        yield seen
    assert seen.illegal == []
