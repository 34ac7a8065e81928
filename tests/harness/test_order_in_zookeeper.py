"""The ZooKeeper-mode controller: it dies between any two of its effects, and others act between a read and a delete."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.zk.admin import alter_partition, answer_stops, small
from controller.zk.tree import Cluster
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes, WriteNodes


class DiedError(BaseException):
    """The process is gone in the midst of an event."""


def _dies_after(cluster: Cluster, count: int) -> None:
    """Before the step behind so many: an effect, or one operation of several that are written one by one."""
    left = count

    def before(effect: object) -> None:
        nonlocal left
        several = effect.operations if isinstance(effect, WriteNodes) and not effect.atomic else [None]
        if left < len(several):
            for operation in several[:left]:
                cluster.tree.apply(operation)  # type: ignore[arg-type]
            raise DiedError
        left -= len(several)

    cluster.before = before


def at_every_death(
    make: Callable[[], Cluster],
    act: Callable[[Cluster], None],
    go_on: Callable[[Cluster], None],
    check: Callable[[Cluster], None],
) -> int:
    """`act`, by a controller that dies after each number of steps; `go_on` with the next one, over the same tree."""
    count = 0
    while True:
        cluster = make()
        _dies_after(cluster, count)
        try:
            act(cluster)
            is_done = True
        except DiedError:
            is_done = False
        later = Cluster(controller_id=1001, tree=cluster.tree)
        later.tree.fired.clear()
        later.tree.watched.clear()
        later.tree.watched_children.clear()
        later.elect()
        go_on(later)
        try:
            check(later)
        except BaseException as error:
            error.add_note(f"the first controller died after {count} steps")
            raise
        if is_done:
            return count
        count += 1


def _check_states(cluster: Cluster, topic: str, *partitions: int, live: set[int]) -> None:
    """Each partition is led by a live member of its ISR."""
    for index in partitions:
        leader, isr, _ = cluster.state(topic, index)
        assert leader in live and leader in isr and {*isr} <= live


def test_a_deletion_that_is_cut_short_is_ended_by_the_next_controller() -> None:
    def make() -> Cluster:
        cluster = small([1, 2], [2, 1], brokers=(1, 2, 3))
        cluster.write_topic("u", [1, 2])
        cluster.run()
        config = znodes.config_path("topics", "t")
        cluster.tree.create(config, znodes.encode_config({"x": "1"}), parents=True)
        return cluster

    def delete(cluster: Cluster) -> None:
        cluster.tree.create(znodes.delete_topic_path("t"), parents=True)
        cluster.run()
        for _ in range(3):
            answer_stops(cluster)

    def go_on(cluster: Cluster) -> None:
        for _ in range(3):
            answer_stops(cluster)

    def check(cluster: Cluster) -> None:
        left = [path for path in cluster.tree.nodes if path.endswith("/t") or "/t/" in path]
        assert left == [] and "t" not in cluster.active.table.topics
        _check_states(cluster, "u", 0, live={1, 2})

    assert at_every_death(make, delete, go_on, check) > 5


def test_a_topic_whose_making_is_cut_short_is_made_by_the_next_controller() -> None:
    def act(cluster: Cluster) -> None:
        cluster.write_topic("n", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        cluster.run()

    def go_on(cluster: Cluster) -> None:
        if znodes.topic_path("n") not in cluster.tree.nodes:
            act(cluster)

    def check(cluster: Cluster) -> None:
        _check_states(cluster, "n", 0, 1, 2, live={1, 2, 3})
        assert [cluster.state("n", index)[0] for index in range(3)] == [1, 2, 3]

    make = lambda: small([1, 2], brokers=(1, 2, 3))  # noqa: E731
    assert at_every_death(make, act, go_on, check) > 3


@pytest.mark.parametrize("gone", [(1,), (1, 2)])
def test_a_broker_that_is_lost_while_the_controller_dies_leads_nothing(gone: tuple[int, ...]) -> None:
    def act(cluster: Cluster) -> None:
        for broker in gone:
            cluster.unregister(broker)
        cluster.run()

    def check(cluster: Cluster) -> None:
        _check_states(cluster, "t", 0, 1, 2, live={1, 2, 3, 4} - {*gone})
        receivers: set[int] = set()
        for kind, to, _request in cluster.requests():
            receivers |= {*to} if kind == "LeaderAndIsr" else set()
        assert receivers == {1, 2, 3, 4} - {*gone}, (
            "each live broker hears of its partitions, from this controller, too"
        )

    make = lambda: small([1, 2, 3], [2, 1, 4], [1, 3, 4])  # noqa: E731
    assert at_every_death(make, act, lambda cluster: None, check) > 2


def test_a_reassignment_that_is_cut_short_is_ended_by_the_next_controller() -> None:
    """In no order of events is the partition left without one of its in-sync replicas."""

    def act(cluster: Cluster) -> None:
        data = znodes.encode_reassign_partitions({("t", 0): (3, 4)})
        cluster.tree.create(znodes.REASSIGN_PARTITIONS, data)
        cluster.run()
        alter_partition(cluster, 1, [1, 2, 3, 4])
        answer_stops(cluster)

    def go_on(cluster: Cluster) -> None:
        table = cluster.active.table
        state = table.state(table.row_of("t", 0))
        if state.adding or state.removing:
            alter_partition(cluster, state.leader, [*dict.fromkeys([*state.isr, 3, 4])])
        answer_stops(cluster)

    def check(cluster: Cluster) -> None:
        node = znodes.decode_topic("t", cluster.tree.nodes["/brokers/topics/t"].data).partitions[0]
        assert tuple(node) == ((3, 4), (), ())
        leader, isr, _ = cluster.state("t", 0)
        assert leader in (3, 4) and {*isr} == {3, 4}
        assert znodes.REASSIGN_PARTITIONS not in cluster.tree.nodes

    assert at_every_death(lambda: small([1, 2]), act, go_on, check) > 5


# Between a read and the delete behind it.


def _between_all_effects(story: Callable[[Callable[[Cluster], None]], None]) -> None:
    """Runs `story` once for each effect of its controller; its argument has others act before that effect."""
    place, is_reached = 0, True
    while is_reached:
        is_reached = False

        def others_act(cluster: Cluster, do: Callable[[], object], place: int = place) -> None:
            left = place

            def before(effect: object) -> None:
                nonlocal left, is_reached
                if not left:
                    is_reached, cluster.before = True, lambda effect: None
                    do()
                left -= 1

            cluster.before = before

        story(others_act)  # type: ignore[arg-type]
        place += 1
    assert place > 4, "it has more effects than that"


def _note(cluster: Cluster, partition: int) -> None:
    data = znodes.encode_isr_change([("t", partition)])
    cluster.tree.create_sequential(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_", data)


@pytest.mark.parametrize("is_failover", [False, True], ids=["while it leads", "while it takes over"])
def test_a_change_of_an_isr_that_is_noted_while_others_are_looked_at_is_seen(is_failover: bool) -> None:
    def story(others_act: Any) -> None:
        cluster = small([1, 2, 3], [2, 3, 1], brokers=(1, 2, 3))

        def second() -> None:
            cluster.write_state("t", 1, 2, [2], leader_epoch=0, controller_epoch=1)
            _note(cluster, 1)

        cluster.write_state("t", 0, 1, [1, 2], leader_epoch=0, controller_epoch=1)
        _note(cluster, 0)
        if is_failover:
            cluster = Cluster(controller_id=1001, tree=cluster.tree)
        others_act(cluster, second)
        if is_failover:
            cluster.elect()
        else:
            cluster.run()
        states = [cluster.state("t", index)[1] for index in (0, 1)]
        assert states[0] == (1, 2) and states[1] in ((2,), (2, 3, 1))
        node = znodes.decode_state("", cluster.tree.nodes[znodes.state_path("t", 1)].data)
        assert node.isr == states[1], "the table has what ZooKeeper has"
        assert cluster.tree.children[znodes.ISR_CHANGE_NOTIFICATION] == set()

    _between_all_effects(story)


def test_a_failed_directory_that_is_noted_while_others_are_looked_at_is_looked_at() -> None:
    """Both brokers are sent their states again."""

    def story(others_act: Any) -> None:
        cluster = small([1, 2, 3], [2, 3, 1], brokers=(1, 2, 3))
        prefix = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
        cluster.tree.create_sequential(prefix, znodes.encode_log_dir_event(1))
        is_noted = False

        def second() -> None:
            nonlocal is_noted
            is_noted = True
            cluster.tree.create_sequential(prefix, znodes.encode_log_dir_event(2))

        others_act(cluster, second)
        cluster.run()
        receivers = {each for kind, to, _ in cluster.requests() if kind == "LeaderAndIsr" for each in to}
        assert receivers == ({1, 2} if is_noted else {1})
        assert cluster.tree.children[znodes.LOG_DIR_EVENT_NOTIFICATION] == set()

    _between_all_effects(story)


def test_a_reassignment_that_is_asked_for_while_the_last_one_is_struck_out_begins() -> None:
    cluster = small([1, 2], [2, 1])

    def ask(partition: int, *target: int) -> None:
        data = znodes.encode_reassign_partitions({("t", partition): target})
        cluster.tree.create(znodes.REASSIGN_PARTITIONS, data)

    ask(0, 1, 3)
    cluster.run()
    is_asked = False

    def before(effect: Any) -> None:
        nonlocal is_asked
        if not is_asked and znodes.REASSIGN_PARTITIONS not in cluster.tree.nodes:
            is_asked = True
            ask(1, 2, 4)

    cluster.before = before
    alter_partition(cluster, 1, [1, 2, 3])
    cluster.run()
    assert is_asked
    table = cluster.active.table
    assert table.state(table.row_of("t", 1)).adding == (4,), "its watch was spent when the last one was deleted"


def test_a_topic_that_is_made_while_the_list_of_topics_is_read_gets_its_leaders() -> None:
    """The watch is set with the read: what comes between that and the reading of the topics is in the next event."""
    cluster = small(brokers=(1, 2))

    def before(effect: Any) -> None:
        if isinstance(effect, ReadNodes) and znodes.topic_path("first") in effect.paths:
            cluster.before = lambda effect: None
            cluster.write_topic("second", [2, 1])

    cluster.before = before
    cluster.write_topic("first", [1, 2])
    cluster.run()
    assert cluster.state("first")[0] == 1 and cluster.state("second")[0] == 2


def test_a_session_that_is_lost_between_two_effects_leaves_no_request_without_an_answer() -> None:
    cluster = small([1, 2], [2, 1], brokers=(1, 2))
    cluster.tree.create(znodes.delete_topic_path("t"), parents=True)
    cluster.run()
    cluster.run(events.SessionLost())
    assert not cluster.active.is_active and not cluster.active.topics_to_be_deleted
    cluster.elect()
    for _ in range(3):
        answer_stops(cluster)
    assert znodes.topic_path("t") not in cluster.tree.nodes
