"""Writes that ZooKeeper refuses, and writes whose answer was lost."""

from typing import Any

from controller.zk.clusters import states_of
from controller.zk.tree import Cluster
from kcore.controller.zk.state_changes import MAX_ATTEMPTS
from kcore.metadata.zookeeper.znode_operations import ReadStates, WriteStates


def cluster(*partitions: list[int]) -> Cluster:
    made = Cluster()
    for broker in (1, 2, 3):
        made.register(broker)
    made.write_topic("t", *(partitions or [[3, 1, 2]]))
    made.elect()
    made.sent.clear()
    return made


def test_a_faster_leader_is_read_and_decided_upon() -> None:
    # Below inter.broker.protocol 2.7 leaders write the ISR themselves. Broker 1 had left it just before 3 died.
    made = cluster([3, 1, 2], [3, 2, 1])
    shrunk = []

    def shrink(effect: object) -> None:
        if isinstance(effect, WriteStates) and not shrunk:
            shrunk.append(1)
            made.write_state("t", 0, 3, [3, 2], leader_epoch=0, controller_epoch=1)

    made.before = shrink
    made.unregister(3)
    made.run()
    assert made.state("t", 0) == (2, (2,), 1), "not broker 1: it was out of the ISR"
    assert made.state("t", 1) == (2, (2, 1), 1)
    reads = [each.rows.tolist() for each in made.effects if isinstance(each, ReadStates)]
    assert reads[-1] == [0], "only what was refused"
    writes = [each.changes.rows.tolist() for each in made.effects if isinstance(each, WriteStates)]
    assert writes[-2:] == [[0, 1], [0]]
    orders = [states_of(request) for kind, _, request in made.requests() if kind == "LeaderAndIsr"]
    assert [set(each) for each in orders] == [{"t-0", "t-1"}] * 2, "one request a broker all the same"


def test_a_write_whose_answer_was_lost_counts() -> None:
    made = cluster()
    write: Any = made.tree.write_states
    made.tree.write_states = lambda *a: [False for _ in write(*a)]  # type: ignore[method-assign]
    made.unregister(3)
    made.run()
    made.tree.write_states = write  # type: ignore[method-assign]
    assert made.state("t") == (1, (1, 2), 1), "written once, and not raised again"
    assert [each for each in made.story() if each[0] == "LeaderAndIsr"]


def test_somebody_who_always_is_faster_does_not_hold_the_controller_up() -> None:
    made = cluster([3, 1, 2], [3, 2, 1])
    epoch = iter(range(100))

    def hurry(effect: object) -> None:
        if isinstance(effect, WriteStates):
            made.write_state("t", 0, 3, [3, 1, 2], leader_epoch=next(epoch), controller_epoch=1)

    made.before = hurry
    made.unregister(3)
    made.run()
    writes = [each for each in made.effects if isinstance(each, WriteStates)]
    assert len(writes) == 1 + MAX_ATTEMPTS
    assert made.state("t", 1) == (2, (2, 1), 1)


def test_a_state_of_a_later_controller_is_let_be() -> None:
    made = cluster()
    made.before = lambda effect: (
        made.write_state("t", 0, 3, [3, 2], leader_epoch=9, controller_epoch=99)
        if isinstance(effect, WriteStates)
        else None
    )
    made.unregister(3)
    made.run()
    assert len([each for each in made.effects if isinstance(each, WriteStates)]) == 2, "at creation, and once now"
    assert not [each for each in made.story() if each[0] == "LeaderAndIsr"]


def test_a_partition_that_is_gone_is_no_concern() -> None:
    made = cluster()
    made.before = lambda effect: (
        made.tree.delete("/brokers/topics/t/partitions/0/state") and None if isinstance(effect, WriteStates) else None
    )
    made.unregister(3)
    made.run()
    assert "/brokers/topics/t/partitions/0/state" not in made.tree.nodes
