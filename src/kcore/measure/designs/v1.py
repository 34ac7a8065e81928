"""v1: no controller. The first replica that creates the leader znode leads; every replica watches every leader.

/brokers/topics/<topic>/<partition>/leader is an ephemeral znode of the leader, which also writes .../ISR.
"""

import json

from kcore.measure.designs.design import Design, done
from kcore.metadata.zookeeper.znode_json import encode_json
from kcore.metadata.zookeeper.znode_operations import Create, Operation, OperationResult, SetData
from kcore.zookeeper.operations import Ephemeral
from kcore.zookeeper.session import OnWatch


class LeaderWatchers(Design):
    """When a leader's znode is removed, each replica in the ISR tries to create it."""

    name = "v1 leader znodes, watched by every replica"

    async def write_tree(self) -> None:
        [writer] = self.others = [await self.session()]
        await done(writer, self.parents())
        operations: list[Operation] = []
        for row in range(len(self.table)):
            path, replicas = self.partition_path(row), encode_json({"replicas": self._replicas(row)})
            operations += [Create(path), Create(f"{path}/replicas", replicas)]
            operations.append(Create(f"{path}/ISR", encode_json({"ISR": self._replicas(row)})))
        await done(writer, operations)
        for broker_id, client in self.brokers.items():
            led = self.led_by(broker_id).tolist()
            await done(client, [Ephemeral(self._leader_path(row), b"%d" % broker_id) for row in led])

    async def watch(self) -> None:
        for broker_id, client in self.brokers.items():
            rows = self.held_by(broker_id)
            await client.read_and_watch([(self._leader_path(row), self._on_watch(broker_id, row)) for row in rows])

    def _leader_path(self, row: int) -> str:
        return f"{self.partition_path(row)}/leader"

    def _replicas(self, row: int) -> list[int]:
        ids: list[int] = self.table.brokers.ids[self.table.replicas__ps[row]].tolist()
        return ids

    def _on_watch(self, broker_id: int, row: int) -> OnWatch:
        def on_watch(path: str, kind: str) -> None:
            if broker_id in self.brokers:
                self.work.start((self._stand if kind == "deleted" else self._look)(broker_id, row))

        return on_watch

    async def _look(self, broker_id: int, row: int) -> None:
        """Reads the leader, and watches for its removal or a new leader."""
        client = self.brokers[broker_id]
        [leader] = await client.read_nodes([self._leader_path(row)], self._on_watch(broker_id, row))
        if leader is not None:
            self.known.learnt(broker_id, row)

    async def _stand(self, broker_id: int, row: int) -> None:
        """Tries to become leader if the broker is in the ISR. The winner removes the lost broker from the ISR."""
        client, path = self.brokers[broker_id], self.partition_path(row)
        [isr] = await client.read_nodes([f"{path}/ISR"])
        assert isr is not None
        if broker_id in json.loads(isr.data)["ISR"]:
            [outcome] = await client.write([Ephemeral(self._leader_path(row), b"%d" % broker_id)])
            if outcome is OperationResult.DONE:
                left = [each for each in self._replicas(row) if each != self.lost]
                await done(client, [SetData(f"{path}/ISR", encode_json({"ISR": left}), isr.version)])
        await self._look(broker_id, row)
