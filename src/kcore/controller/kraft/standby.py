"""A standby, which is a controller that is not active: its answers, and how it follows the log.

By default a standby answers NOT_CONTROLLER at once to all requests except reads. In Kafka's way
("standbys-check-first") it first makes the checks that Kafka's ControllerApis makes before it calls its controller. If
a check fails, or no part of the request needs the controller, the standby sends the same answer as the active one.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

from kcore.controller.kraft.controller_state import ControllerState
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.departures import STANDBYS
from kcore.controller.kraft.handlers import HANDLERS, READS
from kcore.controller.kraft.kraft_context import ControllerContext, NotControllerError, RequestInfo
from kcore.controller.kraft.kraft_error_responses import not_controller
from kcore.controller.kraft.log_lines import log_lines
from kcore.controller.kraft.outputs import Outputs, ReadSnapshotSlice, RequestAnswer, WorkOn
from kcore.controller.kraft.pending import Pending
from kcore.controller.kraft.snapshot_loading import SnapshotLoading
from kcore.metadata.newer_records import check_records
from kcore.raft.state_machine import SnapshotReader
from kcore.releases.known import RELEASES
from kcore.schema.acls import CreateAclsResponse
from kcore.schema.structure import Message
from kcore.steps import finished
from kcore.wire.records import decode_records


class Standby:
    """Replays commits and reverts uncommitted records in parts, so that the node answers votes between the parts.

    An event that needs the committed state calls `finish` first.
    """

    epoch: ClassVar[None] = None
    next_due_ms: ClassVar[None] = None
    is_busy: ClassVar[bool] = False

    def __init__(self, state: ControllerState, parts: Iterator[None]) -> None:
        """`parts`: revert the records of the leadership before; the caller calls `on_work` next."""
        self._state, self._parts = state, parts
        self._loading: SnapshotLoading | None = None
        self.is_at_work = False  # True if there may be more parts.

    @property
    def stable(self) -> int:
        return self._state.committed

    def snapshot_offset(self) -> int | None:
        self.finish()
        return None if self._state.image.in_transaction else self.stable

    def on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> Outputs:
        """Answer a read from the committed state, and any other request with NOT_CONTROLLER."""
        state = self._state
        if not isinstance(request, READS) and STANDBYS not in state.config.kafka_way:
            return [RequestAnswer(reply_to, not_controller(request, state.config, state.raft.leader_id))]
        self.finish()
        pending = Pending(type(request).__name__, lambda: _checked(state.context, request, info), request)
        decision = pending.begin(state.context)
        assert isinstance(decision, Decision)  # A standby decides without parts.
        return [*pending.fault_lines, RequestAnswer(reply_to, decision.response)]

    def on_timer(self) -> Outputs:
        return []

    def on_work(self) -> Outputs:
        """Run the next part; the output says whether there may be more. Raises the errors of the parts."""
        self.is_at_work = next(self._parts, self) is None
        return [WorkOn()] if self.is_at_work else []

    def finish(self) -> None:
        """Run all remaining parts: afterwards the state is the committed state."""
        while self.on_work():
            pass

    def on_committed(self, batches: bytes, end_offset: int) -> Outputs:
        self.finish()
        self._parts = self._follow(batches, end_offset)
        return self.on_work()

    def _follow(self, batches: bytes, end_offset: int) -> Iterator[None]:
        state, image = self._state, self._state.image
        if batches:
            records = decode_records(batches)
            check_records(records, RELEASES[state.config.node.release], start_offset=image.end_offset)
            state.snapshots.shadow.on_replayed(batches)
            yield from state.replay(records)
        image.end_offset = max(image.end_offset, end_offset)
        state.committed = end_offset
        state.commit(end_offset)

    def on_snapshot(self, reader: SnapshotReader) -> Outputs:
        self.finish()
        self._loading = SnapshotLoading(reader, self._state.config)
        return [ReadSnapshotSlice()]

    def on_read_slice(self) -> Outputs:
        """Read a slice of the snapshot; after the last slice, replace the state by the snapshot's state."""
        loading = self._loading
        if loading is None:
            return ()
        if loading.read_slice():
            return [ReadSnapshotSlice()]
        self._loading = None
        if loading.is_lost:
            return ()
        self._state.load(loading)
        (offset, epoch), count = loading.snapshot, self._state.image.table.partition_count
        return log_lines([f"snapshot {offset}-{epoch} is loaded: {count:,} partitions"])


def _checked(context: ControllerContext, request: Message, info: RequestInfo) -> Decision:
    """The answer of the request's handler on the committed state; NOT_CONTROLLER if it calls the controller."""
    try:
        decided = HANDLERS[type(request)](context, request, info)
        # Handlers do little before `call_controller`, so all parts run at once.
        decision = decided if isinstance(decided, Decision) else finished(decided)
    except NotControllerError as error:
        response = not_controller(request, context.config, context.raft.leader_id)
        if isinstance(response, CreateAclsResponse):  # Only CreateAcls keeps the errors of its items.
            response.results = [error.refused.get(place, each) for place, each in enumerate(response.results)]
        return Decision(response)
    assert not decision.records, "a handler makes records without `call_controller`"
    return decision
