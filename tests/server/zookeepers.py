"""A fake ZooKeeper client of dicts for a controller: sessions, their end, and changes by other clients."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from controller.zk.tree import Tree
from kcore.errors import ControllerMovedError, SessionExpiredError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.zookeeper.znode_operations import Node, OperationResult, States
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.server.zk_controller import election, zk_controller_server
from kcore.types import Uuid
from kcore.zookeeper.registration import ControllerEpoch
from kcore.zookeeper.session import SessionEvent

OURS, OTHERS = 1, 2  # Sessions
PLAIN = "127.0.0.1", "PLAINTEXT", 0
OnWatch = Callable[[str, Any], None]


class Zookeeper:
    """The tree, and the one client that looks at it."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.tree.create(znodes.CONTROLLER_EPOCH, b"0")
        self.on_watch: dict[str, dict[OnWatch, None]] = {}  # By path: who has looked since it fired.
        self.on_session: Callable[[SessionEvent], None] = lambda event: None
        self.before_write: Callable[[], None] = lambda: None
        self.is_open = False
        self.chroot, self.has_chroot = "", True
        self.owner = OTHERS  # of /controller: a session

    # Changes by other clients.

    def register(self, broker_id: int, *endpoints: Endpoint | int) -> None:
        """A broker, or its next incarnation; a port is of plaintext."""
        path = znodes.broker_path(broker_id)
        places = [each if isinstance(each, Endpoint) else Endpoint(each, *PLAIN) for each in endpoints]
        self.tree.delete(path)
        self.tree.create(path, encode_broker(BrokerNode(places), 0))
        self.tell()

    def write_topic(self, name: str, *replicas: Sequence[int]) -> None:
        assignment = {k: ReplicaAssignment(tuple(each)) for k, each in enumerate(replicas)}
        self.tree.create(znodes.topic_path(name), znodes.encode_topic(TopicAssignment(Uuid(b"i" * 16), assignment)))
        self.tell()

    def elected(self, broker_id: int, session: int = OTHERS) -> ControllerEpoch:
        """Somebody controls from now on."""
        self.owner = session
        self.tree.delete(znodes.CONTROLLER)
        self.tree.create(znodes.CONTROLLER, znodes.encode_controller(broker_id, 0))
        epoch = self.epoch + 1
        self.tree.set_data(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch))
        self.tell()
        return ControllerEpoch(epoch, self.tree.nodes[znodes.CONTROLLER_EPOCH].version)

    def resigned(self) -> None:
        """Nobody controls."""
        self.tree.delete(znodes.CONTROLLER)
        self.tell()

    def expire(self) -> None:
        """The client's session: its ephemeral znodes and its watches are gone."""
        self.tree.watched.clear()
        self.tree.watched_children.clear()
        self.tree.delete(znodes.CONTROLLER)
        self.on_session(SessionEvent.EXPIRED)

    def tell(self) -> None:
        """Calls the watches that have fired."""
        while self.tree.fired:
            path, kind = self.tree.fired.popleft()
            for watch in self.on_watch.pop(path):
                watch(path, kind)

    @property
    def epoch(self) -> int:
        return znodes.decode_controller_epoch(self.tree.nodes[znodes.CONTROLLER_EPOCH].data)

    @property
    def controller(self) -> int | None:
        node = self.tree.nodes.get(znodes.CONTROLLER)
        return znodes.decode_controller(node.data).broker_id if node else None


class Client:
    """Stands for `ZookeeperClient`; `hosts` is the Zookeeper itself."""

    def __init__(self, hosts: Any, *, on_session: Callable[[SessionEvent], None], **_: float) -> None:
        self.zookeeper: Zookeeper = hosts
        self.session = SimpleNamespace(id=OURS, chroot=self.zookeeper.chroot)
        self.zookeeper.on_session = on_session

    async def __aenter__(self) -> Self:
        self.zookeeper.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.zookeeper.is_open = False

    async def make_path(self, path: str) -> None:
        self.zookeeper.tree.create(path, parents=True)

    async def read_nodes(self, paths: Sequence[str], watch: OnWatch | None = None) -> list[Node | None]:
        self._watch(self.zookeeper.tree.watched, paths, watch)
        return [self.zookeeper.tree.nodes.get(path) for path in paths]

    async def read_children(self, paths: Sequence[str], watch: OnWatch | None = None) -> list[list[str] | None]:
        self._watch(self.zookeeper.tree.watched_children, paths, watch)
        children = self.zookeeper.tree.children
        return [[*children[path]] if path in children else None for path in paths]

    async def read_states(self, table: Any, rows: Any) -> States:
        return self.zookeeper.tree.read_states(table, rows)

    async def stat(self, path: str) -> Any:
        """The znode's stat: the owner's session for `/controller`; for "/" whether the chroot exists."""
        is_there = self.zookeeper.has_chroot if path == "/" else path in self.zookeeper.tree.nodes
        return SimpleNamespace(ephemeralOwner=self.zookeeper.owner) if is_there else None

    async def write(self, operations: Any, *, atomic: bool = False, fence: tuple[str, int]) -> list[OperationResult]:
        self._check(fence)
        tree = self.zookeeper.tree
        outcomes = tree.transaction(operations) if atomic else [tree.apply(each) for each in operations]
        self.zookeeper.tell()
        return outcomes

    async def write_states(self, table: Any, changes: Any, epoch: int, *, fence: tuple[str, int]) -> Any:
        self._check(fence)
        taken = np.array(self.zookeeper.tree.write_states(table, changes, epoch), np.bool_)
        self.zookeeper.tell()
        return taken

    async def delete_partitions(self, table: Any, rows: Any, *, fence: tuple[str, int]) -> None:
        self._check(fence)
        self.zookeeper.tree.delete_partitions(table, rows)
        self.zookeeper.tell()

    def _watch(self, watched: set[str], paths: Sequence[str], watch: OnWatch | None) -> None:
        if watch is not None:
            for path in paths:
                self.zookeeper.on_watch.setdefault(path, {})[watch] = None
            watched |= {*paths}

    def _check(self, fence: tuple[str, int]) -> None:
        self.zookeeper.before_write()
        path, version = fence
        if self.zookeeper.tree.nodes[path].version != version:
            raise ControllerMovedError("somebody else controls")


async def elect(client: Client, broker_id: int, timestamp_ms: int) -> ControllerEpoch:
    if client.zookeeper.controller is not None:
        raise ControllerMovedError("somebody else controls")
    return client.zookeeper.elected(broker_id, OURS)


async def take_over(client: Client, broker_id: int, timestamp_ms: int) -> ControllerEpoch:
    return client.zookeeper.elected(broker_id, OURS)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers use the fake client."""
    monkeypatch.setattr(zk_controller_server, "ZookeeperClient", Client)
    monkeypatch.setattr(election, "elect", elect)
    monkeypatch.setattr(election, "take_over", take_over)


def expired() -> None:
    raise SessionExpiredError("the session is gone")
