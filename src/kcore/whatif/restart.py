"""The classes of risk of a broker's restart, as Redpanda's pre_restart_probe has them, and more.

While a broker restarts, its controller has fenced it. So the risks are the effects of its loss.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.whatif.cluster import Cluster
from kcore.whatif.effects import MOVED, ONE_IN_SYNC, UNCLEAN, UNDER_MIN_ISR, WITHOUT_LEADER, effects_of


@dataclass(frozen=True, slots=True)
class RestartRisk:
    """The partitions that each risk of a broker's restart concerns."""

    broker: int
    rf1_offline: int  # A single replica: no leader while the broker is down.
    unavailable: int  # More replicas, but none of the others may lead.
    acks_all_unavailable: int  # A leader, but fewer in-sync replicas than min.insync.replicas: acks=all is refused.
    acks1_data_loss: int  # The leader moves: records with acks=1 that no follower has fetched yet may be lost.
    unclean_data_loss: int  # An unclean election: acknowledged records are lost.
    last_replica: int  # One of several replicas is left in sync: its loss would leave no leader.

    @property
    def is_safe(self) -> bool:
        """True if no partition becomes unavailable, refuses acks=all or loses acknowledged records (acks=all)."""
        return not (self.rf1_offline or self.unavailable or self.acks_all_unavailable or self.unclean_data_loss)

    def as_row(self) -> dict[str, Any]:
        """The risk as one flat row of a table or of JSON."""
        return asdict(self) | {"is_safe": self.is_safe}


def restart_risks(cluster: Cluster) -> list[RestartRisk]:
    """The risks of each live broker's restart, by ascending id."""
    return [restart_risk(cluster, broker) for broker in cluster.live_ids()]


def restart_risk(cluster: Cluster, broker_id: int) -> RestartRisk:
    """The risks of one broker's restart."""
    table = cluster.table
    row = table.brokers.row(broker_id)
    effects = effects_of(cluster, (row,), table.index.rows(row))
    flags__rk = effects.effects__rk > 0
    is_single = (table.replicas__ps[effects.rows] != NO_BROKER_ROW).sum(axis=1) == 1
    has_leader = effects.leader__r != NO_BROKER_ROW
    moved, unclean = flags__rk[:, MOVED], flags__rk[:, UNCLEAN]
    found = (
        flags__rk[:, WITHOUT_LEADER] & is_single,
        flags__rk[:, WITHOUT_LEADER] & ~is_single,
        flags__rk[:, UNDER_MIN_ISR] & has_leader,
        moved & ~unclean & (table.leader__p[effects.rows] == row),
        unclean,
        flags__rk[:, ONE_IN_SYNC] & has_leader,
    )
    return RestartRisk(broker_id, *(int(np.count_nonzero(each)) for each in found))
