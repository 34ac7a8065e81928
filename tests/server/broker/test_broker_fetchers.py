"""The tasks that fetch from leaders: after any error the next try follows."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import DisconnectedError
from kcore.metadata.table.broker_table import Endpoint
from kcore.schema.fetch import FetchRequest
from kcore.server.broker.fetchers import BrokerFetchers
from net.loops import story, until

LEADER = 7


class Fetcher:
    """A machine's, that always has something to ask."""

    def __init__(self) -> None:
        self.failures = self.answers = 0

    def failed(self, now_ms: int) -> None:
        self.failures += 1

    def answered(self, answer: Any, now_ms: int) -> None:
        self.answers += 1

    def next_request(self, now_ms: int) -> Any:
        return SimpleNamespace(request=FetchRequest(), version=17, fitted=lambda version: FetchRequest())


class Leader:
    """The dialer, and the leader behind it, whose newest version of Fetch is 12. It answers unless it `fails`."""

    def __init__(self) -> None:
        self.fails = False
        self.opened = self.aborted = 0
        self.sent_versions: set[int] = set()  # Versions of the requests.
        self.versions = SimpleNamespace(choose=lambda request: 12)

    async def connect(self, where: Endpoint, client_id: str) -> Any:
        self.opened += 1
        return self

    async def renew(self, connection: Any) -> None:
        """No session ends here."""

    def abort(self) -> None:
        self.aborted += 1

    async def send(self, request: FetchRequest, version: int) -> None:
        await asyncio.sleep(0)
        self.sent_versions.add(version)
        if self.fails:
            raise DisconnectedError("it failed")


def fetchers(endpoint: Any, leader: Leader | None = None) -> tuple[Fetcher, BrokerFetchers]:
    fetcher = Fetcher()
    config = SimpleNamespace(replica_fetch_backoff_ms=1)
    manager: Any = SimpleNamespace(broker_id=1, config=config, fetchers={LEADER: fetcher})
    dialer: Any = leader
    return fetcher, BrokerFetchers(manager, endpoint, lambda: 0, lambda: None, dialer)


def somewhere(leader_id: int) -> Endpoint:
    return Endpoint(1, "localhost", "PLAINTEXT", 0)


@pytest.mark.parametrize(("host", "port"), [("a" * 64, 9092), ("nul\0", 9092), ("127.0.0.1", 65_536)])
@story
async def test_an_invalid_address_of_a_leader_is_retried(
    host: str, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """UpdateMetadata may have an invalid address: it is retried, and logged once."""
    caplog.set_level(logging.INFO)
    fetcher, running = fetchers(lambda leader_id: Endpoint(port, host, "PLAINTEXT", 0))
    running.changed(LEADER)
    await until(lambda: fetcher.failures > 5)
    [record] = caplog.records
    assert "fetching from broker 7: no connection to" in record.getMessage()
    await running.close()


@story
async def test_a_bug_of_a_fetcher_does_not_end_fetching(caplog: pytest.LogCaptureFixture) -> None:
    def endpoint(leader_id: int) -> Endpoint:
        raise ZeroDivisionError

    fetcher, running = fetchers(endpoint)
    running.changed(LEADER)
    await until(lambda: fetcher.failures > 100)
    assert 1 < len(caplog.records) < 20  # With tracebacks, at a bounded rate.
    await running.close()


@story
async def test_a_fetch_has_no_newer_version_than_its_leader() -> None:
    leader = Leader()
    fetcher, running = fetchers(somewhere, leader)
    running.changed(LEADER)
    await until(lambda: fetcher.answers > 2)
    await running.close()
    assert (leader.sent_versions, leader.opened, leader.aborted) == ({12}, 1, 1)


@story
async def test_the_connection_of_a_failed_fetch_is_closed() -> None:
    leader = Leader()
    leader.fails = True
    fetcher, running = fetchers(somewhere, leader)
    running.changed(LEADER)
    await until(lambda: fetcher.failures > 2)
    assert leader.aborted >= 2 and leader.opened - leader.aborted in (0, 1)
    await running.close()
    assert leader.opened == leader.aborted


@story
async def test_a_task_whose_leader_is_followed_no_more_closes_its_connection() -> None:
    leader = Leader()
    fetcher, running = fetchers(somewhere, leader)
    running.changed(LEADER)
    await until(lambda: fetcher.answers)
    del running._manager.fetchers[LEADER]
    await until(lambda: not running._tasks)
    assert (leader.opened, leader.aborted) == (1, 1)


@story
async def test_after_close_no_task_is_started() -> None:
    _, running = fetchers(somewhere, Leader())
    await running.close()
    running.changed(LEADER)
    assert not running._tasks
