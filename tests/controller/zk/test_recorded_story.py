"""The machine over a tree in memory writes the znodes and control requests that were recorded at a real cluster."""

import re
from typing import Any

import pytest

import story
from controller.zk import admin
from controller.zk.clusters import as_json, kind_of
from controller.zk.tree import Cluster, Tree
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.schema.partitions import ReassignablePartition, ReassignableTopic

pytestmark = pytest.mark.recorded
STATE = re.compile(r"/brokers/topics/.*/state")


def cluster(step: int, controller_id: int = 1) -> Cluster:
    """The tree after a step, and a controller that has been in charge all the time."""
    made = Cluster(controller_id, Tree.of_dump(story.dump(step)), endpoints=())
    node = made.tree.nodes[znodes.CONTROLLER_EPOCH]
    made.run(events.Elected(int(node.data), node.version))
    made.sent.clear()
    return made


def states(tree: Tree) -> dict[str, tuple[int, bytes]]:
    return {path: (node.version, node.data) for path, node in tree.nodes.items() if STATE.fullmatch(path)}


def sent(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    """One entry a receiver, as the recording has them."""
    return [
        {"receiver": broker, "request": as_json(each), "epoch": epoch}
        for each in cluster.sent
        if kind_of(each) == kind
        for broker, epoch in zip(each.broker_ids.tolist(), each.broker_epochs.tolist(), strict=True)
    ]


def compare(cluster: Cluster, recorded: dict[str, list[dict[str, Any]]]) -> None:
    """Every broker received the same state of every partition, request header and broker epoch."""
    for kind, theirs in recorded.items():
        ours = sent(cluster, kind)
        assert story.last_states(ours) == story.last_states(theirs)
        last = {each["receiver"]: each["request"] for each in theirs}
        assert {each["receiver"] for each in ours} == last.keys()
        for each in {each["receiver"]: each for each in ours}.values():
            request, wanted = each["request"], last[each["receiver"]]
            for name in ("controllerId", "controllerEpoch", "isKRaftController"):
                assert request[name] == wanted[name]
            assert each["epoch"] == wanted["brokerEpoch"]
            listed = "liveBrokers" if kind == "UpdateMetadata" else "liveLeaders"
            assert {str(each) for each in request[listed]} == {str(each) for each in wanted[listed]}


def recorded(step: int) -> dict[str, list[dict[str, Any]]]:
    return {
        "LeaderAndIsr": story.requests_before(step, "LEADER_AND_ISR"),
        "UpdateMetadata": story.requests_before(step, "UPDATE_METADATA"),
    }


@pytest.mark.covers("story 1")
def test_step_1_topics_are_created() -> None:
    tree = Tree.of_dump(story.dump(1))
    wanted = states(tree)
    written = {name: tree.nodes[znodes.topic_path(name)].data for name in ("t1", "t2")}
    for path in sorted((path for path in tree.nodes if path.startswith("/brokers/topics/")), reverse=True):
        tree.delete(path)
    controlled = Cluster(1, tree, endpoints=())
    node = tree.nodes[znodes.CONTROLLER_EPOCH]
    controlled.run(events.Elected(int(node.data), node.version))
    controlled.sent.clear()
    for name, data in written.items():
        tree.create(znodes.topic_path(name), data)
        controlled.run()
    assert states(tree) == wanted
    seen = [each for broker in (1, 2, 3) for each in story.all_requests(broker)]
    first = [each for each in seen if each["api"] == "LEADER_AND_ISR" and each["ts"] < "2026-11-21 08:18:52"]
    shown = [each for each in seen if each["api"] == "UPDATE_METADATA" and each["ts"] < "2026-11-21 08:18:52"]
    shown = [each for each in shown if each["request"]["topicStates"]]
    compare(controlled, {"LeaderAndIsr": first, "UpdateMetadata": shown})


@pytest.mark.covers("story 2")
def test_step_2_broker_3_is_killed() -> None:
    controlled = cluster(1)
    controlled.unregister(3)
    controlled.run()
    assert states(controlled.tree) == states(Tree.of_dump(story.dump(2)))
    compare(controlled, recorded(2))


@pytest.mark.covers("story 3")
def test_step_3_broker_3_comes_back() -> None:
    controlled, after = cluster(2), Tree.of_dump(story.dump(3))
    node = after.nodes[znodes.broker_path(3)]
    controlled.tree.zxid = node.czxid - 1
    controlled.tree.create(znodes.broker_path(3), node.data)
    before = states(controlled.tree)
    controlled.run()
    assert states(controlled.tree) == before, "the ISR is for the leaders to grow"
    grown = "2026-11-21 08:19:05,482"  # The first AlterPartition.
    compare(controlled, {kind: [each for each in all_of if each["ts"] < grown] for kind, all_of in recorded(3).items()})


@pytest.mark.covers("story 7")
def test_step_7_the_controller_is_killed_and_broker_3_takes_over() -> None:
    tree, after = Tree.of_dump(story.dump(6)), Tree.of_dump(story.dump(7))
    tree.delete(znodes.broker_path(1))
    tree.delete(znodes.CONTROLLER)
    taken_over = Cluster(3, tree, endpoints=())
    taken_over.elect()
    assert states(tree) == states(after)
    assert tree.nodes[znodes.CONTROLLER_EPOCH][:2] == after.nodes[znodes.CONTROLLER_EPOCH][:2]
    theirs = {
        kind: [each for each in all_of if each["request"]["controllerId"] == 3 and each["ts"] < "2026-11-21 08:19:25"]
        for kind, all_of in recorded(7).items()
    }
    compare(taken_over, theirs)


def test_after_step_7_the_last_leader_asks_to_stop() -> None:
    [(request, answer)] = [
        (each["request"], each["response"])
        for each in story.all_requests(3)
        if each["api"] == "CONTROLLED_SHUTDOWN" and each["request"]["brokerId"] == 2
    ]
    controlled = cluster(7, controller_id=3)
    controlled.run(admin.controlled_shutdown(1, request["brokerId"], request["brokerEpoch"]))
    response = controlled.answers[1]
    left = [(each.topic_name, each.partition_index) for each in response.remaining_partitions]
    wanted = [(each["topicName"], each["partitionIndex"]) for each in answer["remainingPartitions"]]
    assert (response.error_code, left) == (answer["errorCode"], wanted)


@pytest.mark.covers("story 1", "story 7")
def test_the_whole_story_in_one_go() -> None:
    """Dumps 1 to 7: one controller all the way, and at last another one."""
    replayed = admin.recorded(1)
    replayed.unregister(3)
    replayed.run()
    assert admin.subjects(replayed) == admin.recorded_subjects(2)

    admin.put(replayed, znodes.broker_path(3), admin.dumped(3)[znodes.broker_path(3)])
    replayed.run()
    _alter_partitions(replayed, 3)
    assert admin.subjects(replayed) == admin.recorded_subjects(3)

    admin.ask(replayed, schema.ElectLeadersRequest(topic_partitions=None))
    assert admin.subjects(replayed) == admin.recorded_subjects(4)

    target = ReassignablePartition(partition_index=0, replicas=[1, 2])
    move = schema.AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t2", partitions=[target])])
    admin.ask(replayed, move)
    _alter_partitions(replayed, 5)
    assert admin.subjects(replayed) == admin.recorded_subjects(5)

    replayed.requests()
    replayed.tree.create(znodes.delete_topic_path("t1"))
    replayed.run()
    admin.answer_stops(replayed)
    assert admin.subjects(replayed) == admin.recorded_subjects(6)

    replayed.unregister(1)
    taken_over = Cluster(3, replayed.tree, endpoints=())
    taken_over.elect()
    assert admin.subjects(taken_over) == admin.recorded_subjects(7)


def _alter_partitions(cluster: Cluster, step: int) -> None:
    for event, answer in admin.recorded_alter_partitions(step):
        cluster.run(event)
        assert admin.as_json(cluster.answers[event.request_id], event.version) == answer
