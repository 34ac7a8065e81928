"""Leaders apply the controller's decisions about ISRs."""

from collections.abc import Callable

import pytest

import kcore
from controller.zk import admin
from controller.zk.clusters import columns_of
from controller.zk.tree import Cluster
from kcore.broker.zk_control.broker import Broker
from kcore.controller.zk import events
from kcore.protocol_errors import Errors
from kcore.schema import AlterPartitionReassignmentsRequest, LeaderAndIsrResponse
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrTopicError
from kcore.schema.partitions import ReassignablePartition, ReassignableTopic


class World:
    """t-0 on brokers 1, 2, 3, led by 1, and the machines of these brokers."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.brokers = {each: Broker(each, self.cluster.register(each)) for each in (1, 2, 3)}
        self.cluster.write_topic("t", [1, 2, 3])
        self.cluster.elect()
        self.deliver()

    def deliver(self) -> None:
        """Delivers the controller's requests to all brokers."""
        sent, self.cluster.sent = self.cluster.sent, []
        for request in sent:
            fanout = request.fanout()
            for broker, epoch in zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True):
                answer = self.brokers[broker].answer(request.message, request.version, fanout.bytes_for(epoch))
                name = request.message.__name__.replace("Request", "Response")
                assert kcore.decode(name, request.version, answer).error_code == Errors.NONE


def dies(cluster: Cluster) -> None:
    cluster.unregister(3)
    cluster.run()


def shuts_down(cluster: Cluster) -> None:
    cluster.run(admin.controlled_shutdown(1, 3, -1))


def loses_its_disk(cluster: Cluster) -> None:
    error = LeaderAndIsrPartitionError(partition_index=0, error_code=Errors.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=cluster.active.table.topics.ids[0], partition_errors=[error])
    response = LeaderAndIsrResponse(topics=[topic])
    cluster.run(events.LeaderAndIsrResponseReceived(3, admin.epoch_of(cluster, 3), columns_of(response)))


def is_moved_away(cluster: Cluster) -> None:
    move = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2])])
    admin.ask(cluster, AlterPartitionReassignmentsRequest(topics=[move]))


@pytest.mark.covers("B10")
@pytest.mark.parametrize("what", [dies, shuts_down, loses_its_disk, is_moved_away])
def test_a_smaller_isr_comes_with_a_leader_epoch_that_the_leader_takes(what: Callable[[Cluster], None]) -> None:
    """KAFKA-15109: brokers in ZooKeeper mode pass over a LeaderAndIsr whose leader epoch they know already."""
    world = World()
    assert world.brokers[1].replicas["t", 0].isr == (1, 2, 3)
    what(world.cluster)
    world.deliver()
    leader, isr, leader_epoch = world.cluster.state("t")
    assert (leader, isr) == (1, (1, 2))
    result = world.brokers[1].replicas["t", 0]
    assert (result.isr, result.leader_epoch) == (isr, leader_epoch)
    row = world.cluster.active.table.row_of("t", 0)
    assert result.partition_epoch == world.cluster.active.table.partition_epoch__p[row], "it may change the ISR now"


@pytest.mark.covers("B10")
def test_a_larger_set_of_replicas_comes_with_a_leader_epoch_that_the_leader_takes() -> None:
    world = World()
    world.brokers[4] = Broker(4, world.cluster.register(4))
    world.cluster.run()
    world.deliver()
    move = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2, 4])])
    admin.ask(world.cluster, AlterPartitionReassignmentsRequest(topics=[move]))
    world.deliver()
    assert {each: world.brokers[each].replicas["t", 0].replicas for each in (1, 2, 4)} == {
        each: (1, 2, 4, 3) for each in (1, 2, 4)
    }
