"""The loop that keeps thousands of hollow brokers alive: crate `rust/hollow`."""

from typing import Final

HEARTBEATS: Final[int]
FETCHES: Final[int]
CAUGHT_UP: Final[int]
FENCED: Final[int]
SHOULD_SHUT_DOWN: Final[int]
STEP_BITS: Final[int]  # A histogram has 2**STEP_BITS steps between a power of two and the next.

Frame = tuple[bytes, list[int | None]]
"""A request, size and all, and the places of what changes in it; None for what its version lacks."""

def due_latencies(due_ns: int, interval_ns: int, answered_ns: int) -> bytes:
    """A histogram of latencies: of the request due at `due_ns`, and of each that was due until the answer came."""

class Loop:
    """Hollow brokers of one process: their heartbeats and fetches, answered without Python.

    `run` is for a thread of its own; all else may be called meanwhile. Times are nanoseconds of `time.monotonic_ns()`.
    A broker is a row, in the order of `add`; a connection is HEARTBEATS or FETCHES. IndexError for others.
    """

    def __new__(cls, *, frame_bytes: int, timeout_ns: int) -> Loop: ...
    def run(self) -> None:
        """Works until `stop`, without the GIL."""

    def stop(self) -> None:
        """Ends `run` for good."""

    def fileno(self) -> int:
        """Readable when there is something to drain."""

    def add(self, heartbeat: Frame, fetch: Frame, interval_ns: int) -> int:
        """One more broker: the frames of its requests, and the places of what changes in them; its row."""

    def connect(self, row: int, which: int, address: str) -> int:
        """Begins a connection to "address:port", and says when; a later notice tells how it ends."""

    def close(self, row: int, which: int) -> None:
        """Ends a connection at once, as a killed process does; no notice."""

    def beat(
        self,
        row: int,
        epoch: int,
        due_ns: int,
        interval_ns: int,
        *,
        want_shut_down: bool = False,
    ) -> None:
        """Heartbeats under this broker epoch from `due_ns` on, one `interval_ns` after the answer to the one before."""

    def rest(self, row: int) -> None:
        """No more heartbeats; the connection stays."""

    def set_heartbeat(self, row: int, heartbeat: Frame) -> None:
        """Another frame for the heartbeats to come."""

    def fetch(self, row: int, fetches: bool, *, offset: int | None = None, last_epoch: int = 0) -> None:
        """Fetches on, from `offset` behind a record of `last_epoch` where it is given; or no more."""

    def set_leader_epoch(self, leader_epoch: int) -> None:
        """The epoch of the quorum's leader, for the fetches of all brokers."""

    def seek_tape(self, offset: int) -> None:
        """Where the bytes of new batches go on."""

    def keep_arrivals(self, keeps: bool) -> None:
        """Whether arrivals are kept."""

    def drain(self) -> tuple[list[tuple[int, int, str, int, bytes]], bytes, bytes, bytes]:
        """What has happened since the last call: notices, bytes of new batches, six int64 a batch, three an arrival.

        A notice: row, connection, kind, time, detail. A batch: base offset, last offset, records, bytes, append time in
        ms, when it first came. An arrival: row, the end of what the broker knows to be committed, when.
        """

    def counters(self) -> list[tuple[str, int]]:
        """How often each thing has happened."""

    def buffered_bytes(self) -> int:
        """What connections hold of answers that are not whole, of all brokers together."""

    def histograms(self) -> tuple[bytes, bytes]:
        """Since the last call, int64 counts: latency of heartbeats from when they were due, and our own lag.

        Heartbeats that were due and not sent, because an answer or a connection was missing, count like those sent.
        """

    def position(self, row: int) -> tuple[int, int, int, int]:
        """Offset to fetch next, epoch before it, high watermark, end of what the broker knows to be committed."""

    def heartbeat_sent(self, row: int) -> int:
        """When the last heartbeat of that broker was sent; 0 before the first one."""

class Receivers:
    """Hollow brokers of ZooKeeper mode: they listen, take control requests and answer them, without Python.

    `run` is for a thread of its own; all else may be called meanwhile. Times are nanoseconds of `time.monotonic_ns()`.
    A broker is a row, in the order of `listen`; IndexError for others.
    """

    def __new__(
        cls,
        *,
        frame_bytes: int,
        layouts: list[tuple[int, int, bool, str, list[tuple[str, int]]]],
        constants: list[tuple[int, int, bytes]],
    ) -> Receivers:
        """A frame has so many bytes at most. ValueError for a layout that is none.

        A layout: API key, version, whether the head has `is_kraft_controller`, what the answer lists ("nothing",
        "partitions" or "topics"), and the steps by which the body is read behind its head. A constant: API key,
        version, and the body that answers it.
        """

    def run(self) -> None:
        """Works until `stop`, without the GIL; then all connections end."""

    def stop(self) -> None:
        """Ends `run` for good."""

    def fileno(self) -> int:
        """Readable when there are bodies to drain."""

    def listen(self) -> tuple[int, int]:
        """One more broker, which listens on the loopback interface: its row and port. OSError."""

    def live(self, row: int, epoch: int) -> None:
        """A new life under this epoch: what is meant for older ones is refused (KIP-380)."""

    def keep(self, row: int, keys: list[int]) -> None:
        """Of these API keys the bodies are kept that come to the broker from now on."""

    def drain(self) -> tuple[bytes, list[tuple[int, int, int, bytes]], list[tuple[int, str]]]:
        """What has come since the last call: five int64 an arrival, kept bodies, faults.

        An arrival is a request that was taken: row, when the whole of it was here, API key, partitions, bytes. A body:
        row, API key, version, bytes. A fault: row, and why a connection ended.
        """
