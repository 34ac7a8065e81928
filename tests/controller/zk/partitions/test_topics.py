"""Topics in ZooKeeper: new, grown, gone, badly placed; unclean elections where their configuration allows them."""

import logging
from typing import Any

import numpy as np
import pytest

from controller.zk import admin
from controller.zk.clusters import states_of
from controller.zk.tree import Cluster
from kcore.controller.zk import events
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes, WriteNodes
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.types import Uuid


def cluster(*ids: int, **config: Any) -> Cluster:
    made = Cluster(**config)
    for broker in ids or (1, 2, 3):
        made.register(broker)
    made.elect()
    made.sent.clear()
    return made


def assigned(made: Cluster, topic: str) -> list[tuple[int, ...]]:
    partitions = znodes.decode_topic(topic, made.tree.nodes[znodes.topic_path(topic)].data).partitions
    return [each.replicas for each in partitions.values()]


@pytest.mark.covers("article B.2.1", "article B.2.2")
def test_replicas_that_do_not_live_are_not_in_the_first_isr() -> None:
    made = cluster(1, 2)
    made.write_topic("t", [9, 2, 1], [9])
    made.run()
    assert made.state("t", 0) == (2, (2, 1), 0)
    assert znodes.state_path("t", 1) not in made.tree.nodes
    made.register(9)
    made.run()
    assert made.state("t", 1) == (9, (9,), 0)
    orders = [(to, states_of(request)) for kind, to, request in made.requests() if kind == "LeaderAndIsr"]
    assert {name: state["isNew"] for to, each in orders if to == [9] for name, state in each.items()} == {
        "t-0": False,
        "t-1": True,
    }


def test_a_topic_grows() -> None:
    made = cluster()
    made.write_topic("t", [1, 2])
    made.run()
    made.sent.clear()
    made.write_topic("t", [1, 2], [2, 3], [3, 1])
    made.run()
    assert [made.state("t", k) for k in range(3)] == [(1, (1, 2), 0), (2, (2, 3), 0), (3, (3, 1), 0)]
    assert {name for _, _, names in made.story() for name in names} == {"t-1", "t-2"}
    made.write_topic("t", [1, 2], [2, 3], [3, 1], [1, 3])
    made.run()
    assert made.state("t", 3) == (1, (1, 3), 0), "the watch is set again"


def test_a_topic_that_is_being_deleted_does_not_grow() -> None:
    made = cluster()
    made.write_topic("t", [1, 2])
    made.run()
    before = made.tree.nodes[znodes.topic_path("t")].data
    made.active.topics_to_be_deleted.add("t")
    made.write_topic("t", [1, 2], [2, 3])
    made.run()
    assert made.tree.nodes[znodes.topic_path("t")].data == before
    assert len(made.active.table.rows_of_topic("t")) == 1


def test_a_topic_that_is_gone_is_forgotten_and_may_come_again() -> None:
    made = cluster()
    made.write_topic("t", [1, 2], [2, 1])
    made.run()
    made.active.offline_dirs[1] = {0}
    for path in sorted((path for path in made.tree.nodes if path.startswith("/brokers/topics/t")), reverse=True):
        made.tree.delete(path)
    made.run()
    assert "t" not in made.active.table.topics and made.active.offline_dirs == {1: set()}
    made.write_topic("t", [3], topic_id=Uuid(b"n" * 16))
    made.run()
    assert made.state("t") == (3, (3,), 0)


def test_partitions_that_are_not_numbered_from_0_on() -> None:
    made = cluster()
    odd = TopicAssignment(Uuid(b"o" * 16), {k: ReplicaAssignment((1, 2)) for k in (2, 3, 7)})
    made.tree.create(znodes.topic_path("odd"), znodes.encode_topic(odd))
    made.run()
    assert [made.state("odd", k) for k in (2, 3, 7)] == [(1, (1, 2), 0)] * 3


def test_moves_that_the_last_controller_began_are_known() -> None:
    made = Cluster()
    for broker in (1, 2, 3):
        made.register(broker)
    moving = TopicAssignment(Uuid(b"m" * 16), {0: ReplicaAssignment((3, 1, 2), (3,), (2,))})
    made.tree.create(znodes.topic_path("m"), znodes.encode_topic(moving))
    made.write_state("m", 0, 1, [1, 2])
    made.run()
    made.elect()
    state = made.active.table.state(0)
    assert (state.replicas, state.adding, state.removing) == ((3, 1, 2), (3,), (2,))


# Brokers that create __consumer_offsets choose among all that they are shown: the controller too.


def test_a_replica_on_the_controller_itself_is_placed_on_a_broker() -> None:
    made = cluster(1, 2, 3, 4)
    made.write_topic("__consumer_offsets", [3, 2, 1000], [1000, 1, 2], [1, 2, 3])
    made.run()
    replicas = assigned(made, "__consumer_offsets")
    assert [len({*each}) for each in replicas] == [3, 3, 3]
    assert 1000 not in {broker for each in replicas for broker in each}
    assert replicas[0][:2] == (3, 2) and replicas[1][1:] == (1, 2) and replicas[2] == (1, 2, 3)
    for k in range(3):
        leader, isr, _ = made.state("__consumer_offsets", k)
        assert isr == replicas[k] and leader == isr[0]
    mended = next(k for k, each in enumerate(made.effects) if isinstance(each, WriteNodes) and each.atomic)
    assert made.effects[mended].operations[0].version == 0, "only what was read is replaced"


def test_without_a_spare_broker_there_is_one_replica_fewer() -> None:
    made = cluster(1, 2)
    made.write_topic("t", [1, 1000, 2])
    made.run()
    assert assigned(made, "t") == [(1, 2)]
    assert made.state("t") == (1, (1, 2), 0)


def test_it_is_mended_at_failover_too_but_never_once_there_is_a_state() -> None:
    made = Cluster()
    for broker in (1, 2, 3):
        made.register(broker)
    made.write_topic("t", [1, 1000], [1000, 2])
    made.write_state("t", 1, 2, [2])
    made.elect()
    assert assigned(made, "t") == [(1, 2), (1000, 2)]
    assert made.state("t", 1) == (2, (2,), 5)


def test_replicas_that_move_off_the_controller_are_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    made = Cluster()
    for broker in (1, 2, 3):
        made.register(broker)
    for name in "abcdef":
        made.write_topic(name, [1, 1000], [2, 3])
    made.write_topic("led", [1000, 2])
    made.write_state("led", 0, 2, [2])
    made.elect()
    moved, stays = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert moved.startswith("6 new partitions of 6 topics (a, b, c, d, e and 1 more) were assigned to brokers 1000, ")
    assert stays.startswith("1 partitions of 1 topics (led) have replicas on brokers 1000, which cannot serve them")


# Brokers of kcore's coordinate no groups and no transactions.


def with_one_of_kcores(*brokers: int) -> Cluster:
    """Broker 7 coordinates nothing, the others do."""
    made = Cluster()
    for broker in brokers:
        made.register(broker)
    made.register(7, coordinates=False)
    made.elect()
    return made


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_that_a_broker_made_are_not_placed_where_nobody_coordinates(name: str) -> None:
    made = with_one_of_kcores(1, 2, 3)
    made.write_topic(name, [7, 1], [2, 7], [1000, 7], [1, 2])
    made.write_topic("t", [7, 1])
    made.run()
    replicas = assigned(made, name)
    assert [len({*each}) for each in replicas] == [2, 2, 2, 2]
    assert not {7, 1000} & {broker for each in replicas for broker in each}
    assert (replicas[0][1], replicas[1][0], replicas[3]) == (1, 2, (1, 2))
    assert assigned(made, "t") == [(7, 1)]


def test_internal_topics_stay_where_only_such_brokers_live(caplog: pytest.LogCaptureFixture) -> None:
    made = with_one_of_kcores()
    made.write_topic("__consumer_offsets", [7])
    made.run()
    assert assigned(made, "__consumer_offsets") == [(7,)]
    assert caplog.records == []


def test_a_broker_that_comes_back_as_another_kind_is_believed() -> None:
    made = with_one_of_kcores(1)
    made.unregister(7)
    made.run()
    made.register(7)
    made.run()
    made.write_topic("__consumer_offsets", [7, 1])
    made.run()
    assert assigned(made, "__consumer_offsets") == [(7, 1)]


def test_somebody_who_writes_the_assignment_meanwhile_wins() -> None:
    made = cluster()
    written = []

    def write(effect: object) -> None:
        if isinstance(effect, WriteNodes) and effect.atomic and not written:
            written.append(1)
            made.write_topic("t", [1, 1000], [2, 3])

    made.before = write
    made.write_topic("t", [1, 1000])
    made.run()
    assert assigned(made, "t") == [(1, 1000), (2, 3)]
    assert made.state("t", 0) == (1, (1,), 0), "it is led all the same"
    assert made.state("t", 1) == (2, (2, 3), 0)


# Unclean elections.


def configure(made: Cluster, topic: str, value: str) -> None:
    path = znodes.config_path("topics", topic)
    data = znodes.encode_config({"unclean.leader.election.enable": value})
    made.tree.create(path, data)
    made.tree.set_data(path, data)


def last_member_dead(**config: Any) -> Cluster:
    """Topics t and u: broker 3 is the last ISR member, and dies."""
    made = cluster(1, 2, 3, **config)
    for topic in ("t", "u"):
        made.write_topic(topic, [3, 1])
    made.run()
    made.unregister(1)
    made.run()
    made.register(1)
    made.run()
    assert made.state("t") == made.state("u") == (3, (3,), 1)
    return made


@pytest.mark.parametrize(("default", "topic", "leads"), [(False, "true", True), (True, "false", False)])
def test_a_topics_own_setting_counts(default: bool, topic: str, leads: bool) -> None:
    made = last_member_dead(unclean_leader_election_enable=default)
    configure(made, "t", topic)
    made.unregister(3)
    made.run()
    unclean, stays = (1, (1,), 2), (-1, (3,), 2)
    assert made.state("t") == (unclean if leads else stays)
    assert made.state("u") == (stays if leads else unclean)


@pytest.mark.covers("A22")
def test_configurations_are_read_only_where_nobody_in_sync_lives() -> None:
    # A22 and its kin: no work of cluster size for a local event.
    made = cluster()
    made.write_topic("t", [3, 1])
    made.write_topic("u", [2, 1])
    made.run()
    performed = len(made.effects)
    made.unregister(3)
    made.run()
    paths = [path for each in made.effects[performed:] if isinstance(each, ReadNodes) for path in each.paths]
    assert not [path for path in paths if path.startswith("/config")]


def test_a_topic_that_may_elect_uncleanly_from_now_on_does() -> None:
    made = last_member_dead()
    made.unregister(3)
    made.run()
    assert made.state("t") == (-1, (3,), 2)
    made.sent.clear()
    configure(made, "t", "true")
    made.tree.create_sequential("/config/changes/config_change_", znodes.encode_config_change("topics/t"))
    made.run()
    assert made.state("t") == (1, (1,), 3)
    assert made.state("u") == (-1, (3,), 2)
    assert made.active.table.leader_recovery_state__p[made.active.table.row_of("t", 0)] == 1, "KIP-704"
    assert [each for each in made.story() if each[0] == "LeaderAndIsr"] == [("LeaderAndIsr", [1], ["t-0"])]


def test_only_new_notes_of_a_change_are_read() -> None:
    made = Cluster()
    made.register(1)
    made.tree.create_sequential("/config/changes/config_change_", b"read by the last controller")
    made.elect()
    made.tree.create_sequential("/config/changes/config_change_", znodes.encode_config_change("brokers/1"))
    made.run()
    read = [path for each in made.effects if isinstance(each, ReadNodes) for path in each.paths]
    assert len([path for path in read if path.startswith("/config/changes/")]) == 1


def test_an_unclean_election_of_an_unknown_topic_changes_nothing() -> None:
    made = cluster()
    made.run(events.TopicUncleanLeaderElectionEnable("nobody"))
    assert made.sent == []


# Versions.


@pytest.mark.covers("first roll", "second roll")
@pytest.mark.parametrize(("protocol", "versions"), [("2.1", (4, 1, 0)), ("2.2", (5, 2, 1)), ("3.9", (8, 7, 4))])
def test_both_rolls_of_kip_380(protocol: str, versions: tuple[int, int, int]) -> None:
    made = cluster(inter_broker_protocol=protocol)
    made.write_topic("t", [1, 2, 3])
    made.run()
    epoch = made.tree.nodes[znodes.broker_path(1)].czxid
    made.run(admin.controlled_shutdown(1, 3, -1))
    sent = {each.message.__name__: each.version for each in made.sent}
    names = ("UpdateMetadataRequest", "LeaderAndIsrRequest", "StopReplicaRequest")
    assert tuple(sent[name] for name in names) == versions
    assert all(epoch in each.broker_epochs for each in made.sent if 1 in each.broker_ids)
    for request in made.sent:
        assert len(request.fanout().bytes_for(7))


@pytest.mark.parametrize("protocol", ["2.1", "2.5", "2.6", "3.9"])
def test_stopping_and_deleting_go_together_from_version_3_on(protocol: str) -> None:
    made = cluster(inter_broker_protocol=protocol)
    made.write_topic("t", [1, 2], [2, 1])
    made.run()
    made.sent.clear()
    batch = made.active.batch()
    batch.add_stop_replica(0, np.array([0, 1]), [5, 6], [True, False])
    batch.add_stop_replica(0, 1, 6, False)
    made.sent = batch.requests()
    stops = [request for _, _, request in made.requests()]
    if protocol in ("2.6", "3.9"):  # KIP-570
        [states] = map(states_of, stops)
        assert {name: (each["leaderEpoch"], each["deletePartition"]) for name, each in states.items()} == {
            "t-0": (5, True),
            "t-1": (6, False),
        }
    else:
        assert [each["deletePartitions"] for each in stops] == [True, False]


def test_topics_that_are_being_deleted_are_shown_so() -> None:
    made = cluster()
    made.write_topic("t", [1, 2])
    made.run()
    made.sent.clear()
    made.active.topics_to_be_deleted.add("t")
    batch = made.active.batch()
    batch.add_update_metadata([0, 1, 2], [0])
    batch.add_stop_replica(0, 0, 5, delete=True)
    made.sent = batch.requests()
    shown, stopped = (states_of(request)["t-0"] for _, _, request in made.requests())
    assert (shown["leader"], shown["leaderEpoch"], shown["zkVersion"], shown["isr"]) == (-2, 0, 0, [1, 2])
    assert stopped["leaderEpoch"] == -2


def test_a_partition_that_never_had_a_state_is_new_and_not_unclean() -> None:
    made = Cluster(unclean_leader_election_enable=True)
    for broker in (1, 2, 3):
        made.register(broker)
    made.write_topic("t", [9, 1, 2], [2, 1], [9, 8])
    made.elect()
    assert made.state("t", 0) == (1, (1, 2), 0)
    assert made.state("t", 1) == (2, (2, 1), 0)
    assert (made.active.table.leader_recovery_state__p == 0).all()


def test_a_broker_that_starts_may_lead_uncleanly_where_its_topic_allows_it() -> None:
    made = last_member_dead()
    for broker in (1, 3):
        made.unregister(broker)
        made.run()
    configure(made, "t", "true")
    made.write_topic("later", [2])
    made.register(1)
    made.run()
    assert made.state("t")[:2] == (1, (1,))
    assert made.state("u")[:2] == (-1, (3,))
    made.write_topic("latest", [2], [2])
    made.run()
    made.register(3)
    made.run()
    assert made.state("u")[:2] == (3, (3,)), "what was learnt of other topics is forgotten"


def test_a_broker_that_shuts_down_is_given_nothing_new() -> None:
    made = cluster()
    made.run(admin.controlled_shutdown(1, 3, -1))
    made.sent.clear()
    made.write_topic("t", [3, 1, 2])
    made.run()
    assert made.state("t") == (1, (1, 2), 0)
    assert [(kind, to) for kind, to, _ in made.story()] == [
        ("UpdateMetadata", [1, 2, 3]),
        ("LeaderAndIsr", [1]),
        ("LeaderAndIsr", [2]),
    ]


@pytest.mark.covers("first roll", "second roll")
def test_the_rolls_one_after_the_other_over_the_same_cluster() -> None:
    # 380.7: each controller takes over from one of the protocol before; no leader changes by it.
    made = cluster(inter_broker_protocol="2.1")
    made.write_topic("t", [1, 2, 3], [2, 3, 1], topic_id=None)
    made.run()
    before = [made.state("t", k) for k in range(2)]
    for protocol, versions in (("2.2", (5, 2)), ("3.9", (8, 7))):
        following = Cluster(tree=made.tree, inter_broker_protocol=protocol)
        following.elect()
        assert [following.state("t", k) for k in range(2)] == before
        sent = {each.message.__name__: each.version for each in following.sent}
        assert (sent["UpdateMetadataRequest"], sent["LeaderAndIsrRequest"]) == versions
        written = znodes.decode_topic("t", made.tree.nodes[znodes.topic_path("t")].data).topic_id
        assert (written is not None) == (protocol == "3.9")
