"""The kinds of lines that a broker's machine has for the log of its process."""

from enum import Enum


class NoticeKind(Enum):
    """What a line for the log is about: lines of one kind must not push out those of another."""

    CONTROLS = "who controls"
    STALE = "a request of an old controller, or for an old incarnation of this broker"
    IMPOSSIBLE = "a request that names or says what cannot be"
