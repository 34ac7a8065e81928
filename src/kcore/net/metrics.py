"""Counters of a connection or of a server with all of its connections."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    """What has happened so far. One may be shared by many connections of one loop."""

    connections_opened: int = 0
    connections_closed: int = 0
    requests: int = 0  # Written by a client, taken up by a server.
    responses: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # What ended connections, by the exception's name.
