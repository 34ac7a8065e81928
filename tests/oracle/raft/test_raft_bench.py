"""`kcore bench quorum` starts three nodes of each kind, and they commit what they append."""

import pytest

from kcore.measure.processes.target import KAFKA, Target
from kcore.measure.raft_bench.nodes import Load
from kcore.measure.raft_bench.run_raft_bench import nodes_of


@pytest.mark.parametrize("system", ["kcore", KAFKA, "kafka-3.9.1"])
def test_three_nodes_commit(system: str) -> None:
    with nodes_of(Target.parse(system, own=("kcore",)), Load(2_000, 256, 0)) as nodes:
        measured = nodes.measure(20, 15)
    assert measured.bytes_per_s > 0
    assert 0 < measured.p75_ms <= measured.p99_ms <= measured.p999_ms
    assert measured.cpu_s_per_s > 0
