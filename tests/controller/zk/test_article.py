"""The article's worked failure of a broker, and its table of what makes a controller act."""

import pytest

import kcore
from controller.zk.clusters import states_of
from controller.zk.tree import Cluster
from kcore.broker.zk_control.broker import Broker
from kcore.controller.zk import events
from kcore.controller.zk.effects import Send
from kcore.controller.zk.events import Kind, event_of
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadChildren, ReadNodes, WriteStates
from kcore.protocol_errors import Errors


def partition_1() -> Cluster:
    """Replicas 1, 2 and 3; 1 leads, all are in sync; a partition of others beside it."""
    made = Cluster()
    for broker in (1, 2, 3, 4):
        made.register(broker)
    made.write_topic("p", [1, 2, 3], [2, 4])
    made.elect()
    made.sent.clear()
    made.effects.clear()
    return made


@pytest.mark.covers("article A.1", "article A.2", "article A.3.1", "article A.3.2", "article A.3.3", "article A.4")
def test_broker_1_fails_step_by_step() -> None:
    made = partition_1()
    made.unregister(1)
    made.run()
    first, *rest = [type(each) for each in made.effects if isinstance(each, ReadChildren | WriteStates | Send)]
    assert first is ReadChildren, "1. who is there"
    assert rest == [WriteStates, Send], "3.3 in ZooKeeper before any broker gets a request"
    [write] = [each for each in made.effects if isinstance(each, WriteStates)]
    assert write.changes.rows.tolist() == [made.active.table.row_of("p", 0)], "2. the partitions of broker 1 alone"
    assert made.state("p", 0) == (2, (2, 3), 1), "3.1 and 3.2"
    node = made.tree.nodes[znodes.state_path("p", 0)]
    assert (node.version, znodes.decode_state("", node.data).leader_epoch) == (1, 1)
    orders = {to[0]: states_of(request) for kind, to, request in made.requests() if kind == "LeaderAndIsr"}
    assert {broker: [*states] for broker, states in orders.items()} == {2: ["p-0"], 3: ["p-0"]}, "4. brokers concerned"
    assert {(state["p-0"]["leader"], *state["p-0"]["isr"]) for state in orders.values()} == {(2, 2, 3)}


@pytest.mark.covers("article A.4", "article affected brokers")
def test_replica_2_leads_and_replica_3_follows_after_leader_and_isr() -> None:
    made = partition_1()
    machines = {each: Broker(each, made.tree.nodes[znodes.broker_path(each)].czxid) for each in (2, 3)}
    made.unregister(1)
    made.run()
    for request in made.sent:
        for broker, epoch in zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True):
            if broker in machines:
                answer = machines[broker].answer(request.message, request.version, request.fanout().bytes_for(epoch))
                name = request.message.__name__.replace("Request", "Response")
                assert kcore.decode(name, request.version, answer).error_code == Errors.NONE
    known = {broker: machine.replicas["p", 0] for broker, machine in machines.items()}
    assert {broker: (each.leader, each.isr) for broker, each in known.items()} == {2: (2, (2, 3)), 3: (2, (2, 3))}
    assert {key for machine in machines.values() for key in machine.replicas} == {("p", 0)}


LISTENERS: list[tuple[str, Kind, events.Event]] = [
    ("/brokers/ids", "children", events.BrokerChange()),
    ("/admin/delete_topics", "children", events.TopicDeletion()),
    ("/brokers/topics", "children", events.TopicChange()),
    ("/brokers/topics/p", "changed", events.PartitionModifications("p")),
    ("/admin/reassign_partitions", "created", events.ZkPartitionReassignment()),
    ("/admin/preferred_replica_election", "created", events.ZkReplicaLeaderElection()),
    ("/isr_change_notification", "children", events.IsrChangeNotification()),
]


@pytest.mark.covers("article G.1.1", "article G.1.2", "article G.1.3", "article G.1.4")
@pytest.mark.covers("article G.1.5", "article G.1.6", "article G.1.7")
@pytest.mark.parametrize(("path", "kind", "event"), LISTENERS)
def test_the_seven_listeners(path: str, kind: Kind, event: events.Event) -> None:
    """Each is set when a controller is elected, and its change is that event."""
    made = partition_1()
    made.run(events.SessionLost())
    made.effects.clear()
    made.elect()
    reads = [each for each in made.effects if isinstance(each, ReadNodes | ReadChildren) and each.watch]
    assert any(path in each.paths for each in reads if isinstance(each, ReadChildren) == (kind == "children"))
    assert event_of(path, kind) == event
