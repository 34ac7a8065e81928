"""How long a failed broker takes the controller: to decide, to replay, to build the requests and to encode them.

Run with `pytest bench/test_controller.py --benchmark-enable`; take ratios, not absolutes, on a shared machine.
`extra_info` has microseconds a request.
"""

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.controller.zk.decision import Decision
from kcore.controller.zk.events import BrokerFailed
from kcore.controller.zk.zk_controller import ZkController
from kcore.measure.workloads.generate import generate
from kcore.wire.fanout import Fanout

PARTITIONS, TOPICS = 100_000, 1_000


class Case:
    """A controller as it stands before the broker fails, and one as it stands after."""

    def __init__(self, brokers: int) -> None:
        self.event = BrokerFailed((brokers // 2,))
        self.before, self.after = (
            ZkController(1, 1, generate(PARTITIONS, brokers, 3, TOPICS, seed=1)) for _ in range(2)
        )
        self.decision = self.decide()
        self.replay()

    def decide(self) -> Decision:
        return self.before.on_broker_failed(self.event)

    def replay(self) -> None:
        """Again and again: after the first time nothing changes any more."""
        self.after.replay(self.decision)

    def requests(self) -> int:
        return len(self.after.requests(self.decision))

    def encoded_requests(self) -> list[Fanout]:
        return [request.fanout() for request in self.after.requests(self.decision)]


@pytest.fixture(scope="module", params=[100, 1_000], ids=lambda brokers: f"{brokers}-brokers")
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def measure(benchmark: BenchmarkFixture, case: Case, run: Callable[[], object]) -> None:
    benchmark.pedantic(run, rounds=20, warmup_rounds=2)
    if benchmark.stats:
        benchmark.extra_info["us a request"] = round(benchmark.stats["min"] * 1e6 / case.requests(), 1)


def test_decide(benchmark: BenchmarkFixture, case: Case) -> None:
    measure(benchmark, case, case.decide)


def test_replay(benchmark: BenchmarkFixture, case: Case) -> None:
    measure(benchmark, case, case.replay)


def test_requests(benchmark: BenchmarkFixture, case: Case) -> None:
    measure(benchmark, case, case.requests)


def test_encoded_requests(benchmark: BenchmarkFixture, case: Case) -> None:
    measure(benchmark, case, case.encoded_requests)
