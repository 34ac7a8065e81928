"""The outbox of one broker merges waiting requests, bounds them, and keeps the order of their effects."""

from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from controller.zk.administration.test_random_administration import AdministeredWorld
from controller.zk.clusters import as_json, cluster, kind_of, states_of
from controller.zk.test_random_events import BROKERS, STEP_US
from kcore.controller.zk.requests import outbox
from kcore.controller.zk.requests.batch import RequestBatch
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.merging import SharedMerges
from kcore.controller.zk.requests.outbox import MOST_WAITING, Outbox
from kcore.controller.zk.zk_controller import ZkController
from kcore.metadata.table.changes import PartitionChanges
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from seeds import seeds

PARTITIONS = 6


def controller() -> ZkController:
    return cluster(
        *(("t", index, [1, 2, 3], [1, 2, 3], 1) for index in range(PARTITIONS)),
        *(("u", index, [1, 2], [1, 2], 1) for index in range(2)),
    )


class Sender:
    """Requests to broker 1 by what they name, and the outbox that they wait in."""

    def __init__(self, seed: ZkController | None = None) -> None:
        self.controller = seed or controller()
        self.outbox = Outbox(SharedMerges())
        self.now_s = 0.0

    def batch(self) -> RequestBatch:
        return RequestBatch(9, 7, self.controller.table, self.controller.versions)

    def rows(self, *partitions: str) -> list[int]:
        names = [each.rpartition("-") for each in partitions]
        return [self.controller.table.row_of(topic, int(index)) for topic, _, index in names]

    def add(self, batch: RequestBatch) -> None:
        self.now_s += 1
        for request in batch.requests():
            self.outbox.add(request, self.now_s)

    def lead(self, *partitions: str, epoch: int = 5, is_new: bool = False, shown: bool = True) -> None:
        """LeaderAndIsr under that leader epoch, and UpdateMetadata with it."""
        batch, rows = self.batch(), self.rows(*partitions)
        self.controller.table.apply(self.led(sorted(rows), epoch), check_epochs=False)
        broker_row = self.controller.table.brokers.row(1)
        batch.order([broker_row] * len(rows), rows, is_new)
        if shown:
            batch.add_update_metadata([broker_row], rows)
        self.add(batch)

    def led(self, rows: list[int], epoch: int) -> PartitionChanges:
        """The partitions as they are, under another leader epoch."""
        states = [self.controller.table.state(row) for row in rows]
        ends = np.cumsum([0, *(len(state.isr) for state in states)], dtype=np.int32)
        return PartitionChanges(
            np.array(rows, np.int32),
            np.array([state.leader for state in states], np.int32),
            ends,
            np.array([each for state in states for each in state.isr], np.int32),
            np.full(len(rows), epoch, np.int32),
            np.array([state.partition_epoch for state in states], np.int32),
            np.array([state.leader_recovery_state for state in states], np.int8),
        )

    def stop(self, *partitions: str, delete: bool = False) -> None:
        batch, rows = self.batch(), self.rows(*partitions)
        batch.add_stop_replica([self.controller.table.brokers.row(1)] * len(rows), rows, 5, delete)
        self.add(batch)

    def next(self) -> tuple[str, dict[str, Any]] | None:
        sent = self.outbox.next()
        return None if sent is None else (kind_of(sent.request), states_of(as_json(sent.request)))

    def all(self) -> list[tuple[str, dict[str, Any]]]:
        found = []
        while (sent := self.next()) is not None:
            found.append(sent)
        return found

    def story(self) -> list[tuple[str, list[str]]]:
        """Kinds and partitions, until nothing waits."""
        return [(kind, sorted(states)) for kind, states in self.all()]


@pytest.mark.covers("A9")
def test_what_comes_while_a_broker_works_is_one_request_of_each_kind() -> None:
    sender = Sender()
    sender.lead("t-0", "t-1")
    assert sender.next()[0] == "UpdateMetadata"  # type: ignore[index]  # In flight; all that follows waits.
    for epoch in range(6, 16):
        sender.lead("t-0", epoch=epoch)
        sender.lead("u-0", epoch=epoch)
    assert len(sender.outbox) == 1 + 2 * 2 * 10
    first, shown, orders = sender.all()
    # Requests before the waiting UpdateMetadata need not wait for it.
    assert (first[0], sorted(first[1])) == ("LeaderAndIsr", ["t-0", "t-1"])
    assert (shown[0], orders[0]) == ("UpdateMetadata", "LeaderAndIsr")
    for states in (shown[1], orders[1]):
        assert {name: state["leaderEpoch"] for name, state in states.items()} == {"t-0": 15, "u-0": 15}


def test_a_request_alone_is_sent_as_it_is() -> None:
    sender = Sender()
    [request] = sender.batch().requests() or [None]
    assert request is None
    batch = sender.batch()
    batch.add_update_metadata([0], sender.rows("t-0"))
    [request] = batch.requests()
    sender.outbox.add(request, 1.0)
    sent = sender.outbox.next()
    assert sent is not None and sent.request is request and sent.since_s == 1.0
    assert sender.outbox.next() is None and len(sender.outbox) == 0


def test_leadership_never_overtakes_the_metadata_that_it_came_with() -> None:
    """KAFKA-4443. Nor does it wait for ever while new metadata comes all the time."""
    sender = Sender()
    sender.lead("t-0")
    story = [sender.next()]
    for index in (1, 2, 3):
        sender.lead(f"t-{index}")
        story.append(sender.next())
    story += sender.all()
    assert [(kind, sorted(states)) for kind, states in filter(None, story)] == [
        ("UpdateMetadata", ["t-0"]),
        ("LeaderAndIsr", ["t-0"]),
        ("UpdateMetadata", ["t-1", "t-2"]),
        ("LeaderAndIsr", ["t-1", "t-2"]),
        ("UpdateMetadata", ["t-3"]),
        ("LeaderAndIsr", ["t-3"]),
    ]


@pytest.mark.covers("A21")
def test_no_request_is_larger_than_a_broker_answers_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST", {UpdateMetadataRequest: 4, LeaderAndIsrRequest: 9, StopReplicaRequest: 3})
    monkeypatch.setattr(outbox, "MOST_NEW", 2)
    sender = Sender()
    sender.lead("u-1")
    sender.all()
    everything = [f"t-{index}" for index in range(PARTITIONS)]
    sender.lead(*everything, is_new=True)
    sender.stop("u-0", "u-1")
    found = sender.story()
    sizes = [(kind, len(names)) for kind, names in found]
    assert sizes == [
        ("UpdateMetadata", 4),
        ("UpdateMetadata", 2),
        ("StopReplica", 2),
        *[("LeaderAndIsr", 2)] * 3,
    ]
    for kind in ("UpdateMetadata", "LeaderAndIsr"):
        assert sorted(name for each, names in found if each == kind for name in names) == everything


@pytest.mark.covers("A21")
def test_leaders_go_before_new_replicas_that_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST", outbox.MOST | {LeaderAndIsrRequest: 2})
    monkeypatch.setattr(outbox, "MOST_NEW", 2)
    sender = Sender()
    sender.lead("u-1")
    sender.all()
    sender.lead("t-0", "t-1", "t-2", "t-3", is_new=True)
    assert [sender.next(), sender.next()][1][1].keys() == {"t-0", "t-1"}  # type: ignore[index]
    sender.lead("u-0", "u-1", "t-5", epoch=9)
    assert sender.story() == [
        ("UpdateMetadata", ["t-5", "u-0", "u-1"]),
        ("LeaderAndIsr", ["t-5", "u-0"]),
        ("LeaderAndIsr", ["t-2", "t-3", "u-1"]),
    ]


@pytest.mark.covers("A1")
def test_the_first_leader_and_isr_has_all_that_the_broker_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7235: what is not in it would lose its checkpoint. New replicas have none yet."""
    monkeypatch.setattr(outbox, "MOST", outbox.MOST | {LeaderAndIsrRequest: 2})
    monkeypatch.setattr(outbox, "MOST_NEW", 1)
    sender = Sender()
    held = [f"t-{index}" for index in range(PARTITIONS - 1)]
    sender.lead(*held)
    sender.lead("u-0", "u-1", is_new=True)
    assert [names for kind, names in sender.story() if kind == "LeaderAndIsr"] == [[*held, "u-0"], ["u-1"]]
    sender.lead(*held, epoch=6)
    assert [len(names) for kind, names in sender.story() if kind == "LeaderAndIsr"] == [2, 2, 1]


@pytest.mark.covers("A7")
def test_marks_outlive_the_state_that_they_came_with() -> None:
    sender = Sender()
    sender.lead("t-0", is_new=True)
    sender.lead("t-0", "t-1", epoch=6)
    [_, (_, states)] = sender.all()
    assert {name: (each["isNew"], each["leaderEpoch"]) for name, each in states.items()} == {
        "t-0": (True, 6),
        "t-1": (False, 6),
    }
    sender.stop("t-0", "t-1")
    sender.stop("t-0", delete=True)
    sender.stop("t-0")
    [(_, states)] = sender.all()
    assert {name: each["deletePartition"] for name, each in states.items()} == {"t-0": True, "t-1": False}


@pytest.mark.covers("A6")
def test_of_one_partition_orders_and_stops_keep_their_order() -> None:
    sender = Sender()
    sender.lead("u-1")
    sender.all()
    sender.lead("t-0", "t-1", shown=False)
    sender.stop("t-1", "t-2", delete=True)
    sender.lead("t-2", epoch=6, shown=False)  # It is a replica again.
    sender.lead("t-3", shown=False)
    sender.stop("t-3", delete=True)
    found = [(kind, name) for kind, names in sender.story() for name in names]
    assert found.index(("LeaderAndIsr", "t-1")) < found.index(("StopReplica", "t-1"))
    assert found.index(("StopReplica", "t-2")) < found.index(("LeaderAndIsr", "t-2"))
    assert found.index(("LeaderAndIsr", "t-3")) < found.index(("StopReplica", "t-3"))


def test_what_has_nothing_in_common_may_overtake() -> None:
    sender = Sender()
    for index in range(3):
        sender.lead(f"t-{index}", shown=False)
        sender.stop(f"t-{index + 3}")
    assert sender.story() == [("LeaderAndIsr", ["t-0", "t-1", "t-2"]), ("StopReplica", ["t-3", "t-4", "t-5"])]


def test_two_topics_of_one_name_are_never_in_one_request() -> None:
    sender, later = Sender(), Sender()
    sender.lead("t-0")
    table = later.controller.table
    table.topics.set_id("t", table.topics.ids[table.topics.row("u")])
    later.outbox = sender.outbox
    later.lead("t-0")
    assert sender.story() == [("UpdateMetadata", ["t-0"])] * 2 + [("LeaderAndIsr", ["t-0"])] * 2


def test_before_version_3_deleting_is_the_whole_requests() -> None:
    old = controller()
    old.versions = old.versions._replace(stop_replica=2)
    sender = Sender(old)
    sender.stop("t-0", "t-1", delete=True)
    sender.stop("t-2")
    sender.stop("t-3", delete=True)
    found = []
    while (sent := sender.outbox.next()) is not None:
        body = as_json(sent.request)
        names = [f"{topic['name']}-{index}" for topic in body["topics"] for index in topic["partitionIndexes"]]
        found.append((body["deletePartitions"], names))
    assert found == [(True, ["t-0", "t-1"]), (False, ["t-2"]), (True, ["t-3"])]


def test_a_broker_that_hangs_costs_no_memory() -> None:
    sender = Sender()
    sender.lead("t-0", "t-1", "t-2", epoch=5)
    sender.next()
    dice = Random(1)
    for epoch in range(6, 600):
        name = f"t-{dice.randrange(3)}"
        if dice.random() < 0.3:
            sender.stop(f"t-{3 + dice.randrange(3)}", delete=dice.random() < 0.5)
        sender.lead(name, epoch=epoch)
        assert len(sender.outbox) <= MOST_WAITING
        assert min(each.since_s for each in sender.outbox) == 1.0
    found = sender.all()
    assert [kind for kind, _ in found] == ["LeaderAndIsr", "UpdateMetadata", "StopReplica", "LeaderAndIsr"]
    epochs = {
        each.partition: each.leader_epoch
        for row in sender.rows("t-0", "t-1", "t-2")
        for each in [sender.controller.table.state(row)]
    }
    assert {state["partitionIndex"]: state["leaderEpoch"] for state in found[-1][1].values()} == epochs


def test_what_all_brokers_are_shown_is_merged_once() -> None:
    merges = SharedMerges()
    first = Sender()
    waiting: list[list[ControlRequest]] = []
    for each in range(2):
        batch = first.batch()
        batch.add_update_metadata([0, 1, 2], first.rows(f"t-{each}"))
        waiting.append(batch.requests())
    boxes = [Outbox(merges) for _ in range(3)]
    for requests in waiting:
        for box in boxes:
            box.add(requests[0], 0.0)
    sent = [box.next() for box in boxes]
    assert len({id(each.request) for each in sent if each}) == 1
    assert sorted(states_of(as_json(sent[0].request))) == ["t-0", "t-1"]  # type: ignore[union-attr]


def test_however_many_partitions_wait_they_are_merged_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_PARTITIONS_WAITING", 20)
    sender = Sender()
    everything = [f"t-{index}" for index in range(PARTITIONS)]
    for epoch in range(5, 50):
        sender.lead(*everything, epoch=epoch)
        assert sum(len(each.request.columns.topic_states.partition_states) for each in sender.outbox) <= 24 + 12
    assert [len(states) for _, states in sender.all()] == [PARTITIONS, PARTITIONS]


def test_a_step_merges_no_more_than_takes_a_few_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_MERGED", 4)
    sender = Sender()
    sender.lead("u-0")
    sender.all()
    for index in range(PARTITIONS):
        sender.lead(f"t-{index}", "u-0")
    found = sender.story()
    assert [len(names) for _, names in found] == [3] * len(found)
    assert len(found) == 2 * PARTITIONS / 2
    assert {kind for kind, _ in found[: PARTITIONS // 2]} == {"UpdateMetadata"}


class PacedWorld(AdministeredWorld):
    """Brokers take what waits for them one by one, when they get to it, and all of it only when they are hurried."""

    def __init__(self, seed: int) -> None:
        self.boxes: dict[tuple[int, int], Outbox] = {}
        self.merges = SharedMerges()
        self.is_hurried = True
        super().__init__(seed)
        for broker in BROKERS:
            self.every_us(STEP_US, partial(self.work, broker))

    def deliver(self) -> None:
        sent, self.made.sent = self.made.sent, []
        for each in sent:
            for broker, epoch in zip(each.broker_ids.tolist(), each.broker_epochs.tolist(), strict=True):
                self.boxes.setdefault((broker, epoch), Outbox(self.merges)).add(each, 0.0)
        live = {(broker, view.epoch) for broker, view in self.views.items()}
        self.boxes = {key: box for key, box in self.boxes.items() if key in live}
        for broker, _ in self.boxes if self.is_hurried else ():
            while self.work(broker):
                pass

    def work(self, broker: int) -> bool:
        """Whether anything waited for this broker: it has taken the next."""
        epoch = self.views[broker].epoch if broker in self.views else -1
        waiting = self.boxes[broker, epoch].next() if (broker, epoch) in self.boxes else None
        if waiting is not None:
            self.receive(broker, epoch, waiting.request)
        return waiting is not None

    def lose_directory(self, broker: int) -> None:
        """Not for replicas that the broker got no LeaderAndIsr for yet."""


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_everybody_agrees_once_all_is_sent(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {UpdateMetadataRequest: 5, LeaderAndIsrRequest: 2, StopReplicaRequest: 2}
    monkeypatch.setattr(outbox, "MOST", few)
    monkeypatch.setattr(outbox, "MOST_NEW", 1)
    world = PacedWorld(seed)
    for _ in range(12):
        world.is_hurried = False
        world.run_us(world.random.randint(1, 8) * STEP_US)
        world.is_hurried = True
        world.deliver()
        world.check()
    world.settle()
    world.check()
    deletion = world.made.active.deletion
    assert not world.made.active.topics_to_be_deleted and not deletion.started and not deletion.ineligible
    assert not any(len(box) for box in world.boxes.values())
