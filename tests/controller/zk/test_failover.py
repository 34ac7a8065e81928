"""A controller is elected, deposed and elected again: its reads in order, its requests and its answers."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.clusters import states_of
from controller.zk.tree import Cluster
from kcore.controller.zk import events
from kcore.controller.zk.effects import Send
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadChildren, ReadNodes, ReadStates, WriteNodes, WriteStates
from kcore.protocol_errors import Errors
from kcore.types import ZERO_UUID


def brokers(*ids: int, **config: Any) -> Cluster:
    made = Cluster(**config)
    for broker in ids or (1, 2, 3):
        made.register(broker)
    return made


def ask(made: Cluster, request_id: int) -> None:
    made.run(admin.controlled_shutdown(request_id, 1, -1))


@pytest.mark.covers("article D.2")
def test_watches_are_set_before_what_they_watch_is_read() -> None:
    made = brokers()
    made.write_topic("t", [1, 2])
    made.elect()
    brokers_read = next(
        k for k, each in enumerate(made.effects) if isinstance(each, ReadNodes) and "/brokers/ids/1" in each.paths
    )
    watched = [
        path
        for each in made.effects[:brokers_read]
        if isinstance(each, ReadChildren) and each.watch
        for path in each.paths
    ]
    assert {znodes.BROKER_IDS, znodes.TOPICS, znodes.DELETE_TOPICS, znodes.ISR_CHANGE_NOTIFICATION} <= {*watched}
    states = next(k for k, each in enumerate(made.effects) if isinstance(each, ReadStates))
    assert states > brokers_read


def test_nothing_is_lost_between_reading_and_watching() -> None:
    # A broker and a topic that come while the controller reads: their watches fire, and are handled after.
    made = brokers(1, 2)

    def come(effect: object) -> None:
        if isinstance(effect, ReadStates) and znodes.broker_path(3) not in made.tree.nodes:
            made.register(3)
            made.write_topic("late", [3, 1])

    made.before = come
    made.elect()
    assert made.state("late") == (3, (3, 1), 0)


@pytest.mark.covers("A9")
def test_brokers_get_the_live_brokers_before_leader_and_isr() -> None:
    # A9, KAFKA-4443
    made = brokers()
    made.write_topic("t", [1, 2, 3])
    made.elect()
    story = made.story()
    assert story[0] == ("UpdateMetadata", [1, 2, 3], [])
    assert [each[0] for each in story[1:]] == ["UpdateMetadata", *["LeaderAndIsr"] * 3]


def test_old_notifications_are_deleted_unread() -> None:
    made = brokers()
    made.tree.create_sequential("/isr_change_notification/isr_change_", b"not even json")
    made.tree.create_sequential("/log_dir_event_notification/log_dir_event_", b"neither")
    made.elect()
    assert not made.tree.children[znodes.ISR_CHANGE_NOTIFICATION]
    assert not made.tree.children[znodes.LOG_DIR_EVENT_NOTIFICATION]


@pytest.mark.covers("article D.4")
def test_a_broker_that_died_meanwhile_leads_no_more() -> None:
    made = brokers(1, 2)
    made.write_topic("t", [3, 1, 2], [1, 3], [3])
    made.write_state("t", 0, 3, [3, 1, 2])
    made.write_state("t", 1, 1, [1, 3])
    made.write_state("t", 2, 3, [3])
    made.elect()
    assert made.state("t", 0) == (1, (1, 2), 6)
    assert made.state("t", 1) == (1, (1,), 6)
    assert made.state("t", 2) == (-1, (3,), 6), "the last member stays: it has the data"


@pytest.mark.covers("article D.5")
def test_a_partition_without_a_leader_is_led_if_somebody_can() -> None:
    made = brokers(1, 2)
    made.write_topic("t", [1, 2])
    made.write_state("t", 0, -1, [1])
    made.elect()
    assert made.state("t") == (1, (1,), 6)


@pytest.mark.covers("article D.3")
def test_states_are_sent_again_though_nothing_changed() -> None:
    # The last controller may have died after its write and before its requests.
    made = brokers(1, 2)
    made.write_topic("t", [1, 2])
    made.write_state("t", 0, 1, [1, 2])
    made.elect()
    assert made.state("t") == (1, (1, 2), 5)
    orders = [states_of(request)["t-0"] for kind, _, request in made.requests() if kind == "LeaderAndIsr"]
    assert [(each["leaderEpoch"], each["isNew"]) for each in orders] == [(5, False)] * 2


@pytest.mark.covers("article D.5", "article D.7")
def test_topics_without_a_state_get_one_and_are_new() -> None:
    made = brokers(1, 2)
    made.write_topic("t", [1, 2], [9])
    made.elect()
    assert made.state("t", 0) == (1, (1, 2), 0)
    assert znodes.state_path("t", 1) not in made.tree.nodes, "no replica of it lives"
    orders = [states_of(request) for kind, _, request in made.requests() if kind == "LeaderAndIsr"]
    assert [{name: state["isNew"] for name, state in each.items()} for each in orders] == [{"t-0": True}] * 2


@pytest.mark.covers("A11")
@pytest.mark.parametrize(("protocol", "given"), [("2.7", False), ("2.8", True), ("3.9", True)])
def test_topics_from_before_kip_516_get_an_id_in_zookeeper(protocol: str, given: bool) -> None:
    # A11: brokers and controller must mean the same one.
    made = brokers(inter_broker_protocol=protocol)
    made.write_topic("old", [1, 2], topic_id=None)
    made.elect()
    written = znodes.decode_topic("old", made.tree.nodes[znodes.topic_path("old")].data).topic_id
    table = made.active.table
    assert (written is not None) == given
    assert (written or ZERO_UUID) == table.topics.ids[table.topics.row("old")]
    if given:
        topics = [topic for kind, _, each in made.requests() if kind == "LeaderAndIsr" for topic in each["topicStates"]]
        assert {topic["topicId"] for topic in topics} == {str(written)}


@pytest.mark.covers("A10")
def test_metadata_and_orders_carry_the_epochs_that_were_written() -> None:
    # A10, KAFKA-9212: a stale epoch in UpdateMetadata leaves clients stuck since KIP-320.
    made = brokers()
    made.write_topic("t", [3, 1, 2])
    made.elect()
    made.sent.clear()
    made.unregister(3)
    made.run()
    node = made.tree.nodes[znodes.state_path("t", 0)]
    state = znodes.decode_state("", node.data)
    for kind, _, request in made.requests():
        shown = states_of(request)["t-0"]
        version = shown["zkVersion" if kind == "UpdateMetadata" else "partitionEpoch"]
        assert (shown["leader"], shown["leaderEpoch"], version) == (1, state.leader_epoch, node.version)


@pytest.mark.covers("A13")
def test_a_zombie_writes_and_sends_nothing() -> None:
    # A13, KAFKA-6082
    made = brokers()
    made.write_topic("t", [1, 2, 3])
    made.elect()
    made.sent.clear()
    made.depose()
    before = dict(made.tree.nodes)
    made.unregister(1)
    del before[znodes.broker_path(1)]
    made.run()
    assert made.tree.nodes == before
    assert made.sent == [] and not made.active.is_active


@pytest.mark.covers("A16")
def test_deposed_in_the_middle_of_an_event_and_elected_again() -> None:
    # A16, KAFKA-12315: what was gathered for the lost event must not stand in the next one's way.
    made = brokers()
    made.write_topic("t", [1, 2, 3])
    made.elect()
    made.depose()
    made.unregister(1)
    made.run()
    assert not made.active.is_active
    assert len(made.active.table) == 0 and not made.active.table.brokers.live.any()
    made.sent.clear()
    made.elect()
    assert made.state("t") == (2, (2, 3), 1)
    assert [each[0] for each in made.story()] == ["UpdateMetadata", "UpdateMetadata", "LeaderAndIsr", "LeaderAndIsr"]


@pytest.mark.covers("A14")
def test_a_lost_session_clears_everything_at_once() -> None:
    # A14: nothing is written on the way out, so nothing can hang.
    made = brokers()
    made.write_topic("t", [1, 2])
    made.elect()
    made.active.offline_dirs[1] = {0}
    made.active.topics_to_be_deleted.add("t")
    performed = len(made.effects)
    made.run(events.SessionLost())
    assert made.effects[performed:] == []
    active = made.active
    assert (active.is_active, len(active.table), active.offline_dirs, active.topics_to_be_deleted) == (
        False,
        0,
        {},
        set(),
    )


def test_only_another_controller_ends_ours() -> None:
    made = brokers()
    made.elect()
    made.run(events.ControllerChange(1000))
    assert made.active.is_active
    made.run(events.ControllerChange(2))
    assert not made.active.is_active


@pytest.mark.parametrize(
    "event",
    [
        events.BrokerChange(),
        events.BrokerModifications(1),
        events.TopicChange(),
        events.PartitionModifications("t"),
        events.LogDirEventNotification(),
        events.ConfigChange(),
        events.SessionLost(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_before_its_election_events_change_nothing(event: events.Event) -> None:
    made = brokers()
    made.write_topic("t", [1, 2])
    made.run(event)
    assert made.effects == []


@pytest.mark.covers("A17")
def test_requests_are_answered_not_controller_before_and_after() -> None:
    # A17, KAFKA-10193
    made = brokers()
    ask(made, 1)
    made.elect()
    ask(made, 2)
    made.run(events.ControllerChange(2))
    ask(made, 3)
    codes = {request_id: answer.error_code for request_id, answer in made.answers.items()}
    assert codes == {1: Errors.NOT_CONTROLLER, 2: Errors.NONE, 3: Errors.NOT_CONTROLLER}


def test_a_request_that_finds_out_that_we_are_deposed_is_answered_too() -> None:
    made = brokers()
    made.write_topic("t", [1, 2, 3])
    made.elect()
    made.depose()
    ask(made, 1)
    assert made.answers[1].error_code == Errors.NOT_CONTROLLER


@pytest.mark.covers("A17")
def test_those_who_wait_are_answered_when_it_resigns() -> None:
    made = brokers()
    made.elect()
    waiting = admin.controlled_shutdown(7, 1, -1)
    made.active.waiting[7] = waiting
    made.run(events.SessionLost())
    assert made.answers[7].error_code == Errors.NOT_CONTROLLER
    assert made.active.waiting == {}


def test_every_effect_of_the_order_on_the_label() -> None:
    # State written, then sent: never the other way round.
    made = brokers()
    made.write_topic("t", [1, 2, 3])
    made.elect()
    performed = len(made.effects)
    made.unregister(1)
    made.run()
    kinds = [type(each) for each in made.effects[performed:] if isinstance(each, WriteStates | WriteNodes | Send)]
    assert kinds == [WriteStates, Send]


@pytest.mark.parametrize(
    ("protocol", "before", "after"),
    [
        ("3.9", None, b'{"features":{},"version":2,"status":1}'),
        ("2.7", None, b'{"features":{},"version":1,"status":1}'),
        ("2.6", None, b'{"features":{},"version":1,"status":0}'),
        ("3.9", b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}', None),
        ("3.9", b'{"features":{},"version":1,"status":0}', b'{"features":{},"version":2,"status":1}'),
        (
            "2.6",
            b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}',
            b'{"features":{},"version":1,"status":0}',
        ),
    ],
)
def test_features_are_versioned_first_of_all(protocol: str, before: bytes | None, after: bytes | None) -> None:
    # KIP-584
    made = brokers(inter_broker_protocol=protocol)
    if before is not None:
        made.tree.create(znodes.FEATURE, before)
    made.elect()
    node = made.tree.nodes[znodes.FEATURE]
    assert (node.data, node.version) == (after or before, int(before is not None and after is not None))
    written = [each for each in made.effects if isinstance(each, WriteNodes)]
    assert len(written) == (after is not None)


def test_an_empty_cluster_that_fills() -> None:
    made = Cluster()
    made.elect()
    assert made.sent == []
    made.write_topic("empty")
    made.write_topic("nobody", [])
    made.write_topic("waiting", [1])
    made.run()
    made.elect()
    made.register(1)
    made.run()
    assert made.state("waiting") == (1, (1,), 0)
    assert len(made.active.table.rows_of_topic("empty")) == 0
    made.write_topic("empty", [1])
    made.run()
    assert made.state("empty") == (1, (1,), 0)
    ask(made, 1)
    made.unregister(1)
    made.run()
    assert made.state("waiting") == (-1, (1,), 1)
