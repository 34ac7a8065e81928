"""`kcore whatif --partitions --brokers`: the question about a cluster that has grown, or about a part of it."""

from kcore.constants import MAX_BROKERS
from kcore.errors import PlanError
from kcore.measure.bench.plan_rules import MOST_PARTITIONS
from kcore.measure.report.units import parse_counts
from kcore.measure.workloads.scaling import scaled_cluster
from kcore.whatif import WhatIf


def at_size(asked: WhatIf, partitions: str | None, brokers: str | None, seed: int) -> WhatIf:
    """The question at this size; the cluster's own size for None.

    PlanError for a text that is no count, and for a cluster without partitions. TableError for too few brokers.
    """
    if partitions is None and brokers is None:
        return asked
    table = asked.cluster.table
    if not table.partition_count:
        raise PlanError("--partitions and --brokers: the cluster has no partitions to scale")
    wanted = table.partition_count if partitions is None else _count("partitions", partitions, MOST_PARTITIONS)
    members = len(table.brokers) if brokers is None else _count("brokers", brokers, MAX_BROKERS)
    return WhatIf(scaled_cluster(asked.cluster, wanted, members, seed))


def _count(option: str, text: str, most: int) -> int:
    try:
        [count] = parse_counts(text)
    except ValueError:
        raise PlanError(f"--{option}: {text!r:.60} is no count such as 300 or 1M") from None
    if not 1 <= count <= most:
        raise PlanError(f"--{option} {text} is not from 1 to {most:,}")
    return count
