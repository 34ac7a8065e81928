"""A ZooKeeper in memory that performs a controller's effects: versions, czxids, one-shot watches, a fence."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from controller.zk.clusters import as_json, kind_of, states_of
from kcore.controller.zk import events
from kcore.controller.zk.active import ActiveController
from kcore.controller.zk.effects import Effect, HandleLater, Send, SendResponse
from kcore.controller.zk.events import Kind, event_of
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import ControllerMovedError, TableError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.zookeeper.znode_operations import (
    Create,
    Delete,
    DeletePartitions,
    Node,
    Operation,
    OperationResult,
    ReadChildren,
    ReadNodes,
    ReadStates,
    SetData,
    States,
    WriteNodes,
    WriteStates,
)
from kcore.metadata.zookeeper.znodes import PartitionStateNode, TopicAssignment
from kcore.node.zk.notices import Notice
from kcore.node.zk.znode_steps import LogNotice, Pause
from kcore.types import Int32s, Uuid

TOPIC_ID = Uuid(b"i" * 16)


@dataclass
class Tree:
    """Nodes by path. `fired` are the watches that went off: (path, kind), each once until it is set again."""

    nodes: dict[str, Node] = field(default_factory=dict)
    children: dict[str, set[str]] = field(default_factory=lambda: {"/": set()})
    watched: set[str] = field(default_factory=set)
    watched_children: set[str] = field(default_factory=set)
    fired: deque[tuple[str, Kind]] = field(default_factory=deque)
    zxid: int = 0
    sequence: int = 0

    @classmethod
    def of_dump(cls, text: str) -> "Tree":
        """A recorded tree, with its versions and czxids."""
        tree = cls()
        for line in text.splitlines():
            path, numbers, data = line.split("\t", 2)
            if path == "/":
                continue
            fields = dict(each.split("=") for each in numbers.split())
            tree.create(path, parents=True)
            czxid, version = int(fields["czxid"]), int(fields["version"])
            tree.nodes[path] = Node(b"" if data == "<null>" else data.encode(), version, czxid)
        tree.zxid = 1 + max(node.czxid for node in tree.nodes.values())
        return tree

    def create(self, path: str, data: bytes = b"", *, parents: bool = False) -> OperationResult:
        parent, _, name = path.rpartition("/")
        if path in self.nodes:
            return OperationResult.NODE_EXISTS
        if (parent or "/") not in self.children:
            if not parents:
                return OperationResult.NO_NODE
            self.create(parent, parents=True)
        self.zxid += 1
        self.nodes[path] = Node(data, 0, self.zxid)
        self.children[path] = set()
        self.children[parent or "/"].add(name)
        self._fire(path, "created")
        self._fire_children(parent or "/")
        return OperationResult.DONE

    def create_sequential(self, prefix: str, data: bytes) -> str:
        self.sequence += 1
        path = f"{prefix}{self.sequence:010d}"
        assert self.create(path, data) is OperationResult.DONE
        return path

    def set_data(self, path: str, data: bytes, version: int = -1) -> OperationResult:
        if path not in self.nodes:
            return OperationResult.NO_NODE
        node = self.nodes[path]
        if version not in (-1, node.version):
            return OperationResult.BAD_VERSION
        self.zxid += 1
        self.nodes[path] = Node(data, node.version + 1, node.czxid)
        self._fire(path, "changed")
        return OperationResult.DONE

    def delete(self, path: str, version: int = -1) -> OperationResult:
        if path not in self.nodes:
            return OperationResult.NO_NODE
        if version not in (-1, self.nodes[path].version):
            return OperationResult.BAD_VERSION
        if self.children[path]:
            return OperationResult.NOT_EMPTY
        parent, _, name = path.rpartition("/")
        del self.nodes[path], self.children[path]
        self.children[parent or "/"].remove(name)
        self._fire(path, "deleted")
        self._fire_children(parent or "/")
        return OperationResult.DONE

    def _fire(self, path: str, kind: Kind) -> None:
        if path in self.watched:
            self.watched.remove(path)
            self.fired.append((path, kind))

    def _fire_children(self, path: str) -> None:
        if path in self.watched_children:
            self.watched_children.remove(path)
            self.fired.append((path, "children"))

    def apply(self, operation: Operation) -> OperationResult:
        if isinstance(operation, Create):
            if operation.sequential:
                self.create_sequential(operation.path, operation.data)
                return OperationResult.DONE
            return self.create(operation.path, operation.data)
        if isinstance(operation, SetData):
            return self.set_data(operation.path, operation.data, operation.version)
        assert isinstance(operation, Delete)
        return self.delete(operation.path, operation.version)

    def transaction(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All or none."""
        trial = Tree(dict(self.nodes), {path: set(names) for path, names in self.children.items()})
        outcomes = [trial.apply(each) for each in operations]
        wrong = next((k for k, outcome in enumerate(outcomes) if outcome is not OperationResult.DONE), None)
        if wrong is None:
            return [self.apply(each) for each in operations]
        return [outcomes[wrong] if k == wrong else OperationResult.NOT_TRIED for k in range(len(operations))]

    def read_states(self, table: PartitionTable, rows: Int32s) -> States:
        found, unreadable = [], []
        for row in rows.tolist():
            node = self.nodes.get(path := state_path(table, row))
            if node is not None:
                try:
                    found.append((row, node.version, znodes.decode_state(path, node.data)))
                except TableError as error:
                    unreadable.append(error)
        states = [state for _, _, state in found]
        changes = PartitionChanges(
            rows=np.array([row for row, _, _ in found], np.int32),
            leaders=np.array([state.leader for state in states], np.int32),
            isr_offsets=np.cumsum([0, *(len(state.isr) for state in states)], dtype=np.int32),
            isr=np.array([broker for state in states for broker in state.isr], np.int32),
            leader_epochs=np.array([state.leader_epoch for state in states], np.int32),
            partition_epochs=np.array([version for _, version, _ in found], np.int32),
            recovery=np.array([state.leader_recovery_state for state in states], np.int8),
        )
        return States(changes, np.array([state.controller_epoch for state in states], np.int32), unreadable)

    def delete_partitions(self, table: PartitionTable, rows: Int32s) -> None:
        for row in rows.tolist():
            path = state_path(table, row)
            self.delete(path)
            self.delete(path.rpartition("/")[0])

    def write_states(self, table: PartitionTable, changes: UnwrittenChanges, epoch: int) -> list[bool]:
        outcomes = []
        for k, row in enumerate(changes.rows.tolist()):
            begin, end = changes.isr_offsets[k : k + 2]
            isr = tuple(changes.isr[begin:end].tolist())
            state = PartitionStateNode(
                int(changes.leaders[k]), int(changes.leader_epochs[k]), isr, epoch, int(changes.recovery[k])
            )
            path, data = state_path(table, row), znodes.encode_state(state)
            version = int(changes.partition_epochs[k])
            if version == -1:
                outcomes.append(self.create(path, data, parents=True))
            else:
                outcomes.append(self.set_data(path, data, version))
        return [outcome is OperationResult.DONE for outcome in outcomes]


def state_path(table: PartitionTable, row: int) -> str:
    return znodes.state_path(table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row]))


def endpoint(broker: int) -> Endpoint:
    return Endpoint(9000 + broker, f"host-{broker}", "PLAINTEXT", 0)


class Cluster:
    """A tree, a controller over it, and all that the controller asked for."""

    def __init__(self, controller_id: int = 1000, tree: Tree | None = None, **config: Any) -> None:
        self.tree = tree or Tree()
        for path in () if tree else (*znodes.PERSISTENT_PATHS, "/admin"):
            self.tree.create(path, parents=True)
        self.config = ControllerConfig(controller_id, **{"endpoints": (endpoint(controller_id),)} | config)
        uuids = count(1)
        self.active = ActiveController(self.config, lambda: Uuid(next(uuids).to_bytes(16, "big")))
        self.effects: list[Effect] = []
        self.pauses = 0
        self.sent: list[ControlRequest] = []
        self.answers: dict[int, Any] = {}
        self.before: Callable[[Effect], None] = lambda effect: None  # Called before an effect is performed.
        self.handled: list[events.Event] = []
        self.notices: list[Notice] = []
        self.later: deque[events.Event] = deque()  # Events of the controller's own that wait.

    # Changes by other clients.

    def register(
        self,
        broker: int,
        *endpoints: Endpoint,
        rack: str | None = None,
        features: Mapping[str, tuple[int, int]] | None = None,
        coordinates: bool = True,
    ) -> int:
        """The broker's epoch."""
        node = BrokerNode(endpoints or (endpoint(broker),), rack, features or {}, coordinates=coordinates)
        assert self.tree.create(znodes.broker_path(broker), encode_broker(node, 0)) is OperationResult.DONE
        return self.tree.nodes[znodes.broker_path(broker)].czxid

    def unregister(self, broker: int) -> None:
        assert self.tree.delete(znodes.broker_path(broker)) is OperationResult.DONE

    def write_topic(self, name: str, *replicas: Sequence[int], topic_id: Uuid | None = TOPIC_ID) -> None:
        """A topic, or the same one with other partitions."""
        assignment = {k: ReplicaAssignment(tuple(each)) for k, each in enumerate(replicas)}
        data = znodes.encode_topic(TopicAssignment(topic_id, assignment))
        if self.tree.create(znodes.topic_path(name), data) is not OperationResult.DONE:
            self.tree.set_data(znodes.topic_path(name), data)

    def write_state(
        self,
        topic: str,
        partition: int,
        leader: int,
        isr: Sequence[int],
        leader_epoch: int = 5,
        controller_epoch: int = 0,
    ) -> None:
        """As a leader or another controller would."""
        data = znodes.encode_state(PartitionStateNode(leader, leader_epoch, tuple(isr), controller_epoch))
        path = znodes.state_path(topic, partition)
        if self.tree.create(path, data, parents=True) is not OperationResult.DONE:
            self.tree.set_data(path, data)

    # Events of the controller.

    def elect(self, epoch: int | None = None) -> None:
        """`/controller_epoch` is raised, and the controller gets the event."""
        self.tree.create(znodes.CONTROLLER_EPOCH, b"0")
        epoch = int(self.tree.nodes[znodes.CONTROLLER_EPOCH].data) + 1 if epoch is None else epoch
        self.tree.set_data(znodes.CONTROLLER_EPOCH, b"%d" % epoch)
        self.run(events.Elected(epoch, self.tree.nodes[znodes.CONTROLLER_EPOCH].version))

    def depose(self) -> None:
        """Another controller is elected; this one does not know it yet."""
        epoch = int(self.tree.nodes[znodes.CONTROLLER_EPOCH].data) + 1
        self.tree.set_data(znodes.CONTROLLER_EPOCH, b"%d" % epoch)

    def run(self, event: events.Event | None = None, now_ms: int = 0, *, settle: bool = True) -> None:
        """The event, then whatever watches have fired and the controller has put off, until all is quiet."""
        if event is not None:
            self._handle(event, now_ms)
        while settle and (self.tree.fired or self.later):
            again = event_of(*self.tree.fired.popleft()) if self.tree.fired else self.later.popleft()
            if again is not None:
                self._handle(again, now_ms)

    def _handle(self, event: events.Event, now_ms: int) -> None:
        self.handled.append(event)
        steps = self.active.handle(event, now_ms)
        try:
            effect = next(steps)
            while True:
                self.before(effect)
                if isinstance(effect, Pause):
                    self.pauses += 1
                elif not isinstance(effect, LogNotice):  # Those are in `notices`.
                    self.effects.append(effect)
                try:
                    result = self._perform(effect)
                except ControllerMovedError as moved:
                    effect = steps.throw(moved)
                else:
                    effect = steps.send(result)
        except StopIteration:
            return

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, WriteNodes | WriteStates | DeletePartitions):
            self._check_fence()
        if isinstance(effect, ReadNodes):
            self.tree.watched |= {*effect.paths} if effect.watch else set()
            return [self.tree.nodes.get(path) for path in effect.paths]
        if isinstance(effect, ReadChildren):
            self.tree.watched_children |= {*effect.paths} if effect.watch else set()
            return [self.tree.children.get(path) for path in effect.paths]
        if isinstance(effect, ReadStates):
            return self.tree.read_states(self.active.table, effect.rows)
        if isinstance(effect, WriteNodes):
            if effect.atomic:
                return self.tree.transaction(effect.operations)
            return [self.tree.apply(each) for each in effect.operations]
        if isinstance(effect, WriteStates):
            epoch = self.active.decisions.controller_epoch
            return np.array(self.tree.write_states(self.active.table, effect.changes, epoch), np.bool_)
        if isinstance(effect, DeletePartitions):
            self.tree.delete_partitions(self.active.table, effect.rows)
        if isinstance(effect, HandleLater):
            self.later.append(effect.event)
        if isinstance(effect, LogNotice):
            self.notices.append(effect.notice)
        if isinstance(effect, Send):
            self.sent.extend(effect.requests)
        if isinstance(effect, SendResponse):
            assert effect.request_id not in self.answers, "one answer a request"
            self.answers[effect.request_id] = effect.response
        return None

    def _check_fence(self) -> None:
        if self.tree.nodes[znodes.CONTROLLER_EPOCH].version != self.active.epoch_version:
            raise ControllerMovedError("somebody else controls")

    # The outcome.

    def state(self, topic: str, partition: int = 0) -> tuple[int, tuple[int, ...], int]:
        """Leader, ISR and leader epoch in the tree; the table must say the same."""
        node = self.tree.nodes[znodes.state_path(topic, partition)]
        state = znodes.decode_state("", node.data)
        if self.active.is_active:
            known = self.active.table.state(self.active.table.row_of(topic, partition))
            assert (known.leader, known.isr, known.leader_epoch) == (state.leader, state.isr, state.leader_epoch)
            assert known.partition_epoch == node.version
        return state.leader, state.isr, state.leader_epoch

    def log_lines(self) -> list[str]:
        """The lines at INFO and above since the last time this was asked."""
        notices, self.notices = self.notices, []
        return [str(each) for each in notices if each.level != "detail"]

    def requests(self) -> list[tuple[str, list[int], dict[str, Any]]]:
        """(kind, receivers, JSON) of what was sent since the last time this was asked."""
        sent, self.sent = self.sent, []
        return [(kind_of(each), each.broker_ids.tolist(), as_json(each)) for each in sent]

    def story(self) -> list[tuple[str, list[int], list[str]]]:
        """(kind, receivers, partitions) of the same."""
        return [(kind, receivers, sorted(states_of(request))) for kind, receivers, request in self.requests()]
