"""The tasks that fetch from leaders: after any error the next try follows."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.metadata.table.broker_table import Endpoint
from kcore.schema.fetch import FetchRequest
from kcore.server.broker.fetchers import BrokerFetchers
from net.loops import story, until

LEADER = 7


class Fetcher:
    """A machine's, that always has something to ask."""

    def __init__(self) -> None:
        self.failures = 0

    def failed(self, now_ms: int) -> None:
        self.failures += 1

    def next_request(self, now_ms: int) -> Any:
        return SimpleNamespace(request=FetchRequest(), version=17, fitted=lambda version: FetchRequest())


def fetchers(endpoint: Any) -> tuple[Fetcher, BrokerFetchers]:
    fetcher = Fetcher()
    config = SimpleNamespace(replica_fetch_backoff_ms=1)
    manager: Any = SimpleNamespace(broker_id=1, config=config, fetchers={LEADER: fetcher})
    return fetcher, BrokerFetchers(manager, endpoint, lambda: 0, lambda: None)


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
