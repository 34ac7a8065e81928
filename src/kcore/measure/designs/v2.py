"""v2: one controller decides and writes to ZooKeeper. Replicas watch states; commands go through queues.

Each replica's broker watches /brokers/topics/<topic>/<partition>/leaderAndISR, since a new leader is urgent. Other
commands are written to /brokers/state/<id>. The leader also watches for its partition's reassignment.
"""

import numpy as np

from kcore.controller.zk.events import BrokerFailed
from kcore.controller.zk.zk_controller import ZkController
from kcore.measure.designs.design import Design, done
from kcore.measure.designs.state_queue import QueueReader, command, queue_nodes
from kcore.metadata.zookeeper.znode_json import encode_json
from kcore.metadata.zookeeper.znode_operations import Create, Operation, SetData
from kcore.metadata.zookeeper.znode_states import encode_states
from kcore.metadata.zookeeper.znodes import BROKER_IDS, PartitionStateNode, decode_state, encode_state
from kcore.zookeeper.session import OnWatch

REASSIGNED = "/admin/partitions_reassigned"


class StateQueues(Design):
    """All messages of the controller go through ZooKeeper."""

    name = "v2 leaderAndISR watched by every replica, a queue a broker"

    async def write_tree(self) -> None:
        [self.brain] = self.others = [await self.session()]
        self.readers: dict[int, QueueReader] = {}
        operations: list[Operation] = [*self.parents(), *queue_nodes(list(self.brokers)), Create("/admin")]
        operations.append(Create(REASSIGNED))
        for row in range(len(self.table)):
            state, path = self.table.state(row), self.partition_path(row)
            node = PartitionStateNode(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
            operations += [Create(path), Create(f"{path}/replicas", encode_json({"replicas": state.replicas}))]
            operations.append(Create(self._state_path(row), encode_state(node)))
        await done(self.brain, operations)

    async def watch(self) -> None:
        await self.brain.read_children([BROKER_IDS], lambda path, kind: self._brokers_changed())
        for broker_id, client in self.brokers.items():
            states = [(self._state_path(row), self._on_state(broker_id, row)) for row in self.held_by(broker_id)]
            # No partition is reassigned: these watches wait for a znode that is never created.
            moves = [(self._reassignment_path(row), _ignore) for row in self.led_by(broker_id).tolist()]
            await client.read_and_watch([*states, *moves])
            self.readers[broker_id] = QueueReader(client, broker_id, self.work, lambda command: None)
            await self.readers[broker_id].arm()

    async def close(self) -> None:
        for reader in self.readers.values():
            reader.is_open = False
        await super().close()

    # The broker's side.

    def _on_state(self, broker_id: int, row: int) -> OnWatch:
        def on_watch(path: str, kind: str) -> None:
            if broker_id in self.brokers:
                self.work.start(self._look(broker_id, row))

        return on_watch

    async def _look(self, broker_id: int, row: int) -> None:
        """Reads the state and watches for the next one. A new leader also watches for the partition's reassignment."""
        client, path = self.brokers[broker_id], self._state_path(row)
        [node] = await client.read_nodes([path], self._on_state(broker_id, row))
        assert node is not None
        self.known.learnt(broker_id, row)
        leads, led = decode_state(path, node.data).leader, self.table.leader__p[row]
        if leads == broker_id and led == self.table.brokers.row(self.lost):
            await client.read_nodes([self._reassignment_path(row)], _ignore)

    def _state_path(self, row: int) -> str:
        return f"{self.partition_path(row)}/leaderAndISR"

    def _reassignment_path(self, row: int) -> str:
        topic, partition = self.table.topics.names[self.table.topic_row__p[row]], self.table.partition_index__p[row]
        return f"{REASSIGNED}/{topic}/{partition}"

    # The controller's side.

    def _brokers_changed(self) -> None:
        if self.others:
            self.work.start(self._failover())

    async def _failover(self) -> None:
        """Reads the lost broker's states, writes new ones, then commands each replica of the changed partitions."""
        [names] = await self.brain.read_children([BROKER_IDS], lambda path, kind: self._brokers_changed())
        [lost] = set(self.table.brokers.ids.tolist()) - {int(name) for name in names or []}
        rows = self.held_by(lost)
        found = await self.brain.read_nodes([self._state_path(row) for row in rows])
        versions = {row: node.version for row, node in zip(rows, found, strict=True) if node is not None}
        changes = ZkController(0, 1, self.table).on_broker_failed(BrokerFailed((lost,))).changes
        states = encode_states(changes, 1)
        await done(
            self.brain,
            (
                SetData(self._state_path(row), states.at(at), versions[row])
                for at, row in enumerate(changes.rows.tolist())
            ),
        )
        replicas = self.table.brokers.ids[self.table.replicas__ps[changes.rows]]
        for broker_id in np.unique(replicas).tolist():
            if broker_id in self.brokers:
                concerned = changes.rows[(replicas == broker_id).any(axis=1)]
                await command(self.brain, broker_id, encode_json({"start_replica": concerned.tolist()}))


def _ignore(path: str, kind: str) -> None:
    """The callback of watches that are only counted."""
