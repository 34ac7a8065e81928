"""Commit latency and throughput of three kcore voters beside three of Kafka's own raft nodes, one after the other."""

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kcore.hollow.raft_nodes import KafkaRaftNodes, KcoreRaftNodes, Load, Measured, RaftNodes

KAFKA: Final = "kafka-"
KCORE: Final = "kcore"
HEADER: Final = ("system", "linger", "wanted", "MB/s", "p75 ms", "p99 ms", "p99.9 ms", "CPU")


class Row(NamedTuple):
    """One system under one load."""

    system: str
    load: Load
    measured: Measured

    def cells(self) -> tuple[str, ...]:
        """As `HEADER` names them."""
        load, measured = self.load, self.measured
        linger = "default" if load.linger_ms is None else f"{load.linger_ms} ms"
        times = (f"{each:,.1f}" for each in measured[1:4])
        wanted = f"{load.rate:,}/s x {load.record_bytes} B"
        return (self.system, linger, wanted, f"{measured.bytes_per_s / 1e6:.2f}", *times, f"{measured.cpu_s_per_s:.2f}")

    def as_json(self) -> str:
        """One line."""
        return json.dumps({"system": self.system, **self.load._asdict(), **self.measured._asdict()})


def nodes_of(system: str, load: Load) -> RaftNodes:
    """By name: kcore, kafka-3.9.1, kafka-4.3.1."""
    return KcoreRaftNodes(load) if system == KCORE else KafkaRaftNodes(load, system.removeprefix(KAFKA))


def run(systems: Sequence[str], loads: Sequence[Load], warm_up_s: float, seconds: float) -> Iterator[Row]:
    """A row as soon as it is measured. TargetError if a process ends, or commits nothing."""
    for load in loads:
        for system in systems:
            with nodes_of(system, load) as nodes:
                yield Row(system, load, nodes.measure(warm_up_s, seconds))
