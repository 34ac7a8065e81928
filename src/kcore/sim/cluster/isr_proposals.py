"""Chooses the ISR changes that leaders propose: a random follower lags, and a follower that is alive catches up.

A leader of Kafka looks at a partition at each Fetch of its followers (`Partition.maybeExpandIsr`), and at all of its
partitions every half `replica.lag.time.max.ms` (`ReplicaManager.maybeShrinkIsr`). With faults, the world chooses
one partition at random. Without faults, leaders look at all partitions: a random choice may miss one for long.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kcore.sim.cluster.broker_process import BrokerProcess
from kcore.sim.cluster.committed_cluster import PartitionId
from kcore.sim.cluster.leaderships import Led
from kcore.sim.raft.running_world import RunningWorld

LAGS: Final = 0.1  # The share of looks at a partition in which a follower that is alive lags.
REMEMBERS: Final = 0.2  # The share of joins under the broker epoch that the leader has seen before.


class IsrProposals:
    """Lets leaders look at their partitions: with faults one leader at one partition, then all at all."""

    def __init__(self, world: RunningWorld, brokers: Mapping[int, BrokerProcess]) -> None:
        self._world, self._brokers = world, brokers
        self._seen: dict[tuple[int, PartitionId, int], int] = {}  # By leader, partition, follower: its broker epoch.

    def propose(self) -> None:
        """Proposes a smaller or a larger ISR where there is reason.

        With faults, one leader looks at one partition. Without faults, each leader looks at each of its partitions.
        """
        world = self._world
        leaders = [
            index for index, each in self._brokers.items() if each.leaderships.led and not world.machines[index].blocked
        ]
        if world.is_healing:
            for index in leaders:
                self._propose(index, [*self._brokers[index].leaderships.led])
        elif leaders:
            index = world.random.choice(leaders)
            self._propose(index, [world.random.choice([*self._brokers[index].leaderships.led])])

    def _propose(self, index: int, keys: Iterable[PartitionId]) -> None:
        broker = self._brokers[index]
        for key in keys:
            self._look(index, broker, key, broker.leaderships.led[key])
        broker.send_proposals()

    def _look(self, index: int, broker: BrokerProcess, key: PartitionId, led: Led) -> None:
        world = self._world
        followers = {each: self._follows(each, key, index, led) for each in led.replicas if each != index}
        lagging = [each for each in led.isr if each != index and self._lags(followers.get(each, False))]
        joining = [each for each, follows in followers.items() if follows and each not in led.isr]
        for each in joining:
            self._seen.setdefault((index, key, each), self._brokers[each].broker_epoch)
        if joining and (not lagging or world.dice() < 0.5):
            joins = world.random.choice(joining)
            if broker.leaderships.propose(key, (*led.isr, joins), joins, self._epoch_of(index, key, joins)):
                world.seen["ISR change: joins"] += 1
        elif lagging and broker.leaderships.propose(key, tuple(each for each in led.isr if each not in lagging)):
            world.seen["ISR change: leaves"] += 1

    def _follows(self, follower: int, key: PartitionId, leader: int, led: Led) -> bool:
        """Whether the follower runs and knows the leader in its epoch, as its Fetch requests would show."""
        process = self._brokers.get(follower)
        return process is not None and process.leaderships.follows.get(key) == (leader, led.leader_epoch)

    def _lags(self, follows: bool) -> bool:
        return not follows or (not self._world.is_healing and self._world.dice() < LAGS)

    def _epoch_of(self, leader: int, key: PartitionId, follower: int) -> int:
        """The epoch of the follower's Fetch that caught up (KIP-903), which may be of its last incarnation."""
        if self._world.dice() < REMEMBERS and not self._world.is_healing:
            return self._seen.pop((leader, key, follower))
        return self._brokers[follower].broker_epoch
