"""The answer loop: it answers observers' fetches, and heartbeats that change nothing (crate `rust/answer_loop`)."""

Progress = tuple[int, int, int, int]
"""Of a fetcher: end offset, time of the last fetch, leader's end then, when it was last caught up; -1 if unknown."""
Left = tuple[int, int, bytes, bytes, str, Progress]
"""A connection that has left the loop.

Key; descriptor, the caller's from now on (-1: closed); bytes that were received and not answered; bytes of an answer
that were not sent; why ("": handed back, else closed: "eof", "reset", "idle", "aborted"); a fetcher's progress.
"""

class Loop:
    """Connections whose requests are all alike but for a few integers (`adopt_*`), answered without Python.

    `run` is for a thread of its own; all else may be called meanwhile, and has been done when it returns. Times are
    nanoseconds of `time.monotonic_ns()`. Keys are the caller's: at least 0, and never used again. A request that is not
    like the ones before, or that this leader may not answer, is never answered here: its connection is handed back.
    """

    def __new__(cls, *, unsent_bytes: int, idle_ns: int, turn_ns_each: int) -> Loop:
        """`unsent_bytes`: of records in memory. Waiting fetches are answered no sooner than `turn_ns_each` for each of
        those that were answered together before them, in whole milliseconds, and twice that where they waited, too."""

    def run(self) -> None:
        """Works until `stop`, without the GIL; then all connections are closed. OSError, RuntimeError."""

    def stop(self) -> None:
        """Ends `run` for good."""

    def fileno(self) -> int:
        """Readable when there is something to drain."""

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
        """Takes over a connection, and its descriptor in any case. ValueError for a place that is not in its frame.

        `pattern`: the last request's frame, size and all; `places`: of correlation id and current metadata offset;
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
        """Takes over a connection, and its descriptor in any case. ValueError for a place or a template that is not.

        `places`: of correlation id, fetch offset, last fetched epoch and high watermark, where that version has one;
        `max_bytes`: of records; `progress`: as the leader knows it so far.
        """

    def hand_back(self, key: int) -> None:
        """Hands that connection back, if it is still here, whatever it waits for."""

    def close(self, key: int) -> None:
        """Closes that connection, if it is still here."""

    def lead(self, epoch: int, epoch_start_offset: int) -> None:
        """This node leads from now on; nothing of its log is known yet."""

    def resign(self) -> None:
        """Hands all connections back: this node does not lead any more."""

    def set_template(
        self,
        template: int,
        head: bytes,
        correlation_place: int,
        high_watermark_place: int,
        tail: bytes,
    ) -> None:
        """The answer to fetches from now on: from its size (of any value) up to the length of the records, and what is
        behind the records. ValueError for a place that is not in the head."""

    def begin_segment(self, descriptor: int) -> None:
        """What is appended from now on is in this file, open for reading; the loop takes its descriptor over."""

    def appended(self, position: int, length: int) -> None:
        """Whole batches of the epoch, behind the last ones, at that place of the segment. ValueError for others.

        The first ones after `lead` may be any of the epoch; without effect while this node does not lead.
        """

    def committed(self, high_watermark: int) -> None:
        """The high watermark; without effect if it was known. ValueError if it is not in the log."""

    def set_log_start(self, offset: int) -> None:
        """Where the log begins from now on."""

    def drain(self) -> list[Left]:
        """Connections that have left since the last call, and were not adopted anew."""

    def drain_contacts(self) -> bytes:
        """Of heartbeats since the last call, int64 triples: key, offset, time; the last one of each connection."""

    def progress(self) -> bytes:
        """Of all fetchers that are here, int64 fives: key, and its progress."""

    def counters(self) -> dict[str, int]:
        """How often each thing has happened: fetches, heartbeats, bytes_in, bytes_out, handed_back, closed.

        And how many there are now: connections, waiting.
        """
