"""Loops that send and answer the requests of thousands of hollow brokers without Python (crate `rust/hollow`)."""

from typing import Final

HEARTBEATS: Final[int]
FETCHES: Final[int]
CAUGHT_UP: Final[int]
FENCED: Final[int]
SHOULD_SHUT_DOWN: Final[int]
STEP_BITS: Final[int]  # A histogram has 2**STEP_BITS steps between a power of two and the next.

Frame = tuple[bytes, list[int | None]]
"""A request's whole frame and the byte positions of its changing fields; None for fields that its version lacks."""

def due_latencies(due_ns: int, interval_ns: int, answered_ns: int) -> bytes:
    """A histogram of the latencies of requests that one answer at `answered_ns` ends: one every `interval_ns` from
    `due_ns` on.
    """

def make_certificates(authority: str, names: list[str], hosts: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """A new authority's certificate, and a certificate and an ECDSA key for each name; all are PEM.

    `names`: the CN of each subject. `hosts`: the alternative names of each certificate. ValueError for another text.
    """

class ClientTls:
    """The TLS settings of a loop's connections, by rustls. Each connection has a full handshake."""

    def __new__(
        cls,
        *,
        trusted: bytes,
        chain: bytes,
        key: bytes,
        key_password: bytes | None,
        versions: list[str],
        verifies_name: bool,
    ) -> ClientTls:
        """From PEM; `chain` and `key` are empty for a client without a certificate. `versions`: such as TLSv1.3.

        ValueError for certificates or a key that cannot be read, or for a wrong password of the key.
        """

class Loop:
    """The hollow brokers of one process. Sends their heartbeats and fetches, and reads the answers, without Python.

    Call `run` in a thread of its own; all other methods may be called meanwhile. Times are nanoseconds of
    `time.monotonic_ns()`. `row` is a broker's index in the order of `add`; `which` is a connection, HEARTBEATS or
    FETCHES. Other values raise IndexError.
    """

    def __new__(
        cls, *, frame_bytes: int, timeout_ns: int, tls: ClientTls | None = None, authenticates: bool = False
    ) -> Loop:
        """`authenticates`: after "connected" Python calls `say`, and `end_talk` at the end of the authentication."""

    def run(self) -> None:
        """Run until `stop`, without the GIL; then close all connections."""

    def stop(self) -> None:
        """End `run` for good."""

    def fileno(self) -> int:
        """A descriptor that is readable while `drain` has notices or batches to return."""

    def add(self, heartbeat: Frame, fetch: Frame, interval_ns: int) -> int:
        """Add a broker with its requests and the interval of its heartbeats, and return its row."""

    def connect(self, row: int, which: int, address: str, name: str = "") -> int:
        """Begin to connect to "address:port" and return the time; a later notice reports the result.

        `name`: the host in the controller's certificate, for TLS.
        """

    def say(self, row: int, which: int, frame: bytes) -> None:
        """Send a request of Python after the current answer, and no request of the loop until `end_talk`.

        A notice "heard" has the response, a frame without its size.
        """

    def end_talk(self, row: int, which: int) -> None:
        """Let the loop send its own requests, at the start or after `say`."""

    def refuse(self, row: int, which: int, why: str) -> None:
        """Close a connection that the controller refuses. The notice is "refused" after three in a row."""

    def close(self, row: int, which: int) -> None:
        """Close a connection at once, as a killed process does. No notice follows."""

    def beat(
        self,
        row: int,
        epoch: int,
        due_ns: int,
        interval_ns: int,
        *,
        want_shut_down: bool = False,
    ) -> None:
        """Send heartbeats with this broker epoch: the first at `due_ns`, the others `interval_ns` after an answer."""

    def rest(self, row: int) -> None:
        """Stop heartbeats; the connection stays."""

    def set_heartbeat(self, row: int, heartbeat: Frame) -> None:
        """Set the frame of all later heartbeats."""

    def fetch(self, row: int, fetches: bool, *, offset: int | None = None, last_epoch: int = 0) -> None:
        """Begin or stop to fetch, from `offset` if given; `last_epoch`: the epoch of the record before `offset`."""

    def set_leader_epoch(self, leader_epoch: int) -> None:
        """Set the epoch of the quorum's leader for the fetches of all brokers."""

    def seek_tape(self, offset: int) -> None:
        """Set the offset of the next batch that `drain` returns."""

    def keep_arrivals(self, keeps: bool) -> None:
        """Set whether `drain` returns arrivals: the times at which brokers have read newly committed records."""

    def drain(self) -> tuple[list[tuple[int, int, str, int, bytes]], bytes, bytes, bytes]:
        """The events since the last call: notices, bytes of new batches, batches (six int64 each), arrivals (three).

        A notice: row, connection, kind, time, detail. A batch: base offset, last offset, number of records, bytes,
        append time in ms, time of its first arrival. An arrival: row, end of the broker's committed records, time.
        """

    def counters(self) -> list[tuple[str, int]]:
        """Counts of events by name."""

    def buffered_bytes(self) -> int:
        """Bytes allocated for incomplete answers of all connections."""

    def histograms(self) -> tuple[bytes, bytes]:
        """Heartbeats since the last call, as int64 counts: due time to answer, and due time to sending by this loop.
        The first includes due heartbeats that were not sent because an answer or a connection was missing.
        """

    def position(self, row: int) -> tuple[int, int, int, int]:
        """Offset to fetch next, epoch of the record before, high watermark, end of the broker's committed records."""

    def heartbeat_sent(self, row: int) -> int:
        """When that broker sent its last heartbeat; 0 before the first heartbeat."""

class Receivers:
    """Hollow brokers of ZooKeeper mode: they listen, receive control requests and answer them, without Python.

    Call `run` in a thread of its own; all other methods may be called meanwhile. Times are nanoseconds of
    `time.monotonic_ns()`. `row` is a broker's index in the order of `listen`; IndexError for others.
    """

    def __new__(
        cls,
        *,
        frame_bytes: int,
        layouts: list[tuple[int, int, bool, str, list[tuple[str, int]]]],
        constants: list[tuple[int, int, bytes]],
    ) -> Receivers:
        """`frame_bytes` bounds a frame. ValueError for an invalid layout.

        A layout: API key, version, whether the body has `is_kraft_controller`, the list in the answer ("nothing",
        "partitions" or "topics"), and the steps that read the body after its broker epoch. A constant: API key,
        version, and the bytes that answer each request of that kind.
        """

    def run(self) -> None:
        """Run until `stop`, without the GIL; then end all connections."""

    def stop(self) -> None:
        """End `run` for good."""

    def fileno(self) -> int:
        """A descriptor that is readable while `drain` has bodies to return."""

    def listen(self) -> tuple[int, int]:
        """Add a broker that listens on the loopback interface; returns its row and port. OSError."""

    def live(self, row: int, epoch: int) -> None:
        """Set the broker's epoch. The broker refuses requests with an older broker epoch (KIP-380)."""

    def keep(self, row: int, keys: list[int]) -> None:
        """Set the API keys of the requests to this broker whose bodies `drain` returns from now on."""

    def drain(self) -> tuple[bytes, list[tuple[int, int, int, bytes]], list[tuple[int, str]]]:
        """The events since the last call: arrivals (five int64 each), kept bodies, faults.

        An arrival is an accepted request: row, time of its last byte, API key, number of partitions, size of its frame.
        A body: row, API key, version, bytes. A fault: row, and why a connection ended or was not accepted.
        """
