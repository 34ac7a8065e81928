"""`kcore whatif --partitions --brokers`: the question about a cluster that has grown, or about a part of it."""

from kcore.cli.options.counts import count_of
from kcore.constants import MAX_BROKERS
from kcore.errors import PlanError
from kcore.measure.bench.plan_rules import MOST_PARTITIONS
from kcore.measure.workloads.scaling import scaled_cluster
from kcore.whatif import WhatIf


def at_size(asked: WhatIf, partitions: str | None, brokers: str | None, seed: int) -> WhatIf:
    """The question at this size; the cluster's own size for None.

    PlanError for an impossible count, and for a cluster without partitions. TableError for too few brokers.
    """
    if partitions is None and brokers is None:
        return asked
    table = asked.cluster.table
    if not table.partition_count:
        raise PlanError("--partitions and --brokers: the cluster has no partitions to scale")
    wanted = table.partition_count if partitions is None else count_of("partitions", partitions, MOST_PARTITIONS)
    members = len(table.brokers) if brokers is None else count_of("brokers", brokers, MAX_BROKERS)
    return WhatIf(scaled_cluster(asked.cluster, wanted, members, seed))
