"""The fetchers of a broker: a task and a connection for each leader that it follows."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kcore.broker.replicas.fetcher import ReplicaFetcher
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import NetworkError, UnsupportedVersionError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connection import Connection
from kcore.net.limits.bounded_log import BoundedLog
from kcore.server.broker.broker_connections import Dialer, NodeConnection

logger = logging.getLogger(__name__)


class BrokerFetchers:
    """The fetch tasks by leader id. A task ends when no partition follows its leader."""

    def __init__(
        self,
        manager: ReplicaManager,
        endpoint: Callable[[int], Endpoint | None],
        now_ms: Callable[[], int],
        perform: Callable[[], None],
        dialer: Dialer | None = None,
    ) -> None:
        """`endpoint` returns the inter-broker endpoint of a broker. `perform` performs the replicas' outputs.

        `dialer`: plaintext by default.
        """
        self._dialer = dialer or Dialer()
        self._manager, self._endpoint, self._now_ms, self._perform = manager, endpoint, now_ms, perform
        self._changes: dict[int, asyncio.Event] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._faults = BoundedLog(logger)
        self._is_closed = False

    def changed(self, leader_id: int) -> None:
        """Wakes or starts the task of a leader after its followed partitions changed."""
        self._changes.setdefault(leader_id, asyncio.Event()).set()
        if leader_id not in self._tasks and leader_id in self._manager.fetchers and not self._is_closed:
            self._tasks[leader_id] = asyncio.create_task(self._run(leader_id), name=f"fetching from {leader_id}")

    async def close(self) -> None:
        """Stops all tasks; later changes start no new ones."""
        self._is_closed = True
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, leader_id: int) -> None:
        client_id = f"broker-{self._manager.broker_id}-fetcher-0"
        endpoint, absent = partial(self._endpoint, leader_id), f"broker {leader_id} is not alive"
        link = NodeConnection(self._dialer, client_id, endpoint, absent)
        last_error = ""
        try:
            while (fetcher := self._manager.fetchers.get(leader_id)) is not None:
                try:
                    await self._step(fetcher, leader_id, await link.ready())
                    last_error = ""
                    continue
                except (NetworkError, UnsupportedVersionError) as error:
                    if str(error) != last_error:  # Log each reason once.
                        last_error = str(error)
                        logger.info("fetching from broker %s: %s; retrying", leader_id, last_error)
                except Exception:  # A bug of kcore; fetching is retried.
                    self._faults.exception("fetching from broker %s failed", leader_id)
                link.close()
                fetcher.failed(self._now_ms())
                await self._wait(leader_id, self._manager.config.replica_fetch_backoff_ms)
        finally:
            link.close()
            self._tasks.pop(leader_id, None)

    async def _step(self, fetcher: ReplicaFetcher, leader_id: int, connection: Connection) -> None:
        """Sends one request and handles its response. If there is none to send, waits until one may be due."""
        following = fetcher.next_request(self._now_ms())
        self._perform()
        if following is None:
            await self._wait(leader_id, fetcher.wait_ms(self._now_ms()))
            return
        assert connection.versions is not None
        version = min(following.version, connection.versions.choose(type(following.request)))
        answer = await connection.send(following.fitted(version), version)
        fetcher.answered(answer, self._now_ms())
        self._perform()

    async def _wait(self, leader_id: int, most_ms: int | None) -> None:
        changed = self._changes.setdefault(leader_id, asyncio.Event())
        changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if most_ms is None else max(most_ms, 1) / 1000):
                await changed.wait()
