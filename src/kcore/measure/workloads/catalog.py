"""The table of the workloads that a plan may name."""

from collections.abc import Callable
from dataclasses import dataclass

from kcore.measure.workloads import codec_workload as codec
from kcore.measure.workloads import divergence_workload as divergence
from kcore.measure.workloads import election_workload as election
from kcore.measure.workloads import fan_out_workload as fan_out
from kcore.measure.workloads import shapes_workload as shapes
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.measure import Operation
from kcore.metadata.table.partition_table import PartitionTable


@dataclass(frozen=True, slots=True)
class Workload:
    """A name, a summary, and the function that prepares its operations; the preparation is not timed."""

    name: str
    summary: str
    setup: Callable[[Cell, PartitionTable | None], list[Operation]]
    has_cluster: bool = True  # If False, a plan's keys about clusters do not apply.


def operations_of(workload: Workload) -> dict[str, list[str]]:
    """The names of a workload's operations ("group: action"), as actions by group; sets up a small cluster."""
    groups: dict[str, list[str]] = {}
    for operation in workload.setup(Cell(workload.name, 100, 3, 1, 0), None):
        group, _, action = operation.name.partition(": ")
        groups.setdefault(group, []).append(action or group)
    return groups


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("codec", "control requests to bytes and back, as columns and as objects", codec.setup),
        Workload("election", "a broker fails, is shut down, or all preferred leaders return", election.setup),
        Workload("fan-out", "decide, then the bytes of the requests to every broker", fan_out.setup),
        Workload("divergence", "end offsets for leader epochs, and where followers truncate", divergence.setup, False),
        Workload("shapes", "bytes a partition before and after KIP-380", shapes.setup),
    )
}
