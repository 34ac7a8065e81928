"""Counters of a client's connection, or of a server with all of its connections."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from kcore.net.durations import Duration


@dataclass(slots=True)
class Metrics:
    """Counters since the start. Many connections of one event loop may share one object."""

    connections_opened: int = 0
    connections_closed: int = 0
    requests: int = 0  # Requests that a client has written, or a server has begun.
    responses: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # Ends of connections, by the exception's name or a reason.
    # Server only, by API key: the time from the whole request to its encoded response; without relayed requests.
    apis: defaultdict[int, Duration] = field(default_factory=lambda: defaultdict(Duration))
    # Server only, by API key and error code: responses whose top-level error code is not NONE.
    api_errors: Counter[tuple[int, int]] = field(default_factory=Counter)

    def answered(self, api_key: int, error_code: int, begin_s: float, end_s: float) -> None:
        """Counts a request that a server has answered."""
        self.apis[api_key].add(end_s - begin_s, end_s)
        if error_code:
            self.api_errors[api_key, error_code] += 1
