"""The limits of a connection and of a server. The defaults are Kafka's if Kafka has the limit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

REQUEST_VALUES: Final = 1_000_000  # Values in all arrays of a request: objects are much larger than their bytes.
CLIENT_VALUES: Final = 100_000  # The same limit for clients that are no cluster nodes: each value is authorized.

HEADER_VALUES: Final = 1_000  # Values, such as unknown tags, of a request that is read before authentication.


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of both ends of a connection; times in seconds.

    Beyond `received_bytes` and `unsent_bytes` each connection has buffers: 64 KiB for input, 128 KiB for output.
    """

    frame_bytes: int = 100 * 1024 * 1024  # socket.request.max.bytes
    write_buffer_bytes: int = 64 * 1024  # If so many bytes wait to be sent, nothing is written to the peer.
    connect_s: float = 10.0  # socket.connection.setup.timeout.ms: name, TCP, TLS, ApiVersions and SASL together
    close_s: float = 2.0  # Time for written data to be sent, and for the last handlers to end.
    # Limits of a connection to a peer.
    in_flight: int = 5  # max.in.flight.requests.per.connection
    queued: int = 10_000  # Requests that wait until fewer are in flight; further requests are refused.
    request_s: float = 30.0  # request.timeout.ms, from the call of `send` to the answer
    # Limits of a server, with all of its connections.
    connections: int = 10_000  # max.connections; for a further connection the server closes an idle one
    connections_per_address: int = 2**31 - 1  # max.connections.per.ip; further connections are closed
    # max.connections.per.ip.overrides, by IP address
    connections_of_address: Mapping[str, int] = field(default_factory=dict, hash=False)
    connections_a_second: float | None = None  # max.connection.creation.rate; further connections are accepted later
    received_bytes: int = 256 * 1024 * 1024  # queued.max.request.bytes: incomplete frames, frames of running requests
    unsent_bytes: int = 512 * 1024 * 1024  # Bytes of answers that clients have not received yet.
    request_values: int = REQUEST_VALUES
    client_values: int = CLIENT_VALUES
    idle_s: float = 600.0  # connections.max.idle.ms, since the last whole request, or since its answer was sent
