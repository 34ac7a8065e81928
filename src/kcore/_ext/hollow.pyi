"""A loop that keeps thousands of hollow brokers alive (crate `rust/hollow`)."""

from typing import Final

HEARTBEATS: Final[int]
FETCHES: Final[int]
CAUGHT_UP: Final[int]
FENCED: Final[int]
SHOULD_SHUT_DOWN: Final[int]
STEP_BITS: Final[int]  # A histogram has 2**STEP_BITS steps between a power of two and the next.

Frame = tuple[bytes, list[int | None]]
"""A request's whole frame and the places of its changing fields; None for fields that its version lacks."""

def due_latencies(due_ns: int, interval_ns: int, answered_ns: int) -> bytes:
    """A histogram of latencies: of the request due at `due_ns`, and of each one due until the answer came."""

class Loop:
    """The hollow brokers of one process: their heartbeats and fetches, answered without Python.

    Call `run` in a thread of its own; all other methods may be called meanwhile. Times are nanoseconds of
    `time.monotonic_ns()`. A broker is a row, in the order of `add`; a connection is HEARTBEATS or FETCHES. IndexError
    for others.
    """

    def __new__(cls, *, frame_bytes: int, timeout_ns: int) -> Loop: ...
    def run(self) -> None:
        """Run until `stop`, without the GIL."""

    def stop(self) -> None:
        """End `run` for good."""

    def fileno(self) -> int:
        """Readable if there is something to drain."""

    def add(self, heartbeat: Frame, fetch: Frame, interval_ns: int) -> int:
        """Add a broker: the frames of its requests, and the places of their changing fields; returns its row."""

    def connect(self, row: int, which: int, address: str) -> int:
        """Begin a connection to "address:port" and return the time; a later notice reports the result."""

    def close(self, row: int, which: int) -> None:
        """End a connection at once, as a killed process does; without a notice."""

    def beat(
        self,
        row: int,
        epoch: int,
        due_ns: int,
        interval_ns: int,
        *,
        want_shut_down: bool = False,
    ) -> None:
        """Send heartbeats under this broker epoch from `due_ns` on, one `interval_ns` after the answer to the one
        before.
        """

    def rest(self, row: int) -> None:
        """Stop heartbeats; the connection stays."""

    def set_heartbeat(self, row: int, heartbeat: Frame) -> None:
        """Set the frame of all later heartbeats."""

    def fetch(self, row: int, fetches: bool, *, offset: int | None = None, last_epoch: int = 0) -> None:
        """Begin or stop to fetch. `offset`: where to fetch from, with the epoch of the record before it."""

    def set_leader_epoch(self, leader_epoch: int) -> None:
        """Set the epoch of the quorum's leader for the fetches of all brokers."""

    def seek_tape(self, offset: int) -> None:
        """Set where the bytes of new batches continue."""

    def keep_arrivals(self, keeps: bool) -> None:
        """Set whether arrivals are kept."""

    def drain(self) -> tuple[list[tuple[int, int, str, int, bytes]], bytes, bytes, bytes]:
        """The events since the last call: notices, bytes of new batches, six int64 a batch, three an arrival.

        A notice: row, connection, kind, time, detail. A batch: base offset, last offset, records, bytes, append time
        in ms, time of its first arrival. An arrival: row, end of the broker's committed records, time.
        """

    def counters(self) -> list[tuple[str, int]]:
        """Counts of events by name."""

    def buffered_bytes(self) -> int:
        """Bytes of incomplete answers in all connections."""

    def histograms(self) -> tuple[bytes, bytes]:
        """Histograms since the last call as int64 counts: latency of heartbeats from their due times, and our own lag.
        Due heartbeats that were not sent, because an answer or a connection was missing, count like sent ones.
        """

    def position(self, row: int) -> tuple[int, int, int, int]:
        """Offset to fetch next, epoch before it, high watermark, end of the broker's committed records."""

    def heartbeat_sent(self, row: int) -> int:
        """When that broker sent its last heartbeat; 0 before the first one."""

class Receivers:
    """Hollow brokers of ZooKeeper mode: they listen, receive control requests and answer them, without Python.

    Call `run` in a thread of its own; all other methods may be called meanwhile. Times are nanoseconds of
    `time.monotonic_ns()`. A broker is a row, in the order of `listen`; IndexError for others.
    """

    def __new__(
        cls,
        *,
        frame_bytes: int,
        layouts: list[tuple[int, int, bool, str, list[tuple[str, int]]]],
        constants: list[tuple[int, int, bytes]],
    ) -> Receivers:
        """`max_frame_bytes` bounds a frame. ValueError for an invalid layout.

        A layout: API key, version, whether the head has `is_kraft_controller`, the lists of the answer ("nothing",
        "partitions" or "topics"), and the steps that read the body after its head. A constant: API key, version, and
        the body that answers it.
        """

    def run(self) -> None:
        """Run until `stop`, without the GIL; then end all connections."""

    def stop(self) -> None:
        """End `run` for good."""

    def fileno(self) -> int:
        """Readable if there are bodies to drain."""

    def listen(self) -> tuple[int, int]:
        """Add a broker that listens on the loopback interface; returns its row and port. OSError."""

    def live(self, row: int, epoch: int) -> None:
        """Set the broker's epoch: requests for older epochs are refused (KIP-380)."""

    def keep(self, row: int, keys: list[int]) -> None:
        """Set the API keys whose bodies are kept for the broker from now on."""

    def drain(self) -> tuple[bytes, list[tuple[int, int, int, bytes]], list[tuple[int, str]]]:
        """The events since the last call: five int64 an arrival, kept bodies, faults.

        An arrival is an accepted request: row, time of its last byte, API key, partitions, bytes. A body: row, API
        key, version, bytes. A fault: row, and why a connection ended.
        """
