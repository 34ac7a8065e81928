"""Changes that Kafka's controller makes to partitions because of stale entries in its index of ELRs (BrokersToElrs)."""

from collections import Counter

import numpy as np

from kcore._ext.elections.election import CALLS, CRASHED, LEAVES
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.replication.kraft_changes import decide, described_brokers
from kcore.replication.kraft_results import KraftElections


def changes_of_stale(context: ControllerContext, broker_id: int, *, crashed: bool) -> list[KraftElections]:
    """The further changes of partitions that stale index entries of a broker cause, when the broker leaves.

    They follow the regular changes. ControllerFaultError if the index names a deleted topic or partition. Source:
    generateLeaderAndIsrUpdates with BrokersToElrs.partitionsWithBrokerInElr.
    """
    remaining = _stale_rows(context, broker_id)
    if not remaining:
        return []
    table = context.image.table
    flags = CALLS | LEAVES | (CRASHED if crashed else 0)
    brokers__b = described_brokers(table, [table.brokers.row(broker_id)], flags)
    found = []
    for repetition in range(max(remaining.values())):
        rows = np.array(sorted(row for row, count in remaining.items() if count > repetition), np.int32)
        found.append(decide(table, context.kraft_settings(), rows, brokers__b))
    return [each for each in found if len(each)]


def _stale_rows(context: ControllerContext, broker_id: int) -> Counter[int]:
    """The number of stale entries for each partition: all entries, less one if the broker is in the ELR."""
    index, table, found = context.shadow.eligible, context.image.table, Counter[int]()
    if index is None:
        return found
    for topic_id, partition in index.of_broker(broker_id):
        topic_row = context.image.topics.row_of_id(topic_id)
        row = -1 if topic_row is None else table.row_at(topic_row, partition)
        if row < 0:
            gone = f"Topic ID {topic_id} existed in isrMembers, but not in the topics map."
            raise ControllerFaultError(f"java.lang.RuntimeException: {gone}")
        found[row] += 1
    if table.elr__pi is not None:
        for row in [*found]:
            found[row] -= int(table.brokers.row(broker_id) in table.elr__pi[row].tolist())
    return +found
