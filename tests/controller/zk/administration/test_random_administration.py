"""The random events once more, with reassignments and deletions among them: nothing is left over, nothing is stuck."""

from functools import partial
from typing import Any, Final

import pytest

from controller.zk import admin
from controller.zk.clusters import kind_of
from controller.zk.test_random_events import BROKERS, EVENTS, STEP_US, World
from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znodes import PartitionStateNode
from kcore.protocol_errors import Errors
from kcore.schema.partitions import CreatePartitionsTopic, ReassignablePartition, ReassignableTopic
from seeds import seeds

MOST_ANSWER_US: Final = 8 * STEP_US


class AdministeredWorld(World):
    """Brokers answer StopReplica when they get to it, and sometimes cannot delete."""

    def __init__(self, seed: int) -> None:
        self.answered_us = dict.fromkeys(BROKERS, 0)  # When the last answer of each broker arrives.
        super().__init__(seed)

    def receive(self, broker: int, epoch: int, request: ControlRequest) -> None:
        super().receive(broker, epoch, request)
        if kind_of(request) != "StopReplica":
            return
        fails = self.random.random() < 0.05
        answer = admin.stop_answer(request, broker, epoch, Errors.KAFKA_STORAGE_ERROR if fails else Errors.NONE)
        # The answers of one broker keep their order.
        arrives_us = max(self.answered_us[broker], self.now_us + self.random.randrange(MOST_ANSWER_US))
        self.answered_us[broker] = arrives_us
        self.after_us(arrives_us - self.now_us, partial(self.answer, answer))
        gone = answer.response.partition_errors
        for name, index in zip(gone.topic_name, gone.partition_index, strict=True) if answer.delete else ():
            self.views[broker].replicas.pop(f"{name}-{index}", None)

    def states(self) -> dict[str, tuple[PartitionStateNode, int]]:
        """The states of the partitions whose topics are not being deleted."""
        deleted = self.made.active.topics_to_be_deleted
        return {name: state for name, state in super().states().items() if name.split("-")[0] not in deleted}

    # Events.

    def answer(self, answer: events.StopReplicaResponseReceived) -> None:
        self.story.append(f"answer of {answer.broker_id}")
        self.made.run(answer)
        self.made.run()
        self.deliver()

    def move(self, _: int) -> None:
        """Somewhere else, or back; asked for in a request or in ZooKeeper."""
        states = self.states()
        if not states:
            return
        topic, partition = self.random.choice(sorted(states)).split("-")
        target = self.random.sample(BROKERS, self.random.randint(1, 3))
        if self.random.random() < 0.3:
            asked = znodes.encode_reassign_partitions({(topic, int(partition)): target})
            self.made.tree.create(znodes.REASSIGN_PARTITIONS, asked)
            return
        wanted = None if self.random.random() < 0.2 else target
        moves = [ReassignablePartition(partition_index=int(partition), replicas=wanted)]
        topics = [ReassignableTopic(name=topic, partitions=moves)]
        admin.ask(self.made, schema.AlterPartitionReassignmentsRequest(topics=topics))

    def delete(self, _: int) -> None:
        names = sorted({name.split("-")[0] for name in self.states()})
        if names:
            self.made.tree.create(znodes.delete_topic_path(self.random.choice(names)))

    def grow(self, _: int) -> None:
        names = sorted({name.split("-")[0] for name in self.states()})
        if names:
            topic = CreatePartitionsTopic(name=self.random.choice(names), count=4, assignments=None)
            request = schema.CreatePartitionsRequest(topics=[topic], timeout_ms=1)
            admin.ask(self.made, request)

    def step(self) -> None:
        if self.random.random() < 0.5:
            super().step()
        else:
            self.happen(self.random.choice([self.move, self.delete, self.grow]), 0)

    def settle(self) -> None:
        """All brokers are there, all answers arrive, all replicas catch up."""
        self.is_healing = True
        for broker in BROKERS:
            self.happen(self.bounce, broker)
        for _ in range(10):
            self.run_us(MOST_ANSWER_US)
            for broker in BROKERS if self.made.active.deletion.ineligible else ():
                self.happen(self.bounce, broker)  # A bounce retries its deletions.
            self._catch_up()
        self.story.append("settled")

    def _catch_up(self) -> None:
        table = self.made.active.table
        for name, (state, _) in super().states().items():
            topic, partition = name.split("-")
            replicas = table.state(table.row_of(topic, int(partition))).replicas
            late = [each for each in replicas if each not in state.isr and each in self.views]
            if late and state.leader != -1:
                isr = [*state.isr, *late]
                admin.alter_partition(self.made, state.leader, isr, topic=topic, partition=int(partition))
                self.made.run()
                self.deliver()

    # Invariants.

    def check(self) -> None:
        super().check()
        story = ", ".join(self.story)
        table, tree = self.made.active.table, self.made.tree
        replicas: dict[str, Any] = {}
        for topic in filter(None, table.topics.names):
            written = znodes.decode_topic(topic, tree.nodes[znodes.topic_path(topic)].data).partitions
            for row in table.rows_of_topic(topic).tolist():
                state = table.state(row)
                assert written[state.partition] == (state.replicas, state.adding, state.removing), story
                replicas[f"{topic}-{state.partition}"] = state.replicas
        for broker, view in self.views.items():
            left_over = [name for name in view.replicas if broker not in replicas.get(name, ())]
            assert not left_over, f"{story}: broker {broker} was not asked to delete {left_over}"


@pytest.mark.parametrize("seed", seeds(3, 8))
def test_nothing_is_left_over_and_nothing_is_stuck(seed: int) -> None:
    world = AdministeredWorld(seed)
    for _ in range(EVENTS):
        world.take(1)
        world.check()
    world.settle()
    world.check()
    table, deletion = world.made.active.table, world.made.active.deletion
    assert not table.adding and not table.removing
    assert not world.made.active.topics_to_be_deleted
    assert not deletion.started and not deletion.ineligible
    assert not world.made.tree.children[znodes.DELETE_TOPICS]
    assert znodes.REASSIGN_PARTITIONS not in world.made.tree.nodes
