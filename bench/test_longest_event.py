"""How long events hold the loop of a controller of a million partitions, under storms and at its start.

Run with `pytest bench/test_longest_event.py --benchmark-enable`. `extra_info`: by kind of event, the longest in ms. The
CPU time of the loop's thread counts, which a busy machine does not lengthen; a controller of its own process counts the
wall clock.
"""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kcore.collector import rare_collections
from kcore.net.durations import Duration
from kcore.server.quorum_node import log_flusher, quorum_runtime, snapshot_writing
from server.kraft.test_longest_event import Load, measured

WHOLE = Load(partitions=1_000_000, many=50_000)
ONCE = Load(partitions=20_000, many=1_000)  # Without --benchmark-enable.


def test_a_million_partitions(benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=time.thread_time, monotonic_ns=time.monotonic_ns, time_ns=time.time_ns)
    for module in (log_flusher, quorum_runtime, snapshot_writing):
        monkeypatch.setattr(module, "time", clock)

    def run() -> dict[str, Duration]:
        with rare_collections():
            return asyncio.run(measured(tmp_path, WHOLE if benchmark.enabled else ONCE))

    found = benchmark.pedantic(run, rounds=1, iterations=1)
    benchmark.extra_info["longest_ms"] = {kind: round(each.longest_s * 1e3, 1) for kind, each in found.items()}
