"""Fan-out: a broker fails or shuts down; measures the decision, its replay and the requests to every broker."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from kcore.controller.zk.decision import Decision
from kcore.controller.zk.events import BrokerFailed, ControlledShutdown
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller import ZkController
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.changes import arrays_of, moved_bytes
from kcore.measure.workloads.clusters import cluster_of
from kcore.measure.workloads.election_workload import middle_broker
from kcore.measure.workloads.measure import Operation
from kcore.metadata.table.partition_table import PartitionTable

CONTROLLER_ID, CONTROLLER_EPOCH = 1, 1
Sent: TypeAlias = tuple[ControlRequest, list[list[bytes | memoryview]]]  # A request, and its buffers for each broker.


class Story:
    """One event, with a controller in the state before it and another in the state after it.

    A second replay of a decision changes nothing, so every step can run any number of times.
    """

    def __init__(self, name: str, before: ZkController, event: BrokerFailed | ControlledShutdown) -> None:
        self.name = name
        self.before = before
        self.event = event
        self.after = ZkController(CONTROLLER_ID, CONTROLLER_EPOCH, before.table.copy())
        self.decision = self.decide()
        self.replay()

    def decide(self) -> Decision:
        if isinstance(self.event, BrokerFailed):
            return self.before.on_broker_failed(self.event)
        return self.before.on_controlled_shutdown(self.event)

    def replay(self) -> None:
        self.after.replay(self.decision)

    def requests(self) -> list[Sent]:
        """The requests and their buffers for each broker; a body is encoded once for all brokers that get it."""
        return [
            (request, [fanout.buffers(epoch) for epoch in request.broker_epochs.tolist()])
            for request in self.after.requests(self.decision)
            for fanout in [request.fanout()]
        ]

    def all_of_it(self) -> list[Sent]:
        self.decision = self.decide()
        self.replay()
        return self.requests()


def setup(cell: Cell, cluster: PartitionTable | None) -> list[Operation]:
    """The operations of both events, each for a broker in the middle."""
    controller = ZkController(CONTROLLER_ID, CONTROLLER_EPOCH, cluster_of(cell, cluster))
    row = middle_broker(controller.table)
    broker_id = int(controller.table.brokers.ids[row])
    handled = len(controller.table.index.rows(row))
    stories = (
        Story("broker fails", controller, BrokerFailed((broker_id,))),
        Story("controlled shutdown", controller, ControlledShutdown(broker_id, -1)),
    )
    return [operation for story in stories for operation in _operations(story, handled)]


def _operations(story: Story, handled: int) -> Iterator[Operation]:
    changes = story.decision.changes
    decided = moved_bytes(story.before.table, handled, changes)
    written = sum(array.nbytes for array in arrays_of(changes))
    sent = story.requests()
    encoded = sum(_length(brokers[0]) for _, brokers in sent)
    on_the_wire = sum(_length(buffers) for _, brokers in sent for buffers in brokers)
    yield Operation(f"{story.name}: decide", story.decide, lambda made: arrays_of(made.changes), handled, decided)
    yield Operation(f"{story.name}: replay", story.replay, lambda _: arrays_of(changes), len(changes), 2 * written)
    wire: dict[str, Any] = {"partitions": len(changes), "wire_bytes": on_the_wire}
    yield Operation(f"{story.name}: requests", story.requests, _digest_of_requests, moved_bytes=encoded, **wire)
    yield Operation(
        f"{story.name}: all", story.all_of_it, _digest_of_requests, moved_bytes=decided + 2 * written + encoded, **wire
    )


def _length(buffers: list[bytes | memoryview]) -> int:
    return sum(map(len, buffers))


def _digest_of_requests(requests: list[Sent]) -> Iterator[Any]:
    """Every byte that every broker gets."""
    for request, brokers in requests:
        for broker_id, buffers in zip(request.broker_ids.tolist(), brokers, strict=True):
            yield f"{request.message.__name__} {request.version} {broker_id}".encode()
            yield from buffers
