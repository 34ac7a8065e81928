"""Polls a controller's quorum: sends DescribeQuorum, reads the log and the page of metrics."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final, NamedTuple

from kcore.errors import KcoreError, NetworkError, RequestTimeoutError
from kcore.measure.watch import frame as frames
from kcore.measure.watch.frame import Frame, Measured, Partitions, Rates, Samples
from kcore.measure.watch.metadata_log_reader import MetadataLogReader, Seen
from kcore.net.security.client_security import Security
from kcore.raft.membership.replicas import Address
from kcore.server.quorum_node.describe import QuorumDescription, describe_quorum

DESCRIBE_S: Final = 3.0  # The least time-out of DescribeQuorum, with retries; then the frame shows the problem.
AGAIN_S: Final = 0.5  # The pause before the reader connects again.


class MetricsSource(NamedTuple):
    """The URL of a leader's metrics page, and the function that reads it."""

    url_of: Callable[[Address], str]
    scrape: Callable[[str], Samples]  # Takes long, and must not run in the event loop.
    is_guessed: bool  # The URL is a guess, so a missing page is no problem.


class Watcher:
    """Watches a quorum while `watching` is active; `frame` then has the latest state."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        interval_s: float,
        metrics: MetricsSource | None = None,
        security: Callable[[], Security] | None = None,
    ) -> None:
        """`security`: TLS and SASL settings of each connection to a controller."""
        self._security = security
        self._bootstrap, self._interval_s, self._metrics = list(bootstrap), interval_s, metrics
        self.reader = MetadataLogReader(security)
        self.refused: KcoreError | None = None  # Why an address is not a controller's; set before the first answer.
        self._described: QuorumDescription | None = None
        self._described_s = float("-inf")
        self._leader_known = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._problems: dict[str, str] = {}  # By source.
        self._page: Measured | None = None
        self.has_rates = True  # False until the page of metrics was read twice, or could not be read.
        self._shown: tuple[Seen, float] | None = None  # The counts of records in the last frame, and its time.
        self._counted: tuple[int, Partitions, list[frames.Broker]] | None = None  # By the log's offset.

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Polls the sources while the context is open."""
        work = [self._keep_describing(), self._keep_following()]
        work += [] if self._metrics is None else [self._keep_scraping(self._metrics)]
        self._tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_complete(self) -> bool:
        """True if the quorum has answered, and its log was read to the end or cannot be read."""
        return self._described is not None and (self.reader.is_current or "log" in self._problems)

    @property
    def has_something_to_show(self) -> bool:
        """True if the quorum has answered once, or a source has a problem."""
        return self._described is not None or bool(self._problems)

    # The sources.

    async def _keep_describing(self) -> None:
        while True:
            known = [] if self._described is None else _addresses(self._described)
            try:
                found = await describe_quorum(
                    list(dict.fromkeys([*known, *self._bootstrap])),
                    controllers=True,
                    timeout_s=max(DESCRIBE_S, self._interval_s),
                    random=Random(),
                    security=self._security,
                )
            except RequestTimeoutError as error:
                self._problems["quorum"] = str(error)
            except KcoreError as error:
                self._problems["quorum"] = str(error)
                self.refused = error if self._described is None else None
            else:
                self._problems.pop("quorum", None)
                self._described, self._described_s = found, time.monotonic()
                self._leader_known.set()
            await asyncio.sleep(self._interval_s)

    async def _keep_following(self) -> None:
        """Follows the log of the leader in the last description."""
        while True:
            await self._leader_known.wait()
            described = self._described
            assert described is not None and described.leader is not None
            try:
                epoch = described.partition.leader_epoch
                await self.reader.follow(described.leader, epoch, described.cluster_id)
            except KcoreError as error:
                self._problems["log"] = f"the metadata log is not read: {error}"
            await asyncio.sleep(AGAIN_S)

    async def _keep_scraping(self, source: MetricsSource) -> None:
        before: Samples | None = None
        before_s = 0.0
        self.has_rates = False
        while True:
            await self._leader_known.wait()
            assert self._described is not None and self._described.leader is not None
            url = source.url_of(self._described.leader)
            try:
                now = await asyncio.to_thread(source.scrape, url)
            except NetworkError as error:
                self._page, before, self.has_rates = None, None, True
                if not source.is_guessed:
                    self._problems["metrics"] = str(error)
            else:
                now_s = time.monotonic()
                self._problems.pop("metrics", None)
                self._page, self.has_rates = frames.measured(url, now, before, now_s - before_s), before is not None
                before, before_s = now, now_s
            await asyncio.sleep(self._interval_s)

    # The frame.

    def frame(self) -> Frame:
        """The current state, and rates since the last call. Raises the error of a source's task."""
        for task in self._tasks:
            if task.done():
                task.result()
        now_s = time.monotonic()
        if self.reader.is_reading:
            self._problems.pop("log", None)
        made = Frame(problems=list(self._problems.values()), measured=self._page)
        if self._described is not None:
            frames.describe(made, self._described)
            made.age_s = now_s - self._described_s
        if self.reader.is_current:
            self._of_log(made, now_s)
        if newer := str(self.reader.newer):
            made.problems.append(f"the metadata log: {newer}")
        return made

    def _of_log(self, made: Frame, now_s: float) -> None:
        reader = self.reader
        made.read_up_to = reader.end_offset
        if self._counted is None or self._counted[0] != reader.end_offset:
            image = reader.image
            self._counted = reader.end_offset, frames.partitions_of(image), frames.brokers_of(image)
        _, made.partitions, made.brokers = self._counted
        seen = reader.seen
        if self._shown is not None:
            before, elapsed_s = self._shown[0], max(now_s - self._shown[1], 1e-3)
            made.rates = Rates(
                (seen.records - before.records) / elapsed_s,
                (seen.partition_changes - before.partition_changes) / elapsed_s,
                (seen.isr_changes - before.isr_changes) / elapsed_s,
            )
        self._shown = Seen(seen.records, seen.partition_changes, seen.isr_changes), now_s
        seen_s = reader.commits.average(now_s)
        made.commit_seen_ms = None if seen_s != seen_s else seen_s * frames.MS


def _addresses(described: QuorumDescription) -> list[Address]:
    """The addresses of the leader and then of the voters."""
    voters = [Address(node.listeners[0].host, node.listeners[0].port) for node in described.nodes if node.listeners]
    return [*([] if described.leader is None else [described.leader]), *voters]
