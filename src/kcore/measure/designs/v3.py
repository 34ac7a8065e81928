"""v3: a controller decides, writes the states, then sends requests to brokers directly."""

import asyncio
import time
from collections import defaultdict

import numpy as np

from kcore.controller.zk.decision import Decision, state_writes
from kcore.controller.zk.events import BrokerFailed
from kcore.controller.zk.zk_controller import ZkController
from kcore.errors import TargetError
from kcore.measure.designs.design import Design, done
from kcore.measure.hollow.zk.receivers import Arrival, Receivers
from kcore.measure.hollow.zk.tree import write_tree
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.metadata.zookeeper.znode_operations import SetData
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.schema import LeaderAndIsrRequest
from kcore.types import Int32s
from kcore.zookeeper.operations import Fence
from kcore.zookeeper.registration import elect, register_broker

CONTROLLER_ID = 30_001
_PLAINTEXT = SECURITY_PROTOCOLS["PLAINTEXT"]
_ADMIN = (znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_REPLICA_ELECTION)


class Controlled(Design):
    """Writes states in batches of a thousand, fenced by the controller's epoch, as kcore's controller does."""

    name = "v3 controller, direct RPC"

    async def open(self) -> None:
        self.receivers, self.connections = Receivers(self.table.brokers.ids.tolist()), dict[int, Connection]()
        self.hollow = self.receivers.open()
        for broker_id, hollow in self.hollow.items():
            self.connections[broker_id] = await connect("127.0.0.1", hollow.port, ask_versions=False)
        await super().open()

    async def close(self) -> None:
        await super().close()
        for connection in self.connections.values():
            await connection.close()
        await self.receivers.close()

    async def write_tree(self) -> None:
        [self.client] = self.others = [await self.session()]
        await write_tree(self.client, self.table)

    async def register(self, broker_id: int) -> None:
        endpoints = (Endpoint(self.hollow[broker_id].port, "127.0.0.1", "PLAINTEXT", _PLAINTEXT),)
        node = encode_broker(BrokerNode(endpoints), int(time.time() * 1000))
        epoch = await register_broker(self.brokers[broker_id], broker_id, node)
        self.hollow[broker_id].registered(epoch)
        self.table.brokers.register(broker_id, epoch, endpoints=endpoints)

    async def watch(self) -> None:
        """Sets the controller's watches, and each broker's watch on the controller."""
        ours = await elect(self.client, CONTROLLER_ID, int(time.time() * 1000))
        self.fence: Fence = (znodes.CONTROLLER_EPOCH, ours.version)
        self.controller = ZkController(CONTROLLER_ID, ours.epoch, self.table)
        lists = [znodes.TOPICS, znodes.DELETE_TOPICS, znodes.ISR_CHANGE_NOTIFICATION, znodes.LOG_DIR_EVENT_NOTIFICATION]
        await self.client.read_children(lists, lambda *_: None)
        topics = [znodes.topic_path(name) for name in self.table.topics.names]
        await self.client.read_nodes([*topics, *_ADMIN], lambda *_: None)
        for client in self.brokers.values():
            await client.read_nodes([znodes.CONTROLLER], lambda *_: None)
        await self._read(np.arange(len(self.table), dtype=np.int32))
        await self.client.read_children([znodes.BROKER_IDS], self._brokers_changed)

    async def _read(self, rows: Int32s) -> None:
        states = await self.client.read_states(self.table, rows)
        self.table.apply(states.changes, controller_epoch=states.controller_epochs, check_epochs=False)

    def _brokers_changed(self, path: str, kind: str) -> None:
        if self.others:
            self.work.start(self._failover())

    async def _failover(self) -> None:
        """The article's four steps; then the external view, after all brokers have acknowledged."""
        [names] = await self.client.read_children([znodes.BROKER_IDS], self._brokers_changed)
        [lost] = set(self.table.brokers.ids.tolist()) - {int(name) for name in names or []}
        led = self.led_by(lost)
        await self._read(self.table.index.rows(self.table.brokers.row(lost)))
        decision = self.controller.on_broker_failed(BrokerFailed((lost,)))
        await self.write_states(decision)
        self.controller.replay(decision)
        await self._send_requests(decision)
        self._learn(decision, led)
        await self.update_view(led)

    async def write_states(self, decision: Decision) -> None:
        """Writes the new states; the controller sends requests afterwards."""
        epoch = self.controller.controller_epoch
        taken = await self.client.write_states(self.table, decision.changes, epoch, fence=self.fence)
        if not taken.all():
            raise TargetError(f"{int((~taken).sum())} state writes were refused")

    async def _send_requests(self, decision: Decision) -> None:
        """Sends all requests of the decision, each body encoded once; returns when all responses have come."""
        answers = []
        for request in self.controller.requests(decision):
            fanout = request.fanout()
            for broker_id, epoch in zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True):
                body = fanout.buffers(epoch)
                self.rpc_bytes += sum(map(len, body))
                sent = self.connections[broker_id].send_bytes(fanout.message.api_key, fanout.version, *body)
                answers.append(sent)
        await asyncio.gather(*answers)

    def _learn(self, decision: Decision, led: Int32s) -> None:
        """Records when each broker got its last LeaderAndIsr request; TargetError if a partition is missing in them."""
        ids, replicas = self.table.brokers.ids, self.table.replicas__ps
        orders: defaultdict[int, list[Arrival]] = defaultdict(list)
        for broker_id, arrival in self.receivers.arrivals():
            if arrival.message is LeaderAndIsrRequest:
                orders[broker_id].append(arrival)
        for broker_id in self.brokers:
            row = self.table.brokers.row(broker_id)
            wanted = int((replicas[decision.changes.rows] == row).any(axis=1).sum())
            if sum(order.partitions for order in orders[broker_id]) != wanted:
                raise TargetError(f"broker {broker_id} did not get LeaderAndIsr for {wanted} partitions")
            for each in led[(replicas[led] == row).any(axis=1)].tolist():
                self.known.learnt(int(ids[row]), each, orders[broker_id][-1].at_ns)

    async def update_view(self, led: Int32s) -> None:
        """Does nothing: without a view, clients route by the states, and retry until the leader leads."""


class OneByOne(Controlled):
    """As in the article's calculation: one write per partition, each after the response to the one before."""

    name = "v3, states written one by one"

    async def write_states(self, decision: Decision) -> None:
        for write in state_writes(self.table, decision.changes, self.controller.controller_epoch):
            await done(self.client, [SetData(write.path, write.data, write.expected_version)])
