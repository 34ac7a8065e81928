"""The questions about a cluster as methods of one object."""

from collections.abc import Iterable, Sequence

from kcore.errors import ArgumentError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Uuid, is_whole
from kcore.whatif import pairs as all_of
from kcore.whatif import restart_plan as planning
from kcore.whatif.after_loss import after_loss
from kcore.whatif.cluster import Cluster, check_live, cluster_of
from kcore.whatif.outcome import Health, Outcome, health_of, outcome_of
from kcore.whatif.pairs import PairOutcomes
from kcore.whatif.reassignment import after_reassignment, parse_reassignment
from kcore.whatif.restart import RestartRisk, restart_risks
from kcore.whatif.scenario import Scenario, directories_of, racks_of


class WhatIf:
    """Answers questions about one state of a cluster, which must not change meanwhile; `what_if` makes it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def health(self) -> Health:
        """The counts before any loss."""
        return health_of(self.cluster, self.cluster.leaders__b, self.cluster.live__b)

    def lose(
        self,
        brokers: Iterable[int] = (),
        *,
        racks: Iterable[str] = (),
        directories: Iterable[Uuid | str] = (),
        name: str = "",
    ) -> Outcome:
        """The outcome if all of these are lost at once.

        ArgumentError for arguments of other types. TableError for what the cluster does not have.
        """
        return self.outcome(Scenario.of(brokers, racks, directories, name))

    def outcome(self, scenario: Scenario) -> Outcome:
        """The outcome of a scenario; TableError for what the cluster does not have."""
        if not isinstance(scenario, Scenario):
            raise ArgumentError(f"a Scenario is wanted, not {type(scenario).__name__}: see Scenario.of")
        return outcome_of(self.cluster, scenario)

    def each_broker(self) -> list[Outcome]:
        """The outcome of the loss of each live broker, by id."""
        return [self.lose([broker]) for broker in self.cluster.live_ids()]

    def each_rack(self) -> list[Outcome]:
        """The outcome of the loss of each rack that has a live broker, by name."""
        return [self.lose(racks=[rack]) for rack in racks_of(self.cluster.table.brokers)]

    def each_directory(self) -> list[Outcome]:
        """The outcome of the loss of each log directory that a live broker has registered."""
        return [self.lose(directories=[each]) for each in directories_of(self.cluster.table)]

    def pairs(self) -> PairOutcomes:
        """The outcomes of the loss of each pair of live brokers. TableError if no broker is live."""
        check_live(self.cluster)
        return all_of.all_pairs(self.cluster)

    def restart_risks(self) -> list[RestartRisk]:
        """The risks of the restart of each live broker, by id."""
        return restart_risks(self.cluster)

    def restart_plan(self) -> planning.RestartPlan:
        """A rolling restart of all live brokers with the fewest steps. TableError if no broker is live."""
        return planning.restart_plan(self.cluster)

    def may_restart_together(self, brokers: Sequence[int]) -> bool:
        """True if no partition goes below its min.insync.replicas because these brokers are down at once.

        TableError for brokers that the cluster does not have.
        """
        if not isinstance(brokers, Sequence) or not all(is_whole(each) for each in brokers):
            raise ArgumentError(f"brokers are a list of ids, not {brokers!r:.60}")
        return planning.may_restart_together(self.cluster, brokers)

    def after_loss(
        self, brokers: Iterable[int] = (), *, racks: Iterable[str] = (), directories: Iterable[Uuid | str] = ()
    ) -> "WhatIf":
        """The same questions after the loss; `cluster.table` of the result has the state of each partition.

        ArgumentError for arguments of other types. TableError for what the cluster does not have.
        """
        return WhatIf(after_loss(self.cluster, Scenario.of(brokers, racks, directories)))

    def after_reassignment(self, text: str) -> "WhatIf":
        """The same questions after a reassignment has completed; `text`: JSON of kafka-reassign-partitions.

        ArgumentError for other text. TableError for partitions or live brokers that the cluster does not have.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"a reassignment is JSON text, not {type(text).__name__}")
        return WhatIf(after_reassignment(self.cluster, parse_reassignment(text)))

    def __repr__(self) -> str:
        return f"<WhatIf: {self.cluster.table!r}, by the rules of {self.cluster.level.release}>"


def what_if(
    cluster: PartitionTable | ClusterImage,
    *,
    release: str | None = None,
    unclean: bool | None = None,
    min_isr: int | None = None,
    elr: bool | None = None,
) -> WhatIf:
    """Asks what the loss of brokers, racks or log directories would do to a cluster; nothing is changed.

    For a ClusterImage, arguments that are None are the image's own; without a metadata.version its rules are 3.9.1 in
    ZooKeeper mode. For a PartitionTable they are 3.9.1 in ZooKeeper mode, no unclean elections, min.insync.replicas 1.

    - `release`: the rules that decide, such as "4.3.1" or "3.9-IV0@3.9.1"; "3.9.1" is ZooKeeper mode.
    - `unclean`: unclean.leader.election.enable of all topics.
    - `min_isr`: min.insync.replicas of all topics.
    - `elr`: whether eligible leader replicas are enabled (KIP-966).

    ArgumentError, LevelError or TableError for other values.
    """
    return WhatIf(cluster_of(cluster, release, unclean, min_isr, elr))
