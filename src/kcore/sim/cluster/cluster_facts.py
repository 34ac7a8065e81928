"""The facts about a simulated cluster that the administrator, faults and checks read."""

from typing import Final

from kcore.sim.cluster.committed_cluster import CommittedCluster

UNCLEAN_US: Final = 60_000_000  # A request for an unclean election may be decided so late: pauses and delays add up.


class ClusterFacts:
    """The committed cluster, and what its administrator has requested."""

    def __init__(self, *, has_elr: bool) -> None:
        """`has_elr`: partitions may have eligible leader replicas, and then an empty ISR."""
        self.cluster, self.has_elr = CommittedCluster(), has_elr
        self._unclean_us: dict[str, int] = {}  # By topic: when an unclean election was last requested.

    def on_unclean_requested(self, topic: str, now_us: int) -> None:
        """The administrator requests unclean elections for this topic."""
        self._unclean_us[topic] = now_us

    def may_be_unclean(self, topic: str, now_us: int) -> bool:
        """Whether an unclean election of this topic may be the result of a request."""
        return now_us - self._unclean_us.get(topic, -UNCLEAN_US) < UNCLEAN_US
