"""Random events over a tree in memory: after each, ZooKeeper, the table and every broker's view say the same."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest

from controller.zk import admin
from controller.zk.clusters import as_json, columns_of, kind_of, states_of
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.state_changes import PartitionState, partition_states
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znodes import PartitionStateNode
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrResponse
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrTopicError
from kcore.sim.kernel.events import Kernel
from kcore.types import Uuid
from seeds import seeds

BROKERS = (1, 2, 3, 4, 5)
EVENTS = 60
STEP_US: Final = 1_000_000  # Between two happenings, on average.
TOLD: Final = 8


@dataclass
class View:
    """The state that one incarnation of a broker has received from the controller."""

    epoch: int
    metadata: dict[str, Any] = field(default_factory=dict)
    replicas: dict[str, Any] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # Replicas on failed log directories.


class World(Kernel):
    """A cluster, the brokers' views, and what may happen: a step at random times, drawn as the kernel draws them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "")
        self.story: deque[str] = deque(maxlen=TOLD)  # The last events.
        self.is_healing = False  # No more happens by itself.
        self.made = Cluster()
        self.views: dict[int, View] = {}
        self.leader_epochs: dict[str, int] = {}
        self.topics = 0
        for broker in BROKERS[:3]:
            self.start(broker)
        self.made.elect()
        self.deliver()
        self.every_us(STEP_US, lambda: self.is_healing or self.step())

    def deliver(self) -> None:
        """Brokers that live take what was sent to their incarnation or, epochs being what they are, to a newer one."""
        sent, self.made.sent = self.made.sent, []
        for each in sent:
            for broker, epoch in zip(each.broker_ids.tolist(), each.broker_epochs.tolist(), strict=True):
                if broker in self.views and epoch >= self.views[broker].epoch:
                    self.receive(broker, epoch, each)

    def receive(self, broker: int, epoch: int, request: ControlRequest) -> None:
        """The broker applies the request to its view."""
        _take(self.views[broker], kind_of(request), as_json(request))

    def states(self) -> dict[str, tuple[PartitionStateNode, int]]:
        """By partition: its state in ZooKeeper and the znode's version."""
        found = {}
        for path, node in self.made.tree.nodes.items():
            if path.endswith("/state"):
                _, _, _, topic, _, partition, _ = path.split("/")
                found[f"{topic}-{partition}"] = znodes.decode_state(path, node.data), node.version
        return found

    # Events.

    def start(self, broker: int) -> None:
        if broker not in self.views:
            self.views[broker] = View(self.made.register(broker))

    def kill(self, broker: int) -> None:
        if broker in self.views:
            del self.views[broker]
            self.made.unregister(broker)

    def bounce(self, broker: int) -> None:
        self.kill(broker)
        self.start(broker)

    def shut_down(self, broker: int) -> None:
        epoch = self.views[broker].epoch if broker in self.views else 0
        self.made.run(admin.controlled_shutdown(self.random.getrandbits(60), broker, epoch))
        self.made.run()
        self.deliver()
        self.kill(broker)

    def create(self, _: int) -> None:
        self.topics += 1
        replicas = [self.random.sample(BROKERS, self.random.randint(1, 3)) for _ in range(self.random.randint(1, 3))]
        topic_id = Uuid(self.topics.to_bytes(16, "big"))
        if self.topics % 2:
            unclean = znodes.encode_config({"unclean.leader.election.enable": "true"})
            self.made.tree.create(znodes.config_path("topics", f"topic{self.topics}"), unclean)
        self.made.write_topic(f"topic{self.topics}", *replicas, topic_id=topic_id)

    def change_isr(self, _: int) -> None:
        """A leader takes a live replica in, or leaves one out."""
        led = [(name, state) for name, (state, _) in self.states().items() if state.leader in self.views]
        if not led:
            return
        name, state = self.random.choice(led)
        topic, partition = name.split("-")
        table = self.made.active.table
        replicas = table.state(table.row_of(topic, int(partition))).replicas
        other = self.random.choice(replicas)
        if other in self.views and name in self.views[other].lost:
            return  # It does not fetch.
        isr = [each for each in state.isr if each != other] if other in state.isr else [*state.isr, other]
        if state.leader in isr:
            admin.alter_partition(self.made, state.leader, isr, topic=topic, partition=int(partition))

    def prefer(self, _: int) -> None:
        admin.ask(self.made, schema.ElectLeadersRequest(topic_partitions=None))

    def take_over(self, broker: int) -> None:
        """A broker comes or goes while nobody controls."""
        self.made.run(events.SessionLost())
        self.random.choice([self.start, self.kill, self.bounce])(broker)
        self.made.elect()

    def be_deposed(self, broker: int) -> None:
        """In the middle of what a broker's coming or going asks for; what was written and not sent is sent later."""
        left = self.random.randint(0, 4)

        def depose(_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.made.depose()

        self.made.before = depose
        self.random.choice([self.start, self.kill, self.bounce])(broker)
        self.made.run()
        self.made.before = lambda effect: None
        self.deliver()
        self.made.run(events.SessionLost())
        self.made.elect()

    def refuse(self, broker: int) -> None:
        """Half of the writes were taken, and the answer was lost."""
        write: Any = self.made.tree.write_states

        def lose(*arguments: Any) -> Any:
            taken = write(*arguments)
            return [each and self.random.random() < 0.5 for each in taken]

        self.made.tree.write_states = lose  # type: ignore[method-assign]
        self.random.choice([self.start, self.kill, self.bounce])(broker)
        self.made.run()
        self.made.tree.write_states = write  # type: ignore[method-assign]

    def lose_directory(self, broker: int) -> None:
        """With the replicas of one topic."""
        table = self.made.active.table
        held = {name.split("-")[0] for name in self.views[broker].replicas} if broker in self.views else set()
        if not held:
            return
        topic = self.random.choice(sorted(held))
        self.views[broker].lost |= {name for name in self.views[broker].replicas if name.split("-")[0] == topic}
        results = [
            LeaderAndIsrPartitionError(partition_index=int(name.split("-")[1]), error_code=Errors.KAFKA_STORAGE_ERROR)
            for name in sorted(self.views[broker].lost)
            if name.split("-")[0] == topic
        ]
        topic_id = table.topics.ids[table.topics.row(topic)]
        response = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=results)])
        self.made.run(events.LeaderAndIsrResponseReceived(broker, self.views[broker].epoch, columns_of(response)))

    def step(self) -> None:
        """Something happens, to some broker."""
        often = (self.start, self.create, self.change_isr)
        seldom = (self.kill, self.bounce, self.shut_down, self.prefer, self.take_over, self.lose_directory)
        faults = (self.be_deposed, self.refuse)
        self.happen(self.random.choice([*often, *often, *seldom, *faults]), self.random.choice(BROKERS))

    def happen(self, what: Callable[[int], None], broker: int) -> None:
        """And all that comes of it."""
        self.story.append(f"{what.__name__} {broker}")
        what(broker)
        self.made.run()
        self.deliver()

    # Invariants.

    def check(self) -> None:
        story = ", ".join(self.story)
        states, table = self.states(), self.made.active.table
        for name, (state, version) in states.items():
            topic, partition = name.split("-")
            row = table.row_of(topic, int(partition))
            known = table.state(row)
            assert (known.leader, known.isr, known.leader_epoch) == (state.leader, state.isr, state.leader_epoch), story
            assert known.partition_epoch == version, story
            assert state.isr and (state.leader == -1 or state.leader in state.isr), story
            assert state.leader_epoch >= self.leader_epochs.get(name, 0), story
            self.leader_epochs[name] = state.leader_epoch
            lost = {broker for broker, rows in self.made.active.offline_dirs.items() if row in rows}
            online = self.views.keys() - lost
            assert state.leader in {-1, *online}, story
            assert {*state.isr} <= online or (state.leader == -1 and len(state.isr) == 1), f"{story}: {name}"
            assert state.leader != -1 or not online & {*state.isr} & {*known.replicas}, f"{story}: {name} could be led"
            self._check_views(name, state, version, known.replicas, online, story)
        for broker, view in self.views.items():
            assert view.live == {*self.views, 1000}, f"{story}: {broker}"
        rows = np.arange(len(table), dtype=np.int32)
        new = rows[
            partition_states(table, rows, self.made.active.decisions.situation()) == PartitionState.NEW_PARTITION
        ]
        new = new[~self.made.active.decisions.situation().being_deleted(new)]
        for row in new.tolist():
            assert not self.views.keys() & {*table.state(row).replicas}, f"{story}: {table.state(row)} could be led"

    def _check_views(
        self, name: str, state: PartitionStateNode, version: int, replicas: Any, online: set[int], story: str
    ) -> None:
        offline = [broker for broker in replicas if broker not in online]
        for broker, view in self.views.items():
            shown = view.metadata[name]
            assert (shown["leader"], shown["leaderEpoch"]) == (state.leader, state.leader_epoch), f"{story}: {broker}"
            assert (shown["isr"], shown["zkVersion"]) == (list(state.isr), version), f"{story}: {broker} {name}"
            assert shown["offlineReplicas"] == offline, f"{story}: {broker} {name}"
            if broker in replicas and broker in online:
                ordered = view.replicas[name]
                assert (ordered["leader"], ordered["leaderEpoch"]) == (state.leader, state.leader_epoch), story


def _take(view: View, kind: str, request: dict[str, Any]) -> None:
    if kind == "UpdateMetadata":
        view.metadata |= states_of(request)
        view.live = {each["id"] for each in request["liveBrokers"]}
    elif kind == "LeaderAndIsr":
        for name, state in states_of(request).items():
            if state["leaderEpoch"] >= view.replicas.get(name, state)["leaderEpoch"]:
                view.replicas[name] = state
            assert {each["brokerId"] for each in request["liveLeaders"]} <= view.live, "KAFKA-4443"


@pytest.mark.parametrize("seed", seeds(3, 8))
def test_everybody_agrees(seed: int) -> None:
    world = World(seed)
    for _ in range(EVENTS):
        world.take(1)
        world.check()
