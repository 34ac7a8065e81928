"""The controller of one node, as the state machine on a raft node: events in, appends and answers out.

The controller is a Standby, or Active while its node leads. Source: QuorumController.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import ClassVar, TypeVar

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.active import Active
from kcore.controller.kraft.controller_state import ControllerState
from kcore.controller.kraft.kraft_context import ControllerContext, RaftView, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.log_lines import Notices
from kcore.controller.kraft.outputs import Clocks, Outputs
from kcore.controller.kraft.periodic import PeriodicTasks, Task
from kcore.controller.kraft.standby import Standby
from kcore.metadata.image.image import ClusterImage
from kcore.raft.state_machine import AnyAppend, SnapshotReader
from kcore.replication.java_random import JavaRandom
from kcore.schema.structure import Message
from kcore.types import Uuid

Role = TypeVar("Role", Active, Standby)


class KraftController:
    """The controller of one node. Every method `on_...` is one event and returns its outputs in order."""

    reads_batches: ClassVar[bool] = True

    def __init__(
        self,
        config: KraftControllerConfig,
        bootstrap: Bootstrap,
        tasks: Sequence[Task],
        clocks: Clocks,
        random: JavaRandom,
        new_uuid: Callable[[], Uuid],
        raft: RaftView | None = None,
    ) -> None:
        """`bootstrap`: the records for an empty log. `random` and `new_uuid`: as in ControllerContext.

        `raft`: the facts about the raft node; None: those of a controller without a raft node.
        """
        raft = raft or RaftView()
        new_context = partial(ControllerContext, config, random=random, new_uuid=new_uuid)
        self._state = ControllerState(config, bootstrap, clocks, raft, new_context)
        self._role: Active | Standby = Standby(self._state, iter(()))
        self.config, self.raft, self.snapshots = config, raft, self._state.snapshots
        self.periodic, self._notices = PeriodicTasks(tasks), Notices()

    @property
    def context(self) -> ControllerContext:
        """The state, settings and indexes that handlers read."""
        return self._state.context

    @property
    def image(self) -> ClusterImage:
        """The state after all decisions, committed or not."""
        return self._state.image

    @property
    def committed(self) -> int:
        """All records below this offset are committed."""
        return self._state.committed

    @property
    def epoch(self) -> int | None:
        """The epoch that this node leads; None for a standby."""
        return self._role.epoch

    @property
    def is_active(self) -> bool:
        """True if this controller is the active one of its quorum."""
        return isinstance(self._role, Active)

    @property
    def stable(self) -> int:
        """All records below this offset are committed and outside an open transaction of this node."""
        return self._role.stable

    @property
    def is_at_work(self) -> bool:
        """True while the standby still applies committed records or reverts uncommitted ones (StateMachine)."""
        return self._role.is_at_work

    @property
    def is_busy(self) -> bool:
        """True if requests that change the state must wait."""
        return self._role.is_busy

    @property
    def next_due_ms(self) -> int | None:
        """The time of the next `on_timer`; None if no task is scheduled, or while a long decision delays all tasks."""
        return self._role.next_due_ms

    def snapshot_offset(self) -> int | None:
        """The offset at which a snapshot may end now; None while a transaction of another node is open (KIP-868)."""
        return self._role.snapshot_offset()

    def on_request(self, request: Message, info: RequestInfo, reply_to: Hashable) -> Outputs:
        """Handle a request that HANDLERS names. The answer is among the outputs of this event or of a later one."""
        return self._role.on_request(request, info, reply_to)

    def on_work(self) -> Outputs:
        """Continue the work for which an output was WorkOn."""
        return self._role.on_work()

    def on_timer(self) -> Outputs:
        """Run the periodic tasks that are due; may be called at any time."""
        return self._role.on_timer()

    def on_read_slice(self) -> Outputs:
        """Read a slice of the snapshot, after the output ReadSnapshotSlice."""
        return _as(Standby, self._role).on_read_slice()

    # Events of the raft node (kcore.raft.state_machine.StateMachine).

    def on_leader(self, epoch: int, offset: int) -> Outputs:
        _as(Standby, self._role).finish()
        self._role = active = Active(self._state, epoch, offset, self.periodic, self._notices)
        return active.activate()

    def on_resigned(self, epoch: int) -> Outputs:
        active = _as(Active, self._role)
        self._role = standby = Standby(self._state, active.pipeline.reverting())
        return [*active.resign(), *standby.on_work()]

    def on_committed(self, batches: bytes, end_offset: int) -> Outputs:
        return self._role.on_committed(batches, end_offset)

    def on_refused(self, append: AnyAppend, next_offset: int) -> Outputs:
        return _as(Active, self._role).on_refused(append, next_offset)

    def on_snapshot(self, reader: SnapshotReader) -> Outputs:
        return _as(Standby, self._role).on_snapshot(reader)


def _as(kind: type[Role], role: Active | Standby) -> Role:
    """The role that an event needs. AssertionError for another one: no correct raft node calls in this order."""
    assert isinstance(role, kind), f"an event of {kind.__name__} came to {type(role).__name__}"
    return role
