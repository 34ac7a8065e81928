"""The external view: v3, and clients' routing data that is written only after the brokers' responses."""

from abc import abstractmethod

from kcore.errors import TargetError
from kcore.measure.designs.design import CLIENT, done
from kcore.measure.designs.v3 import Controlled
from kcore.metadata.zookeeper.znode_json import encode_json
from kcore.metadata.zookeeper.znode_operations import Create, Operation, SetData
from kcore.types import Int32s
from kcore.zookeeper.operations import MAX_TRANSACTION_BYTES
from kcore.zookeeper.session import OnWatch

VIEW = "/external_view"


class WithView(Controlled):
    """v3 with a view, and one client of all partitions that watches the view."""

    async def write_tree(self) -> None:
        await super().write_tree()
        self.reader = await self.session()
        self.others.append(self.reader)
        await done(self.client, self.first_view())

    async def watch(self) -> None:
        await super().watch()
        await self.reader.read_and_watch([(path, self._on_view(path, rows)) for path, rows in self.view().items()])

    @property
    def routes(self) -> bool:
        return True

    def _on_view(self, path: str, rows: list[int]) -> OnWatch:
        def on_watch(_: str, kind: str) -> None:
            if self.others:
                self.work.start(self._look(path, rows))

        return on_watch

    async def _look(self, path: str, rows: list[int]) -> None:
        """Reads the view's leaders, and watches for the next change."""
        await self.reader.read_nodes([path], self._on_view(path, rows))
        for row in rows:
            self.routed.learnt(CLIENT, row)

    def leader(self, row: int) -> int:
        """The broker id of the partition's leader; -1 if it has none."""
        broker_row = int(self.table.leader__p[row])
        return int(self.table.brokers.ids[broker_row]) if broker_row >= 0 else -1

    @abstractmethod
    def first_view(self) -> list[Operation]:
        """Creates for the znodes of the view."""

    @abstractmethod
    def view(self) -> dict[str, list[int]]:
        """The znodes that a client watches, each with the rows of its partitions."""


class OneView(WithView):
    """The view in one znode: the fewest writes, but each change notifies every client."""

    name = "v3, one external view for all"

    def first_view(self) -> list[Operation]:
        return [Create(VIEW, self._whole())]

    def view(self) -> dict[str, list[int]]:
        return {VIEW: list(range(len(self.table)))}

    async def update_view(self, led: Int32s) -> None:
        await done(self.client, [SetData(VIEW, self._whole())])

    def _whole(self) -> bytes:
        names = self.table.topics.names
        leaders = {name: [self.leader(row) for row in self.table.rows_of_topic(name).tolist()] for name in names}
        data = encode_json(leaders)
        if len(data) > MAX_TRANSACTION_BYTES:
            raise TargetError(f"one view is {len(data):,} bytes: more than a znode can hold")
        return data


class ViewAPartition(WithView):
    """A view of one znode per partition: a client is notified only of the partitions that it uses."""

    name = "v3, an external view a partition"

    def first_view(self) -> list[Operation]:
        topics = [Create(f"{VIEW}/{name}") for name in self.table.topics.names]
        views = [Create(path, b"%d" % self.leader(row)) for path, [row] in self.view().items()]
        return [Create(VIEW), *topics, *views]

    def view(self) -> dict[str, list[int]]:
        return {self._path(row): [row] for row in range(len(self.table))}

    async def update_view(self, led: Int32s) -> None:
        await done(self.client, [SetData(self._path(row), b"%d" % self.leader(row)) for row in led.tolist()])

    def _path(self, row: int) -> str:
        return f"{VIEW}/{self.table.topics.names[self.table.topic_row__p[row]]}/{self.table.partition_index__p[row]}"
