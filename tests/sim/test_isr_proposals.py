"""Which partitions the leaders of a simulated cluster look at."""

from typing import Any, cast

import pytest

from kcore.sim.cluster.broker_process import BrokerProcess
from kcore.sim.cluster.isr_proposals import IsrProposals
from kcore.sim.cluster.leaderships import Leaderships, Led
from kcore.sim.cluster.run_world import new_world
from kcore.types import Uuid

TOPIC = Uuid(bytes(range(16)))
PARTITIONS = 6


class Broker:
    """A broker as `IsrProposals` sees it: it leads the partitions in `leads`, and follows the others."""

    def __init__(self, broker_id: int, other: int, leads: range) -> None:
        self.broker_epoch = 7
        self.leaderships = Leaderships(broker_id)
        self.proposed: set[int] = set()
        for index in range(PARTITIONS):
            if index in leads:
                self.leaderships.led[TOPIC, index] = Led("t", (broker_id, other), (broker_id,), 0, 0)
            else:
                self.leaderships.follows[TOPIC, index] = other, 0

    def send_proposals(self) -> None:
        request: Any = self.leaderships.next_request(self.broker_epoch, 0)
        if request is not None:
            self.proposed.update(data.partition_index for topic in request.topics for data in topic.partitions)


@pytest.mark.parametrize(("is_healing", "joins"), [(False, 1), (True, PARTITIONS)])
def test_without_faults_leaders_look_at_all_their_partitions(is_healing: bool, joins: int) -> None:
    """A random choice may miss a partition for 120 s, and a reassignment that waits for its ISR does not end."""
    world = new_world(1, controllers=1, brokers=3)
    world.is_healing = is_healing
    brokers = {1: Broker(1, 2, range(4)), 2: Broker(2, 1, range(4, PARTITIONS))}
    IsrProposals(world, cast("dict[int, BrokerProcess]", brokers)).propose()
    assert sum(len(each.proposed) for each in brokers.values()) == joins
