"""The kinds of log lines about control requests."""

from enum import Enum


class NoticeKind(Enum):
    """The subject of a log line. The log limits the lines of each kind separately."""

    CONTROLS = "the controller has changed"
    STALE = "a request from an old controller, or for an old incarnation of this broker"
    IMPOSSIBLE = "a request with invalid names or states"
