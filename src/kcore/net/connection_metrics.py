"""Counters of a connection or of a server with all of its connections."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from kcore.net.durations import Duration


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
    # Of a server, by API key: from the whole request to its encoded response; requests that are relayed apart.
    apis: defaultdict[int, Duration] = field(default_factory=lambda: defaultdict(Duration))
    # Of a server, by API key and error code: responses whose own error code, not one within, is another than NONE.
    api_errors: Counter[tuple[int, int]] = field(default_factory=Counter)

    def answered(self, api_key: int, error_code: int, begin_s: float, end_s: float) -> None:
        """A server has answered a request."""
        self.apis[api_key].add(end_s - begin_s, end_s)
        if error_code:
            self.api_errors[api_key, error_code] += 1
