"""A loop that answers observers' fetches, and heartbeats that change nothing, without Python (crate
`rust/answer_loop`).
"""

Progress = tuple[int, int, int, int]
"""A fetcher's end offset, time of its last fetch, the leader's end offset then, when it was last caught up; or -1."""
Left = tuple[int, int, bytes, bytes, str, Progress]
"""A connection that has left the loop.

Its key; its descriptor, which the caller now owns (-1: closed); the bytes received and not answered; the bytes of an
answer not yet sent; the reason; the fetcher's progress. The reason is "" if the connection is handed back. A closed
connection has "eof", "reset", "idle" or "aborted".
"""

class Loop:
    """Answers connections whose requests differ only in a few integers (`adopt_*`), without Python.

    Call `run` in a thread of its own; a call of any other method is complete when it returns. Times are nanoseconds of
    `time.monotonic_ns()`. The caller chooses keys of at least 0 and never reuses a key. If a request differs from the
    earlier ones, or this leader may not answer the request, the loop hands the connection back.
    """

    def __new__(cls, *, unsent_bytes: int, idle_ns: int, turn_ns_each: int) -> Loop:
        """`unsent_bytes`: limit of records in memory; `idle_ns`: a connection that is silent so long is closed. After
        N waiting fetches were answered together, the next ones wait N * `turn_ns_each`, in whole ms, or twice that.
        """

    def run(self) -> None:
        """Run until `stop`, without the GIL; then close all connections. OSError; RuntimeError if it runs already."""

    def stop(self) -> None:
        """End `run` for good."""

    def fileno(self) -> int:
        """A descriptor that is readable while `drain` has connections to return."""

    def adopt_heartbeats(
        self,
        key: int,
        descriptor: int,
        pattern: bytes,
        places: tuple[int, int],
        answer: bytes,
        answer_place: int,
        offset: int,
    ) -> None:
        """Adopt a connection and own its descriptor, even if the call fails. ValueError for a place outside its frame.

        `pattern`: the whole frame of the last request; `places`: byte positions of its correlation id and its current
        metadata offset; `offset`: that metadata offset. `answer`: the frame of the answer, with its correlation id at
        `answer_place`.
        """

    def adopt_fetches(
        self,
        key: int,
        descriptor: int,
        pattern: bytes,
        places: tuple[int, int, int, int | None],
        template: int,
        max_bytes: int,
        max_wait_ns: int,
        progress: Progress,
    ) -> None:
        """Adopt a connection and own its descriptor, even if the call fails. ValueError for a wrong place or template.

        `places`: byte positions of correlation id, fetch offset, last fetched epoch, and high watermark (None if the
        version has none); `max_bytes`: limit of records; `progress`: the progress that the leader has stored so far.
        """

    def hand_back(self, key: int) -> None:
        """Hand the connection back, even if it waits for an answer; no effect if the loop no longer has it."""

    def close(self, key: int) -> None:
        """Close the connection; no effect if the loop no longer has it."""

    def lead(self, epoch: int, epoch_start_offset: int) -> None:
        """Begin an epoch that this node leads; later calls add the log."""

    def resign(self) -> None:
        """Hand all connections back, since this node no longer leads."""

    def set_template(
        self,
        template: int,
        head: bytes,
        correlation_place: int,
        high_watermark_place: int,
        tail: bytes,
    ) -> None:
        """Set the answer to fetches. `head`: its bytes before the records' length, with a size field of any value;
        `tail`: its bytes after the records. ValueError for a place outside the head.
        """

    def begin_segment(self, descriptor: int) -> None:
        """Set the file of later appends, open for reading; the loop owns its descriptor from now on."""

    def appended(self, position: int, length: int) -> None:
        """Add whole batches of this epoch, at byte `position` of the segment. ValueError if they do not follow the
        last ones; the first after `lead` may have any offset. No effect while this node does not lead.
        """

    def committed(self, high_watermark: int) -> None:
        """Set the high watermark; no effect if it is not higher. ValueError if it is beyond the log's end."""

    def set_log_start(self, offset: int) -> None:
        """Set the log start offset."""

    def drain(self) -> list[Left]:
        """The connections that have left since the last call and were not adopted again."""

    def drain_contacts(self) -> bytes:
        """Heartbeats since the last call as int64 triples: key, offset, time; the last heartbeat of each connection."""

    def progress(self) -> bytes:
        """Five int64 for each connected fetcher: its key and its progress."""

    def counters(self) -> dict[str, int]:
        """Counts of events: fetches, heartbeats, bytes_in, bytes_out, handed_back, closed.
        Also the numbers of connections and of waiting fetches now: connections, waiting.
        """
