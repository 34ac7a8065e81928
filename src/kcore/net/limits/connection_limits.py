"""The limits of a connection. The defaults are Kafka's where Kafka has one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

REQUEST_VALUES: Final = 1_000_000  # In all arrays of a request: objects are far larger than their bytes.
CLIENT_VALUES: Final = 100_000  # The same for clients that are no cluster nodes: each value needs an authorization.

HEADER_VALUES: Final = 1_000  # Unknown tags of a header that is read by itself.


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of either end; times in seconds.

    Beside `received_bytes` and `unsent_bytes` each connection has buffers: up to 64 KiB in, twice that out.
    """

    frame_bytes: int = 100 * 1024 * 1024  # socket.request.max.bytes
    write_buffer_bytes: int = 64 * 1024  # No more is written to a peer that lets this much wait.
    connect_s: float = 10.0  # socket.connection.setup.timeout.ms: name, TCP, TLS, ApiVersions and SASL together
    close_s: float = 2.0  # Time for written data to be sent, and for the last handlers to end.
    # Limits of a connection to a peer.
    in_flight: int = 5  # max.in.flight.requests.per.connection
    queued: int = 10_000  # Requests that wait for a place in flight; the next is refused.
    request_s: float = 30.0  # request.timeout.ms, from the call of `send` to the answer
    # Limits of a server, with all of its connections.
    connections: int = 10_000  # max.connections; for the next an idle one is closed
    connections_per_address: int = 2**31 - 1  # max.connections.per.ip; the next is closed
    connections_of_address: Mapping[str, int] = field(default_factory=dict, hash=False)  # ...overrides, by IP address
    connections_a_second: float | None = None  # max.connection.creation.rate; others wait to be accepted
    received_bytes: int = 256 * 1024 * 1024  # queued.max.request.bytes: half frames, and those whose requests run
    unsent_bytes: int = 512 * 1024 * 1024  # Answers that clients are slow to take.
    request_values: int = REQUEST_VALUES
    client_values: int = CLIENT_VALUES
    idle_s: float = 600.0  # connections.max.idle.ms, since the last whole request, or answer that the client took
