"""Runs the hollow brokers of one ZooKeeper-mode cluster: listeners in this process, registrations in ZooKeeper."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kcore.errors import TargetError
from kcore.measure.hollow.zk.receivers import Arrival, Receiver, Receivers
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.zookeeper.znode_operations import Delete, SetData
from kcore.metadata.zookeeper.znodes import broker_path
from kcore.schema.structure import Message
from kcore.zookeeper.operations import Ephemeral, first_error

if TYPE_CHECKING:
    from kcore.measure.hollow.zk.broker_session import BrokerSession
    from kcore.zookeeper.client import ZookeeperClient

POLL_S: Final = 0.05
LISTENER: Final = "PLAINTEXT"


class HollowFleet:
    """Hollow brokers with one ZooKeeper session for all: `lose` deletes a broker's znode, as if its own session ended.

    A broker that will be killed has its own session (`register_to_die`).
    """

    def __init__(self, client: "ZookeeperClient", racks: Mapping[int, str | None]) -> None:
        """`racks`: the rack of each broker by id."""
        self.client = client
        self._racks = racks
        self.brokers: dict[int, Receiver] = {}  # By id; empty before `open`.
        self._receivers = Receivers(racks)
        self.live: set[int] = set()
        self._sessions: dict[int, BrokerSession] = {}

    async def open(self) -> None:
        """Makes all brokers listen, without registering them."""
        self.brokers = self._receivers.open()

    async def close(self) -> None:
        for session in self._sessions.values():
            session.cut()
        await self._receivers.close()

    async def register(self, ids: Iterable[int]) -> None:
        """Registers each broker as a new incarnation."""
        from kcore.zookeeper.registration import register_broker  # Imports kazoo, which a KRaft storm does not need.

        for broker_id in ids:
            self._is_live(broker_id, await register_broker(self.client, broker_id, self._data(broker_id)))

    async def register_to_die(self, broker_id: int) -> None:
        """Registers a new incarnation with a ZooKeeper session of its own, which `kill` cuts."""
        from kcore.measure.hollow.zk.broker_session import BrokerSession

        session = BrokerSession(self.client.session.hosts)
        await session.open()
        self._sessions[broker_id] = session
        self._is_live(broker_id, await session.create(broker_path(broker_id), self._data(broker_id)))

    async def lose(self, broker_id: int) -> None:
        """Deletes the broker's znode."""
        self.live.discard(broker_id)
        await self.client.write([Delete(broker_path(broker_id))])

    def kill(self, broker_id: int) -> bool:
        """Cuts the connection of the broker's own session, whose time-out then runs; False without such a session."""
        if (session := self._sessions.pop(broker_id, None)) is None:
            return False
        self.live.discard(broker_id)
        session.cut()
        return True

    async def gone(self, broker_id: int, then: Callable[[], None]) -> None:
        """Waits until the broker's znode does not exist, then calls `then` and returns."""
        removed = asyncio.Event()

        def changed(path: str, kind: str) -> None:
            if kind == "deleted":
                then()
                removed.set()

        if (await self.client.read_nodes([broker_path(broker_id)], watch=changed))[0] is None:
            then()
            return
        await removed.wait()

    async def bounce(self, broker_id: int) -> None:
        """Deletes and creates the broker's znode in one transaction, so that no controller finds it missing."""
        path = broker_path(broker_id)
        done = await self.client.transaction([Delete(path), Ephemeral(path), SetData(path, self._data(broker_id), 0)])
        if done.errors.any():
            raise TargetError(f"{path}: ZooKeeper answers {first_error(done.errors)[1]}")
        self._is_live(broker_id, int(done.zxids[0, 2]))

    def _is_live(self, broker_id: int, epoch: int) -> None:
        self.live.add(broker_id)
        self.brokers[broker_id].registered(epoch)

    def _data(self, broker_id: int) -> bytes:
        endpoint = Endpoint(self.brokers[broker_id].port, "127.0.0.1", LISTENER, SECURITY_PROTOCOLS[LISTENER])
        return encode_broker(BrokerNode((endpoint,), self._racks[broker_id]), int(time.time() * 1000))

    def forget(self) -> None:
        """Drops the requests received so far."""
        self._receivers.forget()

    def arrivals(self) -> list[tuple[int, Arrival]]:
        """The requests received since `forget`, in order of time, each with the id of its broker."""
        return self._receivers.arrivals()

    def partitions_sent(self, broker_id: int, message: type[Message]) -> int:
        """The number of partitions in the requests of this type that a broker has received since `forget`."""
        return self._receivers.partitions_sent(self.brokers[broker_id], message)

    async def until(self, what: str, so: Callable[[], bool], timeout_s: float) -> None:
        """Returns when the condition `so` holds; TargetError, which names `what`, after the time-out."""
        end = time.monotonic() + timeout_s
        while not self._holds(so):
            if time.monotonic() > end:
                raise TargetError(f"waited {timeout_s:g} s in vain for {what}")
            for broker_id, session in self._sessions.items():
                if session.has_ended:
                    raise TargetError(f"ZooKeeper ended the session of broker {broker_id}: is this machine too busy?")
            await asyncio.sleep(POLL_S)

    def _holds(self, so: Callable[[], bool]) -> bool:
        self._receivers.drain()
        return so()

    async def quiet(self, quiet_s: float, timeout_s: float) -> None:
        """Returns when no request has arrived for `quiet_s` seconds."""
        since = time.monotonic_ns()

        def is_quiet() -> bool:
            return time.monotonic_ns() - max(self._receivers.last_ns, since) > quiet_s * 1e9

        await self.until("the controller to be quiet", is_quiet, timeout_s)
