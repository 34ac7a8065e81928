"""Measures commit latency and throughput of three kcore voters and three Kafka raft nodes, one system at a time."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from kcore.errors import TargetError
from kcore.measure.processes.probe import build_of
from kcore.measure.processes.target import Target
from kcore.measure.raft_bench.nodes import HEAP, KafkaRaftNodes, KcoreRaftNodes, Load, Measured, RaftNodes
from kcore.measure.report.build import Build

KCORE: Final = "kcore"
HEADER: Final = ("system", "linger", "wanted", "MB/s", "p75 ms", "p99 ms", "p99.9 ms", "CPU")


class Row(NamedTuple):
    """One system under one load; `fault` says why there are no figures, empty if there are."""

    system: str
    load: Load
    measured: Measured | None
    fault: str = ""
    build: Build = Build()

    @property
    def is_kcore(self) -> bool:
        """True if the system is kcore, whatever its label."""
        return (self.build.build or self.system) == KCORE

    def cells(self) -> tuple[str, ...]:
        """The cells under the headings of `HEADER`."""
        load, measured = self.load, self.measured
        linger = "default" if load.linger_ms is None else f"{load.linger_ms} ms"
        wanted = f"{load.rate:,}/s x {load.record_bytes} B"
        if measured is None:
            return (self.system, linger, wanted, *["-"] * len(Measured._fields))
        times = (f"{each:,.1f}" for each in measured[1:4])
        return (self.system, linger, wanted, f"{measured.bytes_per_s / 1e6:.2f}", *times, f"{measured.cpu_s_per_s:.2f}")

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name: the system, the load's fields, then the figures or the fault."""
        found = {"fault": self.fault} if self.measured is None else self.measured._asdict()
        return {"system": self.system, **self.load._asdict(), **found, **self.build.as_row()}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Makes a row from a row of a result file."""
        load = Load(*(row[name] for name in Load._fields))
        figures = [row[name] for name in Measured._fields]
        return cls(
            row["system"], load, None if None in figures else Measured(*figures), row["fault"] or "", Build.of(row)
        )


def nodes_of(target: Target, load: Load) -> RaftNodes:
    """The nodes of a target."""
    return KcoreRaftNodes(load, target) if target.is_kcore else KafkaRaftNodes(load, target)


def run(
    targets: Sequence[Target], loads: Sequence[Load], warm_up_s: float, seconds: float
) -> Generator[Row, None, None]:
    """Yields each row after its measurement; a row has no figures if a process ends or commits nothing."""
    for load in loads:
        for target in targets:
            build = build_of(target, HEAP)
            try:
                with nodes_of(target, load) as nodes:
                    measured = nodes.measure(warm_up_s, seconds)
            except TargetError as error:
                yield Row(target.name, load, None, str(error), build)
            else:
                yield Row(target.name, load, measured, build=build)
