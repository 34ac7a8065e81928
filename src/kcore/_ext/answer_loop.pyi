"""A loop that answers observers' fetches, and heartbeats that change nothing, without Python (crate
`rust/answer_loop`).
"""

Progress = tuple[int, int, int, int]
"""A fetcher's end offset, time of its last fetch, the leader's end then, when it was last caught up; -1 if unknown."""
Left = tuple[int, int, bytes, bytes, str, Progress]
"""A connection that has left the loop.

Key; descriptor, the caller's from now on (-1: closed); bytes that were received and not answered; bytes of an answer
that were not sent; why ("": handed back, else closed: "eof", "reset", "idle", "aborted"); a fetcher's progress.
"""

class Loop:
    """Answers connections whose requests differ only in a few integers (`adopt_*`), without Python.

    Call `run` in a thread of its own; a call of any other method is complete when it returns. Times are nanoseconds of
    `time.monotonic_ns()`. The caller chooses keys of at least 0 and never uses one again. The loop answers no request
    that differs from the ones before or that this leader may not answer: it hands the connection back.
    """

    def __new__(cls, *, unsent_bytes: int, idle_ns: int, turn_ns_each: int) -> Loop:
        """`unsent_bytes`: of records in memory. Waiting fetches are answered no sooner than `turn_ns_each` for each
        fetch that was answered together before, in whole milliseconds, and twice that if those had waited, too.
        """

    def run(self) -> None:
        """Run until `stop`, without the GIL; then close all connections. OSError, RuntimeError."""

    def stop(self) -> None:
        """End `run` for good."""

    def fileno(self) -> int:
        """Readable if there is something to drain."""

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
        """Adopt a connection with its descriptor, also if the call fails. ValueError for a place outside its frame.

        `pattern`: the whole frame of the last request; `places`: of correlation id and current metadata offset;
        `answer`: the frame of its answer, with the place of the correlation id; `offset`: the one in that request.
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
        """Adopt a connection with its descriptor, also if the call fails. ValueError for a wrong place or template.

        `places`: of correlation id, fetch offset, last fetched epoch and high watermark, if that version has one;
        `max_bytes`: of records; `progress`: the progress that the leader has stored so far.
        """

    def hand_back(self, key: int) -> None:
        """Hand that connection back, if it is still here, even if it waits for an answer."""

    def close(self, key: int) -> None:
        """Close that connection, if it is still here."""

    def lead(self, epoch: int, epoch_start_offset: int) -> None:
        """This node leads from now on; its log is set by later calls."""

    def resign(self) -> None:
        """Hand all connections back: this node does not lead any more."""

    def set_template(
        self,
        template: int,
        head: bytes,
        correlation_place: int,
        high_watermark_place: int,
        tail: bytes,
    ) -> None:
        """Set the answer to fetches: from its size (of any value) up to the length of the records, and the bytes after
        the records. ValueError for a place outside the head.
        """

    def begin_segment(self, descriptor: int) -> None:
        """Later appends go to this file, open for reading; the loop takes its descriptor over."""

    def appended(self, position: int, length: int) -> None:
        """Add whole batches of the epoch after the last ones, at that place of the segment. ValueError for others.
        The first ones after `lead` may have any offset; no effect while this node does not lead.
        """

    def committed(self, high_watermark: int) -> None:
        """Set the high watermark; no effect if it is not new. ValueError if it is not in the log."""

    def set_log_start(self, offset: int) -> None:
        """Set where the log begins."""

    def drain(self) -> list[Left]:
        """The connections that have left since the last call and were not adopted again."""

    def drain_contacts(self) -> bytes:
        """Heartbeats since the last call as int64 triples: key, offset, time; the last heartbeat of each connection."""

    def progress(self) -> bytes:
        """All present fetchers as int64 fives: key, and its progress."""

    def counters(self) -> dict[str, int]:
        """Counts of events: fetches, heartbeats, bytes_in, bytes_out, handed_back, closed.
        Also the present numbers: connections, waiting.
        """
